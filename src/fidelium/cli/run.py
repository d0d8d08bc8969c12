"""`fidelium run` and `fidelium worker`: evaluate the trials of a study until its budget is spent."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from fidelium.cli.logs import logging_to_stderr
from fidelium.cli.options import File
from fidelium.cli.where import Place, find_file, load, start
from fidelium.cli.words import counted, say
from fidelium.errors import ObjectiveError

if TYPE_CHECKING:
    from fidelium.config import StudyFile
    from fidelium.study import Study

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
        study = start(place)
        if not quiet:
            say(_opening(study, total))
        count = file.workers if workers is None and executor is None else workers
        _optimize(study, place, file, total, executor, count, quiet)
    if not quiet:
        from fidelium.cli.closing import print_closing

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
    study, total = load(place), _total(file, budget)
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
    from fidelium.cli.cluster import cluster

    with cluster(dask) as executor:
        yield executor


def _opening(study: Study, total: float) -> str:
    if not study.trials:
        return f"a new study {study.name!r} with {study.strategy}, {total:g} to spend"
    return f"going on with {_so_far(study, total)}"


def _so_far(study: Study, total: float) -> str:
    return f"{counted(len(study.trials), 'trial')}, {study.spent:g} of {total:g} spent"
