"""The commands of `fidelium`, and one-line errors for all of them.

Nothing heavy is imported here: each command imports what it needs when it runs, so that `--help` is quick.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fidelium import __version__
from fidelium.cli.bench import bench
from fidelium.cli.demo import demo
from fidelium.cli.plot import plot
from fidelium.cli.tune import tune
from fidelium.errors import FideliumError, SettingError

app = typer.Typer(
    name="fidelium",
    help="Find the best design of an expensive simulation while paying mostly for cheap ones.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""What the parser raises: its base class, which Typer took over from click under another name."""

app.command()(demo)
app.command()(tune)
app.add_typer(bench, name="bench")
app.add_typer(plot, name="plot")


@app.command()
def problems() -> None:
    """List the built-in problems."""
    from fidelium import problems as known

    for name in known.names():
        try:
            problem = known.get(name)
        except SettingError as error:  # an extra is missing
            typer.echo(f"{name}: {error}")
            continue
        costs = ", ".join(f"{rung.name} costs {rung.cost:g}" for rung in problem.ladder)
        typer.echo(f"{name}: {problem.direction} over {', '.join(problem.space.names)}; {costs}; {problem.reference}")


@app.command()
def strategies() -> None:
    """List the strategies, the default first."""
    from fidelium.strategies import registry

    for name in registry.names():
        typer.echo(name)


def main(arguments: list[str] | None = None) -> None:
    """Run a command; bad input ends with one line on stderr and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code = app(arguments or ["--help"], standalone_mode=False)
    except _USAGE_ERROR as error:
        _fail(error.format_message())  # pyright: ignore[reportAttributeAccessIssue]
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


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fidelium {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    del version
