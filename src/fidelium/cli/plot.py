"""`fidelium plot`: pictures, as HTML files that work without a network and as PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fidelium.cli.files import make_folder
from fidelium.errors import SettingError

plot = typer.Typer(help="Draw pictures.")


@plot.command()
def problem(
    name: Annotated[str, typer.Argument(help="Built-in problem, as `fidelium problems` lists them.")],
    at: Annotated[
        list[str] | None, typer.Option(help="A parameter of the design to draw, as name=value; may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("plots"),
) -> None:
    """Draw what a built-in problem looks like at each fidelity; parameters that are not given are the optimum's."""
    from fidelium import plots, problems

    chosen = problems.get(name)
    figure = plots.picture(chosen, chosen.optimisers[0] | parse_values(at or []))
    make_folder(out)
    html, png = out / f"{name}.html", out / f"{name}.png"
    plots.write(figure, html, png)
    typer.echo(f"picture: {html} and {png}")


def parse_values(texts: Sequence[str]) -> dict[str, float]:
    """Numbers by name from texts like "angle=0.5".

    Raises:
        SettingError: if a text is not like that.
    """
    values: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            values[name.strip()] = float(value)
        except ValueError:
            raise SettingError(f"a parameter must look like name=value with a number, got {text!r}") from None
    return values


@plot.callback()
def _pictures() -> None:
    """Keep `problem` a command of its own, though it is the only one."""
