"""The `fidelium` application: its commands, and one-line error messages.

Each command imports heavy packages only when it runs, so `--help` is fast.
"""

from __future__ import annotations

import gc
import io
import sys
from typing import Annotated

import typer

from fidelium import __version__
from fidelium.cli.ask_tell import ask, tell
from fidelium.cli.bench import bench
from fidelium.cli.check import check
from fidelium.cli.demo import demo
from fidelium.cli.export_import import export, import_
from fidelium.cli.init import init, schema
from fidelium.cli.inspect import best, predict, problems, recommend, status, strategies
from fidelium.cli.output import examples
from fidelium.cli.plot import plot
from fidelium.cli.repair import changes, exclude, restore, retry
from fidelium.cli.reread import reread
from fidelium.cli.run import run, worker
from fidelium.cli.steer import enqueue, note, prioritise, tag
from fidelium.cli.storage import storage
from fidelium.cli.tune import tune
from fidelium.errors import FideliumError

app = typer.Typer(
    name="fidelium",
    help="Find the best design of an expensive simulation while paying mostly for cheap ones.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_NEGATIVE_NUMBERS = {"ignore_unknown_options": True}
"""Lets -1.5 be a value; an unknown option is then rejected because it is not a number."""

_GC_THRESHOLD = 50_000
"""New objects before a garbage collection. With Python's default of 700, collecting takes 10 % of a short command."""

_RUN, _INSPECT, _DATA, _BUILT_IN = "Run a study", "Inspect a study", "Import and export", "Built in"
_STEER, _REPAIR = "Steer a study", "Repair a study"

app.command(epilog=examples("fidelium init beam", "fidelium run beam/study.yaml"), rich_help_panel=_RUN)(init)
app.command(
    epilog=examples(
        "fidelium run study.yaml",
        "fidelium run study.yaml --workers 4 --budget 500",
        "fidelium run study.yaml --fix core=foam --goal 0.7",
        "fidelium run new.yaml --from old.yaml --fill angle=0",
    ),
    rich_help_panel=_RUN,
)(run)
app.command(epilog=examples("fidelium worker study.yaml --workers 2"), rich_help_panel=_RUN)(worker)
app.command(
    epilog=examples(
        "fidelium check study.yaml",
        "fidelium check study.yaml --trial",
        "fidelium check study.yaml --trial --fidelity coarse --at height=0.1 --keep",
    ),
    rich_help_panel=_RUN,
)(check)
app.command(
    epilog=examples("fidelium ask study.yaml", "fidelium ask sqlite:///study.db --name beam"), rich_help_panel=_RUN
)(ask)
app.command(
    context_settings=_NEGATIVE_NUMBERS,
    epilog=examples(
        "fidelium tell study.yaml 12 -3.5",
        'fidelium tell study.yaml 12 --failed "the mesher crashed"',
        """echo '{"number": 12, "value": 3.5}' | fidelium tell study.yaml -""",
    ),
    rich_help_panel=_RUN,
)(tell)
app.command(
    epilog=examples("fidelium status study.yaml --watch", "fidelium status study.yaml --json"), rich_help_panel=_INSPECT
)(status)
app.command(epilog=examples("fidelium best study.yaml --json"), rich_help_panel=_INSPECT)(best)
app.command(epilog=examples("fidelium recommend study.yaml"), rich_help_panel=_INSPECT)(recommend)
app.command(
    epilog=examples(
        "fidelium predict study.yaml --at height=0.1 --at layers=2 --at core=foam",
        "fidelium predict study.yaml --designs designs.csv --fidelity coarse --json",
    ),
    rich_help_panel=_INSPECT,
)(predict)
app.add_typer(plot, name="plot", rich_help_panel=_INSPECT)
app.command(
    epilog=examples(
        "fidelium enqueue study.yaml height=0.1 layers=2 core=foam --fidelity fine",
        'fidelium enqueue study.yaml --from designs.csv --priority 5 --note "from the workshop"',
    ),
    rich_help_panel=_STEER,
)(enqueue)
app.command(epilog=examples("fidelium prioritise study.yaml 12 17 --to 5"), rich_help_panel=_STEER)(prioritise)
app.command(epilog=examples('fidelium note study.yaml 12 "checked by hand"'), rich_help_panel=_STEER)(note)
app.command(
    epilog=examples("fidelium tag study.yaml 12 17 suspicious", "fidelium tag study.yaml 12 suspicious --remove"),
    rich_help_panel=_STEER,
)(tag)
app.command(
    epilog=examples("fidelium retry study.yaml --failed", "fidelium retry study.yaml 12 17"), rich_help_panel=_REPAIR
)(retry)
app.command(
    epilog=examples("fidelium reread study.yaml --dry-run", "fidelium reread study.yaml 12 17"), rich_help_panel=_REPAIR
)(reread)
app.command(
    epilog=examples(
        'fidelium exclude study.yaml 12 --reason "wrong mesh"', "fidelium exclude study.yaml 12 --explain --dry-run"
    ),
    rich_help_panel=_REPAIR,
)(exclude)
app.command(epilog=examples("fidelium restore study.yaml 12"), rich_help_panel=_REPAIR)(restore)
app.command(epilog=examples("fidelium changes study.yaml --json"), rich_help_panel=_REPAIR)(changes)
app.command(
    epilog=examples("fidelium export study.yaml trials.csv", "fidelium export study.yaml trials.parquet"),
    rich_help_panel=_DATA,
)(export)
app.command(
    "import",
    epilog=examples(
        "fidelium import study.yaml old.csv",
        "fidelium import study.yaml old.csv --fidelity coarse --column value=mass",
        "fidelium import study.yaml old.csv --skip-bad",
    ),
    rich_help_panel=_DATA,
)(import_)
app.add_typer(storage, name="storage", rich_help_panel=_DATA)
app.command(epilog=examples("fidelium schema > study.schema.json"), rich_help_panel=_BUILT_IN)(schema)
app.command(epilog=examples("fidelium strategies"), rich_help_panel=_BUILT_IN)(strategies)
app.command(epilog=examples("fidelium problems --json"), rich_help_panel=_BUILT_IN)(problems)
app.command(epilog=examples("fidelium demo", "fidelium demo plate --budget 100"), rich_help_panel=_BUILT_IN)(demo)
app.command(epilog=examples("fidelium tune --problem levy --method both"), rich_help_panel=_BUILT_IN)(tune)
app.add_typer(bench, name="bench", rich_help_panel=_BUILT_IN)


def main(arguments: list[str] | None = None) -> None:
    """Run a command; bad input ends with one line on stderr and exit code 2."""
    gc.set_threshold(_GC_THRESHOLD)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path may hold bytes that are not text
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code = app(arguments or ["--help"], standalone_mode=False)
    except typer.TyperException as error:  # bad arguments
        _fail(error.format_message())
    except FideliumError as error:
        _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("interrupted", err=True)
        sys.exit(130)
    else:
        sys.exit(code or 0)


def _fail(message: str) -> None:
    typer.echo(f"error: {message}", err=True)
    sys.exit(2)


def _print_version(show: bool) -> None:
    if show:
        typer.echo(f"fidelium {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    del version
