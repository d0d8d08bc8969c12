"""Studies: the search for the best design of one objective, with everything it has learned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from fidelium.constraints import OutcomeConstraint
from fidelium.costs.declared import StoredCost
from fidelium.definition import DECLARED, StudyDefinition
from fidelium.errors import SettingError, StudyExistsError, UnknownNameError
from fidelium.execution.base import Objective
from fidelium.fidelity import Fidelity
from fidelium.space import Parameter, SearchSpace
from fidelium.storage import Storage, open_storage
from fidelium.storage.base import StudyStore
from fidelium.strategies import registry
from fidelium.strategies.base import Strategy
from fidelium.study.redefinition import resumed, take_up
from fidelium.study.stopping import Stop
from fidelium.study.study import Study
from fidelium.study.trial import LiveTrial, RecommendedDesign

__all__ = [
    "LiveTrial",
    "Objective",
    "RecommendedDesign",
    "Stop",
    "Study",
    "create_study",
    "load_study",
    "optimize",
    "start_study",
    "view_study",
]

_log = logging.getLogger("fidelium.study")


def create_study(
    space: SearchSpace | Mapping[str, Parameter],
    ladder: Iterable[Fidelity],
    *,
    direction: str,
    strategy: str | Strategy = registry.DEFAULT,
    strategy_options: Mapping[str, Any] | None = None,
    seed: int | None = 0,
    storage: str | Storage | None = None,
    name: str | None = None,
    initial: Mapping[str, int] | None = None,
    load_if_exists: bool = False,
    constraints: Iterable[str | OutcomeConstraint] = (),
    failure_model: bool = True,
    cost: str = DECLARED,
) -> Study:
    """A new study. Everything is checked here, before anything is computed.

    Args:
        space: the parameters, by name.
        ladder: the fidelities from low to high; the last is the target, whose best design is wanted.
        direction: "maximize" or "minimize".
        strategy: how to choose what to evaluate: a registered name, or an object with `propose`.
        strategy_options: keyword arguments of a named strategy, such as `{"architecture": "search"}`.
        seed: where all randomness comes from; None draws one (it is then `study.seed`).
        storage: where it is kept: `sqlite:///file.db`, `postgresql://user@host/database`, None for memory, or a storage
            that is open already.
        name: what to call the study; it is unique in its storage.
        initial: points of the initial design by fidelity's name, no design if empty. If None, fidelity m gets
            max(2, (4 + 3 d) sqrt(cost_1 / cost_m)) points, d the columns of the unit cube; fewer where they would cost
            more than a third of the budget that `ask` or `optimize` is given.
        load_if_exists: whether to resume the study of this name if the storage has one. The names and types of its
            parameters, the names and order of its fidelities, and its direction must be these. Everything else may
            change: it is taken up from now on, with a warning in the log, and recorded in `Study.changes`. What is
            left out here (`initial`, or `seed=None`) stays as it is stored. Constraints can change if every done trial
            has the outcomes that they name.
        constraints: limits of outcomes at the target, such as `["stress <= 150e6", "10 <= frequency <= 20"]`. The
            objective then returns these outcomes beside its value.
        failure_model: whether a model of success learns from failed trials, so that designs likely to fail are avoided.
        cost: "declared", or "measured": then a trial costs what its run reports (`{"value": ..., "cost": ...}`,
            `tell(measured_cost=)`), or else the seconds it took, and the costs of the fidelities are a first guess in
            that unit. What runs will cost is learned from this, also how it depends on the design.

    Raises:
        SpaceError: if the space is not valid.
        FidelityError: if the ladder is not valid, a cost is not positive for every design, or `initial` names an
            unknown fidelity.
        UnknownNameError: if the direction or the strategy is unknown.
        SettingError: if the seed, name, an option, a constraint or a size of the initial design is not valid, or the
            stored study differs.
        StudyExistsError: if there is a study of this name, and it is not to be loaded.
        StorageError: if the storage cannot be opened or written.
    """
    definition = StudyDefinition.of(
        space,
        ladder,
        direction,
        strategy=strategy,
        strategy_options=strategy_options,
        seed=seed,
        initial=initial,
        name=name,
        constraints=constraints,
        failures_teach=failure_model,
        cost=cost,
    )
    return start_study(definition, storage, load_if_exists=load_if_exists, keep_seed=seed is None)


def start_study(
    definition: StudyDefinition,
    storage: str | Storage | None = None,
    *,
    load_if_exists: bool = False,
    keep_seed: bool = False,
    announce: Callable[[str], None] = _log.warning,
) -> Study:
    """A new study with this definition, or the stored one of its name.

    Args:
        definition: what the study is made from.
        storage: as in `create_study`.
        load_if_exists: as in `create_study`.
        keep_seed: whether a stored study keeps its seed.
        announce: called with a line for everything that differs from the stored definition, which is replaced.

    Raises:
        SettingError: if the stored study is about another problem.
        StudyExistsError: if there is a study of this name, and it is not to be loaded.
        StorageError: if the storage cannot be opened or written.
    """
    registry.check_extras(definition.strategy, definition.strategy_options)
    opened = storage if isinstance(storage, Storage) else open_storage(storage)
    try:
        store = _created(definition, opened, load_if_exists)
        if store is None:
            store = opened.open(definition.stored_name)
            definition = take_up(store, definition, announce, keep_seed=keep_seed)
        return Study(definition, store, opened)
    except BaseException:
        if opened is not storage:
            opened.close()
        raise


def view_study(definition: StudyDefinition, storage: Storage) -> Study:
    """The stored study of this name as this definition describes it; the stored definition stays as it is.

    Raises:
        SettingError: if the stored study is about another problem.
        UnknownNameError: if there is no such study.
    """
    registry.check_extras(definition.strategy, definition.strategy_options)
    store = storage.open(definition.stored_name)
    return Study(resumed(store.definition, definition), store, storage)


def load_study(
    storage: str | Storage,
    name: str | None = None,
    *,
    strategy: str | Strategy | None = None,
    strategy_options: Mapping[str, Any] | None = None,
) -> Study:
    """A study as it was left.

    Args:
        storage: where it is kept, as in `create_study`.
        name: what it is called; not needed if the storage has a single study.
        strategy: how to choose from now on; the study's own if None.
        strategy_options: keyword arguments of that strategy.

    Raises:
        UnknownNameError: if there is no such study, or the strategy is unknown.
        SettingError: if it was made with a strategy object, and none is given, or with a function as a cost.
        StorageError: if the storage cannot be opened.
    """
    opened = storage if isinstance(storage, Storage) else open_storage(storage)
    try:
        store = opened.open(only_name(opened) if name is None else name)
        definition = store.definition
        if strategy is not None:
            definition = replace(definition, strategy=strategy, strategy_options=strategy_options or {})
        if isinstance(definition.strategy, registry.StoredStrategy):
            registry.resolve(definition.strategy)  # raises: only its text is stored
        for rung in definition.ladder:
            if isinstance(rung.cost, StoredCost):
                raise SettingError(
                    f"the cost of fidelity {rung.name!r} is a Python function, {rung.cost!r}, which is not stored; "
                    "pass it again: create_study(..., load_if_exists=True)"
                )
        return Study(definition, store, opened)
    except BaseException:
        if opened is not storage:
            opened.close()
        raise


def optimize(
    objective: Objective,
    space: SearchSpace | Mapping[str, Parameter],
    ladder: Iterable[Fidelity],
    *,
    direction: str,
    budget: float,
    strategy: str | Strategy = registry.DEFAULT,
    strategy_options: Mapping[str, Any] | None = None,
    seed: int | None = 0,
    initial: Mapping[str, int] | None = None,
    workers: int = 1,
    progress: bool = True,
    constraints: Iterable[str | OutcomeConstraint] = (),
    failure_model: bool = True,
    cost: str = DECLARED,
) -> Study:
    """Create a study in memory, spend the budget on the objective, and return the study.

    The arguments are those of `create_study` and `Study.optimize`.

    Raises:
        FideliumError: as those two.
        KeyboardInterrupt: after Ctrl-C; nothing is saved.
    """
    study = create_study(
        space,
        ladder,
        direction=direction,
        strategy=strategy,
        strategy_options=strategy_options,
        seed=seed,
        initial=initial,
        constraints=constraints,
        failure_model=failure_model,
        cost=cost,
    )
    try:
        study.optimize(objective, budget, workers=workers, progress=progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "stopped by Ctrl-C; nothing is left of a study in memory: create_study(..., storage='sqlite:///study.db', "
            "name=..., load_if_exists=True) makes one whose optimize(...) can be resumed"
        ) from None
    return study


def only_name(storage: Storage) -> str:
    """The name of the only study in a storage.

    Raises:
        UnknownNameError: if there is none, or more than one.
    """
    names = storage.names()
    if len(names) == 1:
        return names[0]
    if not names:
        raise UnknownNameError("this storage has no study yet")
    raise UnknownNameError(f"this storage has several studies; pass name= one of {', '.join(map(repr, names))}")


def _created(definition: StudyDefinition, storage: Storage, load_if_exists: bool) -> StudyStore | None:
    """The new study, None if there is one of this name that is to be loaded."""
    try:
        return storage.create(definition)
    except StudyExistsError:
        if not load_if_exists:
            raise StudyExistsError(
                f"study {definition.stored_name!r} exists already; resume it with load_study or load_if_exists=True, "
                "or choose another name"
            ) from None
    return None
