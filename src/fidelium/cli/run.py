"""`fidelium run` and `fidelium worker`: evaluate the trials of a study until its budget is spent."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fidelium.cli.locate import Located, find_file, open_study
from fidelium.cli.options import File, Fix, StrategyName, StrategyOption, fixed_values, strategy_options
from fidelium.cli.output import console, counted, design, expectation, grid, logged, number, outcome_lines, say
from fidelium.cli.take_over import Fill, From, FromName, read_old_data, take_over
from fidelium.errors import ObjectiveError, SettingError, SetupError, StorageError
from fidelium.text import visible

if TYPE_CHECKING:
    from rich.table import Table

    from fidelium.config.load import StudyFile
    from fidelium.snapshot import Snapshot
    from fidelium.study import Stop, Study

MAX_FAILURES = 10
"""Failures in a row after which even a study that continues after a failure gives up: its program must be broken."""

PATIENCE = 10
"""Seconds to wait for the Dask scheduler, and for its first worker."""

Quiet = Annotated[bool, typer.Option("--quiet", help="Print warnings and errors only.")]
Workers = Annotated[
    int | None,
    typer.Option(help="Evaluations at the same time.", min=1, show_default="the file's, or the cluster's cores"),
]
Budget = Annotated[float | None, typer.Option(help="Cost units to spend in total.", show_default="the file's")]
Goal = Annotated[
    float | None, typer.Option(help="Stop once the best value at the target reaches this.", show_default="the file's")
]
Worth = Annotated[
    float | None,
    typer.Option(
        help="What a unit of the objective is worth, in cost units: stop once no run promises more than it costs.",
        show_default="the file's",
    ),
]
NoStop = Annotated[bool, typer.Option("--no-stop", help="Without the stopping rules of the file.")]
Dask = Annotated[
    str | None,
    typer.Option(help="Evaluate on the workers of this Dask scheduler, as tcp://host:8786.", metavar="ADDRESS"),
]


def run(
    where: File,
    workers: Workers = None,
    budget: Budget = None,
    strategy: StrategyName = None,
    option: StrategyOption = None,
    dask: Dask = None,
    quiet: Quiet = False,
    from_: From = None,
    from_name: FromName = None,
    fill: Fill = None,
    fix: Fix = None,
    goal: Goal = None,
    worth: Worth = None,
    no_stop: NoStop = False,
) -> None:
    """Run a study, or resume it.

    Ctrl-C once finishes what is running, twice stops immediately. Either way, and after a crash, nothing is lost: the
    same command resumes.
    """
    found, file = find_file(where)
    file = _overridden(file, budget, strategy, option)
    file = replace(file, stop=_stop(file.stop, goal, worth, no_stop))
    found = replace(found, file=file, budget=file.budget)
    old = read_old_data(found, file.definition, from_, from_name, fill)
    fixed = fixed_values(file.definition.space, fix)
    file.definition.space.holding(fixed)  # before anything is created
    with _executor(dask) as executor, open_study(found, create=True) as study:
        if old is not None:
            take_over(study, old, quiet=quiet)
        if not quiet:
            say(_opening(study.snapshot(file.budget)))
        count = file.workers if workers is None and executor is None else workers
        _optimize(study, found, file, executor, count, quiet, fixed)
        now = study.snapshot(file.budget)
        _check_values(now, found)
        if not quiet:
            _print_closing(study, now, found, file, fixed)


def worker(
    where: File,
    workers: Annotated[int, typer.Option(help="Evaluations at the same time.", min=1)] = 1,
    budget: Budget = None,
    quiet: Quiet = False,
    fix: Fix = None,
) -> None:
    """Help a study that was started elsewhere.

    From another terminal, or from another machine if the study's storage is a PostgreSQL server that both can reach.
    """
    found, file = find_file(where)
    file = _overridden(file, budget)
    fixed = fixed_values(file.definition.space, fix)
    with open_study(found, take_up=True) as study:
        if not quiet:
            say(f"joining: {_opening(study.snapshot(file.budget))}")
        _optimize(study, found, file, None, workers, quiet, fixed)
        _check_values(study.snapshot(file.budget), found)


def _stop(rules: Stop, goal: float | None, worth: float | None, no_stop: bool) -> Stop:
    """The rules of the file with what the command line says instead.

    Raises:
        SettingError: if the goal or the worth is not valid.
    """
    from fidelium.study import Stop

    rules = Stop() if no_stop else rules
    return replace(rules, goal=rules.goal if goal is None else goal, worth=rules.worth if worth is None else worth)


def _overridden(
    file: StudyFile, budget: float | None, strategy: str | None = None, option: list[str] | None = None
) -> StudyFile:
    """The file with what the command line says instead; it is checked like the file.

    Raises:
        FideliumError: if the budget, the strategy or an option is not valid.
    """
    if strategy is not None or option:
        own = file.definition
        name, kept = (own.strategy, own.strategy_options) if strategy is None else (strategy, {})
        definition = replace(own, strategy=name, strategy_options={**kept, **strategy_options(option or [])})
        file = replace(file, definition=definition)
    return file if budget is None else replace(file, budget=budget)


def _optimize(
    study: Study,
    found: Located,
    file: StudyFile,
    executor: Executor | None,
    workers: int | None,
    quiet: bool,
    fixed: dict[str, Any],
) -> None:
    """Spend the budget.

    Raises:
        Exit: with code 130 after Ctrl-C, 1 if the simulator failed too often, and 2 if the set-up is wrong; the reason
            and what to do are printed.
        FideliumError: if an argument, the file or the storage is not valid.
    """
    try:
        with logged(quiet=quiet):
            study.optimize(
                file.program,
                file.budget,
                workers,
                not quiet,
                1 if file.failures.stops else MAX_FAILURES,
                retries=file.failures.retries,
                stop=file.stop,
                executor=executor,
                fixed=fixed,
            )
    except KeyboardInterrupt as stopped:
        try:
            saved = f"stopped; {_so_far(study.snapshot(file.budget))} are saved"
        except StorageError:  # it is away, and what the run knew of it must do
            saved = str(stopped).rpartition("; ")[0] or "stopped"
        say(f"{saved}; resume with: {found.command('run')}")
        raise typer.Exit(130) from None
    except SetupError as error:
        say(f"error: {error}\n{_after_a_fix(found)}; resume with: {found.command('run')}")
        raise typer.Exit(2) from None
    except ObjectiveError as error:  # not a mistake in the command, hence another exit code and the whole reason
        say(f"error: {error}\n{_about_failures(found)}")
        raise typer.Exit(1) from None


def _check_values(now: Snapshot, found: Located) -> None:
    """Say so if no trial has given a value.

    Raises:
        Exit: with code 1 then.
    """
    if not now.failures or any(trial.value is not None and not trial.given for trial in now.trials):
        return
    failed = counted(len(now.failures), "trial")
    say(f"error: no value: {failed} failed, {_most_frequent(now)}\n{_about_failures(found)}")
    raise typer.Exit(1)


def _most_frequent(now: Snapshot) -> str:
    from fidelium.text import reason_line

    ((reason, times),) = Counter(reason_line(trial.reason) for trial in now.failures).most_common(1)
    return f"with: {reason}" if times == len(now.failures) else f"{times} of them with: {reason}"


def _about_failures(found: Located) -> str:
    """What to do about trials that failed."""
    return (
        f"see all reasons with: {found.command('status', '--failures')}\n{_after_a_fix(found)}; "
        f"queue the failed trials again with: {found.command('retry', '--failed')}"
    )


def _after_a_fix(found: Located) -> str:
    return f"after a fix, try one design with: {found.command('check', '--trial')}"


def _opening(now: Snapshot) -> str:
    if all(trial.given for trial in now.trials):
        of, given = now.definition, f", {counted(len(now.trials), 'observation')} given" if now.trials else ""
        return f"a new study {of.name!r} with {of.strategy_name}, {now.budget:g} to spend{given}{_reduced_design(now)}"
    return f"resuming with {_so_far(now)}"


def _reduced_design(now: Snapshot) -> str:
    """The sizes of the initial design, if they are reduced because of the budget."""
    usual, sizes = now.definition.initial, now.definition.initial_within(now.budget)
    if sizes == usual:
        return ""
    listed = ", ".join(f"{sizes[name]} of {usual[name]} {visible(name)}" for name in sizes)
    return f"; initial design reduced to a third of that: {listed}"


def _so_far(now: Snapshot) -> str:
    return f"{counted(len(now.trials), 'trial')}, {now.spent:g} of {now.budget:g} spent"


def _print_closing(study: Study, now: Snapshot, found: Located, file: StudyFile, fixed: dict[str, Any]) -> None:
    """Print what a run found, what it cost, and where everything is."""
    from fidelium.feasibility import Feasibility
    from fidelium.forecast import Forecast

    out = console()
    out.print(_costs(now))
    if (forecast := Forecast.of(now)) is not None and forecast.has_runs:
        out.print(f"left:          {forecast.text}")
    if now.best is None:
        out.print(f"best observed: {visible(Feasibility(now).without_best)}")
    else:
        out.print(f"best observed: {number(now.best.value)} in trial {now.best.number}")
        out.print(f"               {design(now.best.params)}")
        for line in outcome_lines(now.best):
            out.print(f"               {line}")
    if study.definition.constraints and Feasibility(now).judged:
        out.print(f"feasible:      {visible(Feasibility(now).text)}")
    for line in _recommended(study, now, found, fixed):
        out.print(line)
    if now.failures:
        out.print(f"failures:      {len(now.failures)}, {_most_frequent(now)}")
        out.print(f"               queue them again with: {found.command('retry', '--failed')}")
    if now.excluded:
        out.print(f"excluded:      {counted(len(now.excluded), 'trial')}, list them with: {found.command('changes')}")
    out.print(f"trials:        {found.shown()}")
    out.print(f"their folders: {file.program.runs}")
    out.print(f"picture:       {found.command('plot study')}")


def _costs(now: Snapshot) -> Table:
    table = grid("fidelity", ">cost each", ">trials", ">cost")
    for used in now.usage:
        table.add_row(visible(used.fidelity.name), f"{used.cost_each:g}", str(used.trials), f"{used.cost:g}")
    failed = len(now.failures)
    table.caption = f"{now.spent:g} spent" + (f", {counted(failed, 'failure')}" if failed else "")
    table.caption_justify = "left"
    return table


def _recommended(study: Study, now: Snapshot, found: Located, fixed: dict[str, Any]) -> list[str]:
    """The recommended design if the strategy has a model; else how to get one, as fitting takes a while."""
    if not any(len(seen) for seen in now.history.observations):
        return []
    if not study.has_model:
        return [f"recommended:   {study.strategy} has no model; fit one with: {found.command('recommend')}"]
    choice = study.recommend(fixed)
    learned = [f"learned:       {visible(line)}" for line in study.learned().lines]
    return [
        f"recommended:   {expectation(choice)}",
        f"               {design(choice.params)}",
        *learned[:1],
        *(line.replace("learned:", "        ", 1) for line in learned[1:]),
    ]


@contextmanager
def _executor(dask: str | None) -> Iterator[Executor | None]:
    """The executor of a Dask cluster, or None for this machine."""
    if dask is None:
        yield None
        return
    with dask_executor(dask) as executor:
        yield executor


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """An executor on a Dask cluster that has workers; it knows how many.

    Args:
        address: of the scheduler, as `tcp://host:8786`.

    Raises:
        SettingError: if Dask is not installed, the scheduler does not answer, or it has no workers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise SettingError("--dask needs the extra 'dask': pip install 'fidelium[dask]'") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # the errors below say what matters
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise SettingError(
            f"no Dask scheduler answers at {address!r} ({why}); start one with: dask scheduler"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise SettingError(
                f"the Dask scheduler at {address!r} has no workers; start one with: dask worker {address}"
            ) from None
        yield client.get_executor()
