"""`fidelium plot`: figures, as HTML files that work offline and as PNG files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fidelium.cli.locate import find, open_study
from fidelium.cli.options import Name, Where, complete_problem, named_values
from fidelium.cli.output import examples, make_folder

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

plot = typer.Typer(help="Draw figures.")

Out = Annotated[Path, typer.Option(help="Folder for the figure.")]


@plot.command(epilog=examples("fidelium plot study study.yaml --out pictures"))
def study(where: Where, name: Name = None, out: Out = Path("plots")) -> None:
    """Draw the convergence of a study and its model's predictions."""
    from fidelium import plots
    from fidelium.execution.run_folder import safe_name

    with open_study(find(where, name)) as chosen:
        figure = plots.overview(chosen)
    _write(figure, out, f"{safe_name(chosen.definition.stored_name)}-overview")


@plot.command(epilog=examples("fidelium plot problem branin", "fidelium plot problem plate --at density=7000"))
def problem(
    name: Annotated[
        str,
        typer.Argument(help="Built-in problem; `fidelium problems` lists them.", autocompletion=complete_problem),
    ],
    at: Annotated[
        list[str] | None, typer.Option(help="A parameter of the design to draw, as name=value; may be repeated.")
    ] = None,
    out: Out = Path("plots"),
) -> None:
    """Draw a built-in problem at each fidelity; parameters default to the optimum."""
    from fidelium import plots, problems

    chosen = problems.get(name)
    figure = plots.picture(chosen, chosen.optimisers[0] | named_values(at or [], "--at", float))
    _write(figure, out, name)


def _write(figure: Figure, out: Path, name: str) -> None:
    from fidelium import plots

    make_folder(out)
    html, png = out / f"{name}.html", out / f"{name}.png"
    plots.write(figure, html, png)
    typer.echo(f"picture: {html} and {png}")
