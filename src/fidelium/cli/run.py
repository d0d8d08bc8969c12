"""`fidelium run` and `fidelium worker`: evaluate the trials of a study until its budget is spent."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from fidelium.cli.locate import Place, find_file, open_study, start_study
from fidelium.cli.options import File
from fidelium.cli.output import console, counted, design, grid, number, say, visible
from fidelium.errors import ObjectiveError, SettingError

if TYPE_CHECKING:
    from rich.table import Table

    from fidelium.cli.locate import Place
    from fidelium.cli.summary import Summary
    from fidelium.config import StudyFile
    from fidelium.study import Study


class _Stderr(logging.Handler):
    """Writes to what stderr is now: a live bar puts itself in its place, to keep lines apart from itself."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except (OSError, RuntimeError):  # the terminal is gone, or Ctrl-C came amid a line: no reason to end
            return


@contextmanager
def logging_to_stderr(*, quiet: bool) -> Iterator[None]:
    """Print what fidelium logs while inside: with times and a line per trial if no bar is shown, unless quiet."""
    log, handler = logging.getLogger("fidelium"), _Stderr()
    lines = not quiet and not sys.stderr.isatty()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s" if lines else "%(message)s", "%H:%M:%S"))
    before = log.level, log.propagate
    log.setLevel(logging.INFO if lines else logging.WARNING)
    log.propagate = False  # or it would be printed twice where a program has set up logging
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = before


PATIENCE = 10
"""Seconds to wait for the scheduler, and for its first worker."""


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
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
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said below, in a sentence
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


def print_closing(study: Study, place: Place) -> None:
    """Print the summary of a run that came to its end."""
    from fidelium.cli.summary import Summary

    summary = Summary(study.store.record, study.trials, place.budget)
    out = console()
    out.print(_costs(summary))
    target = visible(study.ladder.target.name)
    if summary.best is None:
        out.print(f"best observed: no value at {target} yet")
    else:
        out.print(f"best observed: {number(summary.best.value)} in trial {summary.best.number}")
        out.print(f"               {design(summary.best.params)}")
    for line in _recommended(study, place):
        out.print(line)
    for line in _places(place):
        out.print(line)


def _costs(summary: Summary) -> Table:
    table = grid("fidelity", ">cost each", ">trials", ">cost")
    for share in summary.shares:
        name, each = visible(share.fidelity.name), f"{share.fidelity.cost:g}"
        table.add_row(name, each, str(share.trials), f"{share.cost:g}")
    failed = len(summary.failures)
    table.caption = f"{summary.spent:g} spent" + (f", {counted(failed, 'failure')}" if failed else "")
    table.caption_justify = "left"
    return table


def _recommended(study: Study, place: Place) -> list[str]:
    """The model's choice, if the run has used a model; else how to get one, for fitting takes a while."""
    from fidelium.history import TrialState
    from fidelium.strategies import registry
    from fidelium.strategies.base import Modelled

    if not any(trial.state is TrialState.DONE for trial in study.trials):
        return []
    if not isinstance(registry.resolve(study.strategy), Modelled):
        return [f"recommended:   {study.strategy} has no model; fit one with: {place.command('recommend')}"]
    choice = study.recommend()
    return [
        f"recommended:   {choice.mean:.6g} ± {choice.std:.2g} expected",
        f"               {design(choice.params)}",
    ]


def _places(place: Place) -> list[str]:
    lines = [f"trials:        {place.shown()}"]
    if place.file is not None:
        lines.append(f"their folders: {place.file.program.runs}")
    return [*lines, f"picture:       {place.command('plot study')}"]


MAX_FAILURES = 10
"""Failures in a row after which even a study that goes on after a failure gives up: its program must be broken."""

Quiet = Annotated[bool, typer.Option("--quiet", help="Print warnings and errors only.")]
Workers = Annotated[
    int | None, typer.Option(help="Evaluations at once.", min=1, show_default="the file's, or the cluster's cores")
]
Budget = Annotated[float | None, typer.Option(help="Cost units to spend in total.", show_default="the file's")]
Dask = Annotated[
    str | None,
    typer.Option(help="Evaluate on the workers of this Dask scheduler, as tcp://host:8786.", metavar="ADDRESS"),
]


def run(where: File, workers: Workers = None, budget: Budget = None, dask: Dask = None, quiet: Quiet = False) -> None:
    """Run a study, or go on with it.

    Ctrl-C once finishes what is running, twice stops at once. Either way, and after a crash, nothing is lost: the same
    command goes on.
    """
    place, file = find_file(where)
    total = _total(file, budget)
    with _somewhere(dask) as executor:
        study = start_study(place)
        if not quiet:
            say(_opening(study, total))
        count = file.workers if workers is None and executor is None else workers
        _optimize(study, place, file, total, executor, count, quiet)
    if not quiet:
        print_closing(study, place)


def worker(
    where: File,
    workers: Annotated[int, typer.Option(help="Evaluations at once.", min=1)] = 1,
    budget: Budget = None,
    quiet: Quiet = False,
) -> None:
    """Help a study that was started elsewhere.

    From another terminal, or from another machine if the study's storage is a PostgreSQL server that both can reach.
    """
    place, file = find_file(where)
    study, total = open_study(place), _total(file, budget)
    if not quiet:
        say(f"joining: {_opening(study, total)}")
    _optimize(study, place, file, total, None, workers, quiet)


def _total(file: StudyFile, budget: float | None) -> float:
    from fidelium.study.runner import checked_budget

    return checked_budget(file.ladder, file.budget if budget is None else budget)


def _optimize(
    study: Study,
    place: Place,
    file: StudyFile,
    total: float,
    executor: Executor | None,
    workers: int | None,
    quiet: bool,
) -> None:
    """Spend the budget.

    Raises:
        Exit: with code 130 after Ctrl-C, and 1 if the simulator failed too often, when that has been said.
        FideliumError: if something is wrong with the arguments, the file or the storage.
    """
    try:
        with logging_to_stderr(quiet=quiet):
            study.optimize(
                file.program,
                total,
                workers,
                not quiet,
                1 if file.failures.stops else MAX_FAILURES,
                retries=file.failures.retries,
                stop=file.stop,
                executor=executor,
            )
    except KeyboardInterrupt:
        say(f"stopped; {_so_far(study, total)} are saved; go on with: {place.command('run')}")
        raise typer.Exit(130) from None
    except ObjectiveError as error:  # no mistake in the command, so another code, and the whole reason
        say(f"error: {error}\nlook at it with: {place.command('status')}")
        raise typer.Exit(1) from None


@contextmanager
def _somewhere(dask: str | None) -> Iterator[Executor | None]:
    """The executor of a cluster, or None for this machine."""
    if dask is None:
        yield None
        return
    with cluster(dask) as executor:
        yield executor


def _opening(study: Study, total: float) -> str:
    if not study.trials:
        return f"a new study {study.name!r} with {study.strategy}, {total:g} to spend"
    return f"going on with {_so_far(study, total)}"


def _so_far(study: Study, total: float) -> str:
    return f"{counted(len(study.trials), 'trial')}, {study.spent:g} of {total:g} spent"
