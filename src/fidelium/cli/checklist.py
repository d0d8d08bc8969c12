"""What can be wrong with a study before anything is run: the list that `fidelium check` prints."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fidelium.catalogue import Catalogue
from fidelium.cli.locate import Located, open_storage_of, study_in
from fidelium.cli.output import counted
from fidelium.costs.declared import formula_text
from fidelium.errors import EvaluationError, FideliumError
from fidelium.execution.failures import full_disk
from fidelium.execution.invocation import STDOUT
from fidelium.execution.run_folder import RunRequest
from fidelium.fidelity import Fidelity
from fidelium.history import Trial
from fidelium.numbers import exact_sum
from fidelium.space import Categorical, Params, SearchSpace

if TYPE_CHECKING:
    from fidelium.config.load import StudyFile
    from fidelium.execution.command import Command
    from fidelium.execution.result_rules import ResultRule

_MOST_TRIED = 50
"""Items of a catalogue at most that templates are tried with."""

_LITTLE_SPACE = 1e9
"""Bytes of free disk below which `check` warns."""


@dataclass(frozen=True)
class Finding:
    """One line of the list.

    Args:
        about: what was checked.
        level: "ok", "warning" (it runs, but probably not as intended) or "problem" (it cannot run).
        text: what was found, and what to do.
    """

    about: str
    level: str
    text: str


def _inputs_text(rung: Fidelity) -> str:
    """Which parameters a fidelity uses, if not all."""
    return "" if rung.inputs is None else f" and uses {', '.join(rung.inputs)} alone"


def findings(found: Located, file: StudyFile) -> Iterator[Finding]:
    """Everything that can be seen of a valid study file without running it."""
    definition = file.definition
    ladder = ", ".join(f"{rung.name} costs {formula_text(rung.cost)}{_inputs_text(rung)}" for rung in definition.ladder)
    yield Finding("file", "ok", f"{counted(len(definition.space.names), 'parameter')}; {ladder}")
    if constraints := definition.space.constraints:
        yield Finding(
            "space", "ok", f"{counted(len(constraints), 'parameter constraint')}: {_share_text(definition.space)}"
        )
    for name, catalogue in definition.space.catalogues.items():
        size = f"{counted(len(catalogue.choices), 'item')}, {counted(len(catalogue.descriptors), 'descriptor')}"
        yield Finding("items", "ok", f"{name}: {'; '.join((size, *catalogue.notes))}")
    yield from _programs(file)
    yield from _templates(file)
    yield Finding("result", "ok", "; ".join(dict.fromkeys(map(_rules_text, file.program.commands.values()))))
    if definition.constraints:
        yield Finding("limits", "ok", "; ".join(map(str, definition.constraints)))
    yield _runs(file.program.runs)
    yield _storage(found)
    yield _budget(file)
    yield _workers(file.workers)
    yield _strategy(file)


def middle(space: SearchSpace) -> Params:
    """The design in the middle of a space, or one near it that meets the constraints.

    The middle is that of every range, and the first of choices.
    """
    return _valid(space, space.decode(np.full(space.dimension, 0.5)))


def _valid(space: SearchSpace, params: Params) -> Params:
    """The design, or one near it that meets the constraints."""
    return params if space.contains(params) else space.decode(space.repair(space.encode(params)[None, :])[0])


def _share_text(space: SearchSpace) -> str:
    share = space.feasible_share
    return f"{'less than 0.1' if share < 0.001 else f'about {100 * share:.2g}'} % of random designs meet them"


def _designs(space: SearchSpace) -> Iterator[Params]:
    """The middle, the two ends, and every choice: what templates are tried with."""
    yield middle(space)
    yield from (_valid(space, space.decode(np.full(space.dimension, end))) for end in (0.0, 1.0))
    for name, parameter in space.parameters.items():
        if isinstance(parameter, Categorical | Catalogue):
            last = None if isinstance(parameter, Categorical) else _MOST_TRIED
            every = ({**middle(space), name: choice} for choice in parameter.choices[1:last])
            yield from (_valid(space, params) for params in every)


def _programs(file: StudyFile) -> Iterator[Finding]:
    problems = file.program.problems()
    yield from (Finding("program", "problem", problem) for problem in problems)
    if not problems:
        steps = (step for each in file.program.commands.values() for step in each.steps)
        names = dict.fromkeys(step.argv[0].replace("{python}", sys.executable) for step in steps)
        shell = any(each.shell for each in file.program.commands.values())
        yield Finding("program", "ok", "run by /bin/sh" if shell else ", ".join(names))


def _templates(file: StudyFile) -> Iterator[Finding]:
    """Whether every template can be rendered at every fidelity, in the middle and at the ends of the space."""
    space, ladder = file.definition.space, file.definition.ladder
    count, failed = 0, set[tuple[str, str]]()
    for position, rung in enumerate(ladder):
        command = file.program.commands[rung.name]
        for params in _designs(space):
            request = RunRequest.of(Trial(0, params, rung), position, file.program.tables)
            folder = file.program.runs / "00000"
            try:
                count += len(command.decks(command.values(request, folder, file.program.here)))
            except FideliumError as error:
                level = "warning" if isinstance(error, EvaluationError) else "problem"
                failed.add((level, f"{rung.name}: {error}; the design was {params}"))
    yield from (Finding("template", level, text) for level, text in sorted(failed))
    if count and not failed:
        yield Finding("template", "ok", f"rendered {counted(count, 'time')}: at every fidelity, middle and ends")


def _rules_text(command: Command) -> str:
    outcomes = (f"{name} from {_rule_text(rule)}" for name, rule in command.outcomes.items())
    return ", ".join([_rule_text(command.result), *outcomes])


def _rule_text(rule: ResultRule) -> str:
    fields = {name: value for name, value in vars(rule).items() if name != "file"}
    where = f" {' '.join(f'{name} {value!r}' for name, value in fields.items())}" if fields else ""
    return f"{'stdout' if rule.file == STDOUT else rule.file}{where}"


def _runs(runs: Path) -> Finding:
    folder = next(path for path in (runs, *runs.parents) if path.exists())
    if not folder.is_dir():
        return Finding("runs", "problem", f"{folder} is not a folder; move it, or set runs: in the study file")
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding("runs", "problem", f"{folder} is not writable; make it so, or set runs: in the study file")
    if (full := full_disk(folder)) is not None:
        return Finding("runs", "problem", full)
    free = shutil.disk_usage(folder).free
    text = f"{runs} ({free / 1e9:.3g} GB free)"
    return Finding("runs", "warning" if free < _LITTLE_SPACE else "ok", text)


def _storage(found: Located) -> Finding:
    from fidelium.study.redefinition import check_outcomes, differences

    what = "a new study"
    with _problems() as wrong, open_storage_of(found) as storage:
        if found.name in storage.names():
            now, stored = study_in(storage, found).snapshot(), storage.open(found.name).definition
            check_outcomes(now.trials, now.definition)
            changes = "".join(f"; changed: {change}" for change in differences(stored, now.definition))
            what = f"{counted(len(now.trials), 'trial')} so far{changes}"
    scheme, _, path = found.storage.partition(":///")
    if scheme.startswith("sqlite") and not os.access(Path(path).parent, os.W_OK):
        wrong.append(f"the folder of {path} does not exist or is not writable")
    if wrong:
        return Finding("storage", "problem", wrong[0])
    return Finding("storage", "ok", f"{found.shown()} ({what})")


def _budget(file: StudyFile) -> Finding:
    ladder, initial = file.definition.ladder, file.definition.initial_within(file.budget)
    cost = float(exact_sum(rung.typical_cost for rung in ladder for _ in range(initial.get(rung.name, 0))))
    text = f"the initial design costs {cost:g} of {file.budget:g}"
    if ladder.costs[-1] > file.budget:
        return Finding("budget", "problem", f"{file.budget:g} does not pay for one run at {ladder.target.name}")
    if cost + ladder.costs[0] > file.budget:
        return Finding("budget", "warning", f"{text}: nothing is left to choose; raise budget or lower initial")
    return Finding("budget", "ok", text)


def _workers(workers: int) -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = f"{counted(workers, 'worker')} on {counted(cores, 'core')}"
    return Finding("workers", "warning" if workers > cores else "ok", text)


def _strategy(file: StudyFile) -> Finding:
    from fidelium.strategies.registry import check_extras

    with _problems() as wrong:
        check_extras(file.definition.strategy, file.definition.strategy_options)
    return Finding("strategy", "problem" if wrong else "ok", wrong[0] if wrong else file.definition.strategy_name)


@contextmanager
def _problems() -> Iterator[list[str]]:
    """Collects the message of a `FideliumError`."""
    wrong: list[str] = []
    try:
        yield wrong
    except FideliumError as error:
        wrong.append(str(error))
