"""`fidelium ask` and `fidelium tell`: for people and scripts that run simulations themselves."""

from __future__ import annotations

import json
import math
import sys
from typing import Annotated, Any

import typer

from fidelium.cli.locate import find, open_study
from fidelium.cli.options import Fix, Name, Where, fixed_values
from fidelium.cli.output import counted, print_json, say
from fidelium.errors import BudgetError, NotWorthwhileError, SettingError

SHOWN = 200
"""Characters of a bad input that an error shows at most."""

LONGEST_INTEGER = 300
"""Digits of a whole number at most: one with more may be beyond all floats, and Python refuses to read 4300."""

_FIELDS = ("number", "value", "failed", "measured_cost", "outcomes", "std")


def ask(
    where: Where,
    name: Name = None,
    budget: Annotated[
        float | None, typer.Option(help="Total budget, in cost units.", show_default="the file's, or no limit")
    ] = None,
    fix: Fix = None,
) -> None:
    """Print the next trial to evaluate, as JSON: number, params, fidelity, cost.

    A study with constraints adds outcomes, the names of those that must be told with the value.

    The exit code is 1 if the remaining budget is below the cheapest run.
    """
    found = find(where, name)
    file_budget = math.inf if found.budget is None else found.budget
    with open_study(found, create=True) as study:
        fixed = fixed_values(study.space, fix)
        try:
            trial = study.ask(file_budget if budget is None else budget, fixed=fixed)
        except (BudgetError, NotWorthwhileError) as error:  # not a usage error: this ends a script's loop
            say(f"nothing to ask: {error}")
            raise typer.Exit(1) from None
        needed = [each.name for each in study.definition.constraints]
        rung = trial.fidelity
        expected = trial.cost if study.definition.measures_costs else rung.cost
    asked = {"number": trial.number, "params": trial.params, "fidelity": rung.name, "cost": expected}
    print_json({**asked, **({"outcomes": needed} if needed else {})})


def tell(
    where: Where,
    number: Annotated[
        str, typer.Argument(help="The trial's number, or - to read JSON from stdin.", show_default=False)
    ],
    value: Annotated[str | None, typer.Argument(help="Observed value.", show_default=False)] = None,
    name: Name = None,
    failed: Annotated[
        str | None, typer.Option(help="Mark the trial as failed, with this reason.", metavar="REASON")
    ] = None,
    measured_cost: Annotated[
        float | None, typer.Option(help="Actual cost; counted with cost: measured, else recorded.")
    ] = None,
    outcome: Annotated[
        list[str] | None, typer.Option(help="An outcome, as name=value; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    std: Annotated[str | None, typer.Option(help="Standard error of the value; 0 if it is exact.")] = None,
    give_back: Annotated[
        bool, typer.Option("--give-back", help="Put the trial back into the queue for the next ask.")
    ] = False,
) -> None:
    """Record the value of a trial with its outcomes, or the reason why it failed.

    With - as the number, JSON is read from stdin: {"number": 3, "value": 1.5} or {"number": 3, "failed": "why"}, with
    an optional "measured_cost", "outcomes": {"stress": 1.2e8} and "std", the standard error of the value.
    """
    result: dict[str, Any] = {"number": number, "value": _parse_value(value), "failed": failed}
    result |= {"measured_cost": measured_cost, "outcomes": _parse_outcomes(outcome), "std": _parse_std(std)}
    if number == "-":
        if any(given is not None for given in (value, failed, measured_cost, outcome, std)):
            raise SettingError("with - the result is read from stdin; remove the value and the options")
        result = _read_stdin()
    trial = _parse_number(result.pop("number", None))
    from fidelium.feasibility import infeasible_text

    with open_study(find(where, name)) as study:
        if give_back:
            finished = study.give_back(trial)
        else:
            reason, cost, outcomes = result.get("failed"), result.get("measured_cost"), result.get("outcomes")
            finished = study.tell(
                trial,
                result.get("value"),
                failed=reason,
                measured_cost=cost,
                outcomes=outcomes,
                std=result.get("std"),
            )
        pending = len(study.snapshot().pending)
    beyond = infeasible_text(finished)
    say(f"trial {trial} is {finished.state}{beyond and f', {beyond}'}; {counted(pending, 'trial')} pending")


def _read_stdin() -> dict[str, Any]:
    """The result given as JSON on stdin.

    Raises:
        SettingError: if it is not an object with known keys.
    """
    form = (
        '{"number": 3, "value": 1.5} or {"number": 3, "failed": "why"}, with an optional "measured_cost", '
        '"outcomes": {"stress": 1.2e8} and "std"'
    )
    text = ""
    try:
        text = sys.stdin.read()
        result = json.loads(text, parse_int=_bounded_integer, object_pairs_hook=_without_duplicates)
    except ValueError as error:  # includes UnicodeDecodeError
        raise SettingError(f"expected JSON like {form} on stdin; this is not JSON: {error}") from None
    except RecursionError:
        raise SettingError(f"expected JSON like {form} on stdin; this is nested too deeply: {_start(text)}") from None
    if not isinstance(result, dict) or not set(result) <= set(_FIELDS) or "number" not in result:
        raise SettingError(f"expected JSON like {form} on stdin, got {_start(text)}")
    return result


def _start(given: object) -> str:
    """What was given, in one line that is not too long."""
    shown = repr(given)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."


def _bounded_integer(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError(f"a number has {len(text)} digits")
    return int(text)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"a key is given twice: {', '.join(repr(key[:SHOWN]) for key, _ in pairs[:SHOWN])}")
    return dict(pairs)


def _parse_value(text: str | None) -> float | None:
    if text is None:
        return None
    if text.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return math.nan  # not an error: `tell` records a failed trial
    from fidelium.numbers import parse_decimal  # imports NumPy

    value = parse_decimal(text)
    if value is None:
        raise SettingError(f"a value must be a number, got {_start(text)}")
    return value


def _parse_std(text: str | None) -> float | None:
    """The standard error given as text; NaN and infinite ones are refused by `tell`."""
    if text is None:
        return None
    from fidelium.numbers import parse_decimal  # imports NumPy

    number = parse_decimal(text)
    if number is None:
        raise SettingError(f"--std must be a number >= 0, got {_start(text)}")
    return number


def _parse_outcomes(texts: list[str] | None) -> dict[str, float] | None:
    found: dict[str, float] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        number = _parse_value(value) if equals else None
        if number is None or name.strip() in found:
            raise SettingError(f"--outcome must look like name=value, each name once, got {_start(text)}")
        found[name.strip()] = number
    return found or None


def _parse_number(number: object) -> int:
    text = "" if isinstance(number, (bool, float)) else str(number)
    if not text.isascii() or not text.isdigit() or len(text) > LONGEST_INTEGER:
        raise SettingError(f"a trial's number must be a whole number from 0, got {_start(number)}")
    return int(text)
