"""Resuming a study with another definition: what may change is taken up, said and recorded; all trials are kept.

Stored values must keep their meaning. So the names and types of the parameters, the names and the order of the
fidelities, and the direction cannot change. Everything else can: bounds and scales, choices, parameter constraints,
items and descriptors of catalogues, costs, inputs of fidelities, the strategy with its options, the seed, the initial
design, budget and timeouts. A new cost holds for new trials. Constraints on outcomes can change if every observation
has the outcomes that they name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain

from fidelium.catalogue import Catalogue, catalogue_differences
from fidelium.costs.declared import formula_text
from fidelium.definition import StudyDefinition
from fidelium.errors import SettingError
from fidelium.fidelity import Fidelity
from fidelium.history import Trial
from fidelium.space import Categorical, Integer, Parameter, Real, SearchSpace
from fidelium.storage.base import StudyStore
from fidelium.study.repair import user_name

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def resumed(stored: StudyDefinition, new: StudyDefinition, *, keep_seed: bool = False) -> StudyDefinition:
    """The definition to resume a study with: the new one, with what it leaves to us as it is stored.

    Args:
        stored: the definition in the storage.
        new: what the user wants now.
        keep_seed: whether the new seed was drawn at random.

    Raises:
        SettingError: if stored values would mean something else under the new definition.
    """
    _check_same_problem(stored, new)
    old = stored.space.parameters
    same = sorted(stored.space.constraints) == sorted(new.space.constraints)
    constraints = (stored if same else new).space.constraints
    space = SearchSpace({name: _kept_order(old[name], new.space.parameters[name]) for name in old}, constraints)
    initial = stored if new.default_initial else new
    return replace(
        new,
        space=space,
        ladder=new.ladder.priced(space),
        seed=stored.seed if keep_seed else new.seed,
        initial=initial.initial,
        default_initial=initial.default_initial,
        limits=new.limits or stored.limits,
    )


def take_up(
    store: StudyStore, new: StudyDefinition, announce: Callable[[str], None], *, keep_seed: bool
) -> StudyDefinition:
    """Resume a stored study with a new definition, which replaces the stored one; every difference is announced.

    Args:
        store: the study.
        new: what the user wants now.
        announce: called with a line for every difference.
        keep_seed: whether the new seed was drawn at random.

    Returns:
        The definition to resume with.

    Raises:
        SettingError: if stored values would mean something else under the new definition; nothing changes.
    """
    stored = store.definition
    definition = resumed(stored, new, keep_seed=keep_seed)
    changes = differences(stored, definition)
    if changes:
        trials = store.trials()
        check_outcomes(trials, definition)
        store.redefine(definition, user_name(), "; ".join(changes))
        for change in changes:
            announce(f"{change}; {len(trials)} trial{'' if len(trials) == 1 else 's'} kept")
        if remark := _outside(trials, definition.space):
            announce(remark)
    return definition


def differences(stored: StudyDefinition, new: StudyDefinition) -> tuple[str, ...]:
    """What differs between two definitions of the same problem, each as `what: before -> now`."""
    parameters = (
        _parameter_differences(name, stored.space.parameters[name], now) for name, now in new.space.parameters.items()
    )
    costs = (
        f"cost of {now.name}: {formula_text(before.cost, '.12g')} -> {formula_text(now.cost, '.12g')} for new trials"
        for before, now in zip(stored.ladder, new.ladder, strict=True)
        if before.cost != now.cost and _function_name(before.cost) != _function_name(now.cost)
    )
    inputs = (
        f"inputs of {now.name}: {_inputs_text(before)} -> {_inputs_text(now)}"
        for before, now in zip(stored.ladder, new.ladder, strict=True)
        if set(before.inputs or stored.space.names) != set(now.inputs or new.space.names)
    )
    settings = [
        f"{what}: {before} -> {now}"
        for what, before, now in (
            ("parameter constraints", _listed(stored.space.constraints), _listed(new.space.constraints)),
            ("strategy", _strategy_text(stored), _strategy_text(new)),
            ("seed", str(stored.seed), str(new.seed)),
            ("initial design", _initial_text(stored), _initial_text(new)),
            ("constraints", _listed(stored.constraints), _listed(new.constraints)),
            ("model of failures", _switch(stored.failures_teach), _switch(new.failures_teach)),
            ("timeouts as failures of the design", _switch(stored.timeouts_teach), _switch(new.timeouts_teach)),
            ("costs that count", stored.cost, new.cost),
        )
        if before != now
    ]
    limits = _limit_differences(stored.limits, new.limits)
    return (*chain.from_iterable(parameters), *costs, *inputs, *settings, *limits)


def _limit_differences(stored: Mapping[str, float], new: Mapping[str, float]) -> Iterable[str]:
    for what in dict.fromkeys((*stored, *new)):
        before, now = (f"{limits[what]:.12g}" if what in limits else "none" for limits in (stored, new))
        if before != now and (stored or what == "budget"):  # older versions have recorded none
            yield f"{what}: {before if stored else 'not recorded'} -> {now}"


def _check_same_problem(stored: StudyDefinition, new: StudyDefinition) -> None:
    old, now = stored.space.parameters, new.space.parameters
    kinds = [
        f"parameter {name!r} is now {type(now[name]).__name__} instead of {type(old[name]).__name__}"
        for name in now
        if name in old and type(now[name]) is not type(old[name])
    ]
    reasons = [
        *(f"parameter {name!r} was added" for name in now if name not in old),
        *(f"parameter {name!r} was removed" for name in old if name not in now),
        *kinds,
    ]
    if stored.ladder.names != new.ladder.names:
        reasons.append(f"the fidelities were {', '.join(stored.ladder.names)} and are {', '.join(new.ladder.names)}")
    if stored.direction != new.direction:
        reasons.append(f"the direction was {stored.direction} and is {new.direction}")
    if reasons:
        raise SettingError(
            f"the stored study {new.stored_name!r} is about another problem: {'; '.join(reasons)}; give the new one "
            "another name, and take over the data that fit with: fidelium run NEW.yaml --from OLD.yaml"
        )


def check_outcomes(trials: tuple[Trial, ...], new: StudyDefinition) -> None:
    """Refuse constraints on outcomes that a stored observation does not have.

    Raises:
        SettingError: if one has not.
    """
    for trial in trials:
        for each in new.constraints:
            if trial.is_observation and each.name not in trial.outcomes:
                raise SettingError(
                    f"trial {trial.number} has no outcome {each.name!r}, which the constraint '{each}' names; it has "
                    f"{', '.join(trial.outcomes) or 'none'}: exclude such trials (fidelium exclude), or give the new "
                    "study another name"
                )


def _inputs_text(rung: Fidelity) -> str:
    return "all" if rung.inputs is None else ", ".join(rung.inputs)


def _function_name(cost: object) -> object:
    """The cost, or the name of the function that computes it: a storage has no more of it."""
    return cost if isinstance(cost, (int, float, str)) else formula_text(cost)


def _listed(constraints: Iterable[object]) -> str:
    return ", ".join(map(str, constraints)) or "none"


def _switch(on: bool) -> str:
    return "on" if on else "off"


def _kept_order(old: Parameter, new: Parameter) -> Parameter:
    """The new parameter, or the old one if only the order of its choices or the type of its bounds differs."""
    if isinstance(old, Categorical) and isinstance(new, Categorical) and not any(_choice_differences(old, new)):
        return old
    if isinstance(old, Catalogue) and isinstance(new, Catalogue) and not catalogue_differences("", old, new):
        return old
    return old if old == new else new


def _parameter_differences(name: str, old: Parameter, new: Parameter) -> Iterable[str]:
    if isinstance(old, Catalogue) and isinstance(new, Catalogue):
        return catalogue_differences(name, old, new)
    if isinstance(old, Categorical) and isinstance(new, Categorical):
        removed, added = _choice_differences(old, new)
        changed = [
            f"{what} {', '.join(map(repr, found))}" for what, found in (("added", added), ("removed", removed)) if found
        ]
        return [f"choices of {name}: {' and '.join(changed)}"] if changed else []
    if not isinstance(old, Real | Integer) or not isinstance(new, Real | Integer):
        return [] if old == new else [f"{name}: {old!r} -> {new!r}"]
    scale = {True: "logarithmic", False: "linear"}
    bounds = [f"bounds of {name}: {old.low:.12g}..{old.high:.12g} -> {new.low:.12g}..{new.high:.12g}"]
    scales = [f"scale of {name}: {scale[bool(old.log)]} -> {scale[bool(new.log)]}"]
    return [
        *(bounds if (old.low, old.high) != (new.low, new.high) else []),
        *(scales if bool(old.log) != bool(new.log) else []),
    ]


def _choice_differences(old: Categorical, new: Categorical) -> tuple[list[object], list[object]]:
    """The choices that were removed, and those that were added."""
    before, now = SearchSpace({"it": old}), SearchSpace({"it": new})
    removed: list[object] = [choice for choice in old.choices if not now.contains({"it": choice})]
    added: list[object] = [choice for choice in new.choices if not before.contains({"it": choice})]
    return removed, added


def _strategy_text(definition: StudyDefinition) -> str:
    """The strategy with its options; without addresses, which change with every process."""
    options = f" with {dict(definition.strategy_options)}" if definition.strategy_options else ""
    return _ADDRESS.sub("", f"{definition.strategy_name}{options}")


def _initial_text(definition: StudyDefinition) -> str:
    sizes = ", ".join(f"{count} {name}" for name, count in definition.initial.items())
    return f"{sizes} (by default)" if definition.default_initial else sizes


def _outside(trials: tuple[Trial, ...], space: SearchSpace) -> str:
    """What happens to the trials that are outside of the bounds or violate constraints; empty if there are none."""
    outside = [trial for trial in trials if not space.contains(trial.params)]
    used = sum(trial.is_observation and space.place(trial.params) is not None for trial in outside)
    if not outside:
        return ""
    what = "bounds or violate parameter constraints" if space.constraints else "bounds"
    return (
        f"{len(outside)} of {len(trials)} trials are outside of the present {what}: they stay in the record and are "
        f"never suggested again or the best; {used} of them are near enough to stay in the model"
    )
