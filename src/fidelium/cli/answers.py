"""`fidelium best`, `recommend` and `predict`: what a study has found, and what its model believes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fidelium.cli.options import AsJson, Name, Where
from fidelium.cli.where import find, load, store_of
from fidelium.cli.words import console, design, grid, number, print_json, visible
from fidelium.errors import NoDataError, SettingError

if TYPE_CHECKING:
    from fidelium.space import Params, SearchSpace


def best(where: Where, name: Name = None, as_json: AsJson = False) -> None:
    """Print the best observed trial at the target fidelity."""
    from fidelium.cli.summary import Summary, trial_json

    store = store_of(find(where, name))
    found = Summary(store.record, store.trials(), None).best
    if found is None:
        raise NoDataError(f"no trial at the target, {store.record.ladder.target.name!r}, has a value yet")
    if as_json:
        print_json(trial_json(found))
        return
    out = console()
    out.print(f"{number(found.value)} at {visible(found.fidelity.name)} in trial {found.number}")
    out.print(design(found.params))


def recommend(where: Where, name: Name = None, as_json: AsJson = False) -> None:
    """Print the design to take now: where the model expects most of the target.

    The model is fitted for it, which takes some seconds.
    """
    choice = load(find(where, name)).recommend()
    if as_json:
        print_json({"params": choice.params, "mean": choice.mean, "std": choice.std})
        return
    out = console()
    out.print(f"{choice.mean:.6g} ± {choice.std:.2g} expected at the target")
    out.print(design(choice.params))


def predict(
    where: Where,
    name: Name = None,
    at: Annotated[list[str] | None, typer.Option(help="A parameter of a design, as name=value; once for each.")] = None,
    designs: Annotated[Path | None, typer.Option(help="CSV file with a design in each row, instead of --at.")] = None,
    fidelity: Annotated[str | None, typer.Option(help="The fidelity to predict.", show_default="the target")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what the model expects of designs: mean and standard deviation.

    The model is fitted for it, which takes some seconds.
    """
    study = load(find(where, name))
    wanted = _wanted(study.space, at, designs)
    rung = study.ladder.target if fidelity is None else study.ladder[study.ladder.index(fidelity)]
    means, stds = study.predict(wanted, rung)
    rows = [(params, float(mean), float(std)) for params, mean, std in zip(wanted, means, stds, strict=True)]
    if as_json:
        answers = [{"params": params, "mean": mean, "std": std} for params, mean, std in rows]
        print_json({"fidelity": rung.name, "predictions": answers})
        return
    table = grid(">mean", ">std", "design", title=f"at {visible(rung.name)}")
    for params, mean, std in rows:
        table.add_row(f"{mean:.6g}", f"{std:.2g}", design(params))
    console().print(table)


def _wanted(space: SearchSpace, at: list[str] | None, designs: Path | None) -> list[Params]:
    from fidelium.cli.designs import parse_design
    from fidelium.cli.rows import read_designs

    if (at is None) == (designs is None):
        raise SettingError("say what to predict: either --at name=value for each parameter, or --designs FILE.csv")
    return read_designs(designs, space) if designs is not None else [parse_design(space, at or [])]
