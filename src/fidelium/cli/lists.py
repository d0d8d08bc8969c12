"""`fidelium problems` and `fidelium strategies`: what is built in."""

from __future__ import annotations

from typing import Any

import typer

from fidelium.cli.options import AsJson
from fidelium.cli.words import print_json
from fidelium.errors import SettingError


def problems(as_json: AsJson = False) -> None:
    """List the built-in problems."""
    from fidelium import problems as known

    found = [_described(name) for name in known.names()]
    if as_json:
        print_json(found)
        return
    for problem in found:
        typer.echo(f"{problem['name']}: {_sentence(problem)}")


def strategies(as_json: AsJson = False) -> None:
    """List the strategies, the default first."""
    from fidelium.strategies import registry

    if as_json:
        print_json(list(registry.names()))
        return
    for name in registry.names():
        typer.echo(name)


def _described(name: str) -> dict[str, Any]:
    from fidelium import problems as known

    try:
        problem = known.get(name)
    except SettingError as error:  # an extra is missing
        return {"name": name, "missing": str(error)}
    return {
        "name": name,
        "direction": str(problem.direction),
        "parameters": list(problem.space.names),
        "fidelities": [{"name": rung.name, "cost": rung.cost} for rung in problem.ladder],
        "optimum": problem.optimum,
        "reference": problem.reference,
    }


def _sentence(problem: dict[str, Any]) -> str:
    if "missing" in problem:
        return problem["missing"]
    costs = ", ".join(f"{rung['name']} costs {rung['cost']:g}" for rung in problem["fidelities"])
    return f"{problem['direction']} over {', '.join(problem['parameters'])}; {costs}; {problem['reference']}"
