"""`fidelium check`: everything that can be wrong with a study, before it costs anything."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fidelium.cli.locate import find_file
from fidelium.cli.options import AsJson, File
from fidelium.cli.output import console, design, print_json, say, truncated
from fidelium.errors import ConfigError, FideliumError, SettingError
from fidelium.text import duration, visible

if TYPE_CHECKING:
    from fidelium.cli.checklist import Finding
    from fidelium.config.load import StudyFile
    from fidelium.fidelity import Fidelity
    from fidelium.space import Params, SearchSpace

_LINES = 30
"""Lines shown of a deck, and of each output."""


def check(
    where: File,
    trial: Annotated[bool, typer.Option("--trial", help="Run one design at each fidelity, and store nothing.")] = False,
    at: Annotated[
        list[str] | None,
        typer.Option(
            help="A parameter of that design, as name=value; the others are in the middle.", metavar="NAME=VALUE"
        ),
    ] = None,
    fidelity: Annotated[str | None, typer.Option(help="Run at this fidelity only.", show_default="all")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the folders of the runs; failed ones are always kept.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a study without starting it: its file, programs, templates, storage, disk and budget.

    With --trial, one design is run at each fidelity in a scratch folder, and its input, output and value are shown. No
    trial is stored, and no budget is spent.
    """
    from fidelium.cli.checklist import Finding, findings

    try:
        found, file = find_file(where)
        listed = list(findings(found, file))
    except ConfigError as error:
        file, listed = None, [Finding("file", "problem", str(error))]
    if not as_json:
        _print_findings(listed)
    sound = file is not None and not any(finding.level == "problem" for finding in listed)
    runs: list[_Run] = []
    if trial and sound and file is not None:
        rungs = [rung for rung in file.definition.ladder if fidelity in (None, rung.name)]
        if not rungs:
            file.definition.ladder.index(fidelity)  # raises: it is not one of them
        params = _design(file.definition.space, at or [])
        runs = _run_all(file, rungs, params, keep=keep, quiet=as_json)
    if as_json:
        print_json(
            {"ok": sound, "findings": [vars(finding) for finding in listed], "trials": [run.as_json() for run in runs]}
        )
    if not sound:
        raise typer.Exit(2)
    if any(run.failed is not None for run in runs):
        raise typer.Exit(1)
    if not as_json and not trial:
        say("nothing wrong was found; check --trial runs one design at each fidelity")


def _print_findings(listed: Sequence[Finding]) -> None:
    out = console()
    for finding in listed:
        out.print(f"{finding.level:<8} {finding.about:<9} {visible(finding.text)}")


@dataclass(frozen=True)
class _Run:
    """One design, run at one fidelity."""

    fidelity: str
    params: Params
    seconds: float
    folder: Path
    value: float | None = None
    cost: float | None = None
    outcomes: dict[str, float] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    failed: str | None = None
    decks: dict[str, str] = field(default_factory=dict)
    stdout: str = ""
    stderr: str = ""
    kept: bool = False
    std: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "folder": str(self.folder) if self.kept else None}


def _run_all(file: StudyFile, rungs: Sequence[Fidelity], params: Params, *, keep: bool, quiet: bool) -> list[_Run]:
    scratch = Path(tempfile.mkdtemp(prefix="fidelium-check-"))
    runs: list[_Run] = []
    try:
        for rung in rungs:
            if not quiet:
                say(f"{visible(rung.name)}: running {design(params)} ...")
            runs.append(_run(file, rung, params, scratch, keep=keep))
            if not quiet:
                _print_run(runs[-1])
    finally:
        if not any(run.kept for run in runs):
            shutil.rmtree(scratch, ignore_errors=True)
    return runs


def _run(file: StudyFile, rung: Fidelity, params: Params, scratch: Path, *, keep: bool) -> _Run:
    from fidelium.execution.invocation import STDERR, STDOUT
    from fidelium.feasibility import judged
    from fidelium.history import Trial, TrialState

    runs = scratch / str(file.definition.ladder.index(rung.name))
    program = replace(file.program, runs=runs)
    began = time.monotonic()
    value = cost = std = failed = None
    outcomes: dict[str, float] = {}
    trial = Trial(0, params, rung, attempt=1, constraints=file.definition.constraints)
    try:
        measured = program.run(trial)
        value, cost, std, outcomes = measured.value, measured.cost, measured.std, dict(measured.outcomes)
    except FideliumError as error:
        failed = str(error)
    seconds = time.monotonic() - began
    folder = next(iter(runs.iterdir()), runs) if runs.is_dir() else scratch
    decks = {name: _text(folder / name) for name in program.commands[rung.name].templates}
    kept = keep or failed is not None
    out, err = _text(folder / STDOUT), _text(folder / STDERR)
    outcomes = {name: each for name, each in outcomes.items() if math.isfinite(each)}
    done = replace(trial, state=TrialState.DONE, outcomes=outcomes)
    limits = {} if failed else {line.name: line.text for line in judged(done)}
    run = _Run(rung.name, params, seconds, folder, value, cost, outcomes, limits, failed, decks, out, err, kept, std)
    if not kept:
        shutil.rmtree(runs, ignore_errors=True)
    return run


def _print_run(run: _Run) -> None:
    out = console()
    for title, text, last in (
        *((name, deck, False) for name, deck in run.decks.items()),
        ("stdout", run.stdout, True),
        ("stderr", run.stderr, True),
    ):
        if text.strip():
            out.print(f"--- {visible(title)} ---")
            lines = [visible(line) for line in text.splitlines()]
            for line in lines[-_LINES:] if last else truncated(lines, _LINES):
                out.print(line)
    took = f" in {duration(run.seconds)}"
    measured = "" if run.cost is None else f", measured cost {run.cost:g}"
    if run.failed is None:
        error = "" if run.std is None else f" ± {run.std:g}"
        out.print(f"{visible(run.fidelity)}: value {run.value!r}{error}{measured}{took}")
        for name, outcome in run.outcomes.items():
            out.print(f"  {run.limits.get(name) or f'{name} {outcome!r}'}")
    else:
        out.print(f"{visible(run.fidelity)}: failed{took}: {run.failed}")
    if run.kept:
        out.print(f"folder: {run.folder}")


def _text(path: Path) -> str:
    """The text of a file of a run; empty if it is not there."""
    from fidelium.execution.run_folder import open_regular

    try:
        with open_regular(path) as file:
            return file.read(4_000_000).decode(errors="replace")
    except OSError:
        return ""


def _design(space: SearchSpace, at: Sequence[str]) -> Params:
    """The middle of the space, with the values that the command line gives.

    Raises:
        FideliumError: if one of these is not valid.
    """
    from fidelium.cli.checklist import middle
    from fidelium.cli.table_io import parse_design
    from fidelium.space import SearchSpace

    names = [text.partition("=")[0].strip() for text in at]
    if unknown := [name for name in names if name not in space.parameters]:
        raise SettingError(f"unknown parameter {', '.join(map(repr, unknown))}; this space has {list(space.names)}")
    given = parse_design(SearchSpace({name: space.parameters[name] for name in names}), at) if names else {}
    return space.validate({**middle(space), **given})
