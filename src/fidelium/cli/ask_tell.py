"""`fidelium ask` and `fidelium tell`: for people and scripts that run the simulations themselves."""

from __future__ import annotations

import json
import math
import sys
from typing import Annotated, Any

import typer

from fidelium.cli.locate import find, open_study
from fidelium.cli.options import Name, Where
from fidelium.cli.output import counted, print_json, say
from fidelium.errors import BudgetError, SettingError

_FIELDS = ("number", "value", "failed", "measured_cost")


def ask(
    where: Where,
    name: Name = None,
    budget: Annotated[
        float | None, typer.Option(help="Cost units to spend in total.", show_default="the file's, or no limit")
    ] = None,
) -> None:
    """Print the next trial to evaluate, as JSON: number, params, fidelity, cost.

    The exit code is 1 if the budget is spent.
    """
    found = find(where, name)
    file_budget = math.inf if found.budget is None else found.budget
    with open_study(found, create=True) as study:
        try:
            trial = study.ask(file_budget if budget is None else budget)
        except BudgetError as spent:  # not a mistake: a script's loop ends here
            say(f"nothing to ask: {spent}")
            raise typer.Exit(1) from None
    rung = trial.fidelity
    print_json({"number": trial.number, "params": trial.params, "fidelity": rung.name, "cost": rung.cost})


def tell(
    where: Where,
    number: Annotated[
        str, typer.Argument(help="The trial's number, or - to read JSON from stdin.", show_default=False)
    ],
    value: Annotated[str | None, typer.Argument(help="What was observed.", show_default=False)] = None,
    name: Name = None,
    failed: Annotated[str | None, typer.Option(help="Why there is no value.", metavar="REASON")] = None,
    measured_cost: Annotated[float | None, typer.Option(help="What it really cost; recorded, not counted.")] = None,
    give_back: Annotated[bool, typer.Option("--give-back", help="Queue it again, for whoever asks next.")] = False,
) -> None:
    """Finish a trial that was asked for, with its value or the reason why there is none.

    With - as the number, it is read from stdin: {"number": 3, "value": 1.5}, or {"number": 3, "failed": "why"}, with
    "measured_cost" if it is known.
    """
    told = {"number": number, "value": _number(value), "failed": failed, "measured_cost": measured_cost}
    if number == "-":
        if any(each is not None for each in (value, failed, measured_cost)):
            raise SettingError("with - everything comes from stdin: leave the value and the options out")
        told = _from_stdin()
    trial = _trial_number(told.pop("number", None))
    with open_study(find(where, name)) as study:
        if give_back:
            ended = study.give_back(trial)
        else:
            value_told, reason, cost = (told.get(key) for key in ("value", "failed", "measured_cost"))
            ended = study.tell(trial, value_told, failed=reason, measured_cost=cost)
        left = len(study.snapshot().pending)
    say(f"trial {trial} is {ended.state}; {counted(left, 'trial')} pending")


def _from_stdin() -> dict[str, Any]:
    """What stdin tells.

    Raises:
        SettingError: if it is not an object of the fields there are.
    """
    form = '{"number": 3, "value": 1.5}, or {"number": 3, "failed": "why"}, with "measured_cost" if it is known'
    try:
        told = json.load(sys.stdin)
    except ValueError as error:  # also what is no text
        raise SettingError(f"stdin must hold JSON like {form}; it holds none: {error}") from None
    if not isinstance(told, dict) or not set(told) <= set(_FIELDS) or "number" not in told:
        raise SettingError(f"stdin must hold JSON like {form}; got {json.dumps(told)[:200]}")
    return told


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise SettingError(f"a value must be a number, got {text!r}") from None


def _trial_number(told: object) -> int:
    text = "" if isinstance(told, (bool, float)) else str(told)
    if not text.isascii() or not text.isdigit():
        raise SettingError(f"a trial's number is a whole number from 0, got {told!r}")
    return int(text)
