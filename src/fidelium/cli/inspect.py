"""Commands that only look: `status`, `best`, `recommend`, `predict`, and the lists of problems and strategies."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fidelium.cli.locate import Located, find, open_store, open_study, peek
from fidelium.cli.options import AsJson, Fix, Name, Where, fixed_values
from fidelium.cli.output import (
    console,
    counted,
    design,
    expectation,
    grid,
    number,
    outcome_lines,
    print_json,
    truncated,
)
from fidelium.errors import NoDataError, SettingError
from fidelium.text import duration, reason_line, visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from fidelium.history import Trial
    from fidelium.snapshot import FidelityUsage, Snapshot
    from fidelium.space import Params, SearchSpace
    from fidelium.storage import StudyStore
    from fidelium.study.learned import Learned
    from fidelium.study.stopping import Stopped

SHOWN = 8
"""Running trials, and failures, that the table shows at most."""

LONGEST_REASON = 1000
"""Characters of a reason in the table, which wraps it."""

_BY_HAND = "asked by hand"


def status(
    where: Where,
    name: Name = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing it until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between updates with --watch.", min=0.1)] = 2.0,
    failures: Annotated[bool, typer.Option("--failures", help="Only all failures, with their whole reasons.")] = False,
    model: Annotated[
        bool, typer.Option("--model", help="Also what the model has learned: fitting it takes some seconds.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a study: trials, cost by fidelity, the best, what runs now, and what failed and why.

    With --model also how each fidelity correlates with the target, and whether runs near the best design succeed.
    """
    if watch and as_json:
        raise SettingError("--watch is for people and --json for programs: pass one of them")
    if failures and (watch or as_json):
        raise SettingError("--failures goes alone; the reasons of --json are whole already")
    if model and (watch or failures):
        raise SettingError("--model fits a model once: it does not go with --watch or --failures")
    found = peek(where, name)
    with open_store(found) as store:
        if as_json:
            learned = {"learned": _learned(where, name).to_dict()} if model else {}
            stop = _stopped(store)
            stopped = {"stopped": None if stop is None else stop.to_dict()}
            print_json({**status_json(_snapshot(found, store), time.time()), **stopped, **learned})
        elif failures:
            for line in _whole_failures(_snapshot(found, store)):
                console().print(line)
        elif watch:
            _watch(found, store, every)
        else:
            console().print(_page(_snapshot(found, store), time.time()))
            if (stop := _stopped(store)) is not None:
                console().print(f"stopped by {visible(str(stop))}")
    if model and not as_json:
        for line in _learned(where, name).lines or ("the model says nothing about fidelities or failures",):
            console().print(f"learned: {visible(line)}")


def _stopped(store: StudyStore) -> Stopped | None:
    """The rule that has stopped the study, None if there is none, or something was started since."""
    changes = store.changes()
    if not any(change.action == "stop" for change in changes):  # the next import takes a while
        return None
    from fidelium.study.stopping import last_stop

    found = last_stop(changes, store.trials())
    return found if found is not None and found.holds else None


def _learned(where: str, name: str | None) -> Learned:
    with open_study(find(where, name)) as study:
        return study.learned()


def status_json(now: Snapshot, time: float) -> dict[str, Any]:
    """A study for programs.

    Args:
        now: the study.
        time: seconds since 1970, for the ages of running trials.
    """
    from fidelium.forecast import Forecast
    from fidelium.trial_table import trial_record

    of, best = now.definition, now.best
    return {
        "name": of.stored_name,
        "direction": str(of.direction),
        "strategy": of.strategy_name,
        "seed": of.seed,
        "cost": of.cost,
        "trials": len(now.trials),
        "states": now.states,
        "spent": now.spent,
        "reserved": now.reserved,
        "budget": None if math.isinf(now.budget) else now.budget,
        "forecast": None if (forecast := Forecast.of(now)) is None else forecast.to_dict(),
        "fidelities": [_usage_json(used) for used in now.usage],
        "best": None if best is None else trial_record(best),
        **_feasibility_json(now),
        "excluded": [trial.number for trial in now.excluded],
        "running": [_running_json(trial, time) for trial in now.running],
        "queued": [_queued_json(trial) for trial in _in_order(now)],
        "waiting": [trial.number for trial in now.waiting],
        "annotated": [_annotation_json(trial) for trial in _annotated(now)],
        "failures": [_failure_json(trial) for trial in now.failures],
    }


def _feasibility_json(now: Snapshot) -> dict[str, Any]:
    """How the trials at the target meet the constraints, and the best one each of them; nothing without constraints."""
    from fidelium.feasibility import Feasibility, judged

    if not now.definition.constraints:
        return {}
    best = [] if now.best is None else [each.to_dict() for each in judged(now.best)]
    return {"feasibility": {**Feasibility(now).to_dict(), "best": best}}


def _usage_json(used: FidelityUsage) -> dict[str, Any]:
    declared = used.fidelity.cost  # as it is written, if it is a number
    each = declared if used.cost_each == declared else used.cost_each
    inputs = {} if used.fidelity.inputs is None else {"inputs": list(used.fidelity.inputs)}
    return {
        "name": used.fidelity.name,
        "cost_each": each,
        "trials": used.trials,
        "given": used.given,
        "cost": used.cost,
        **inputs,
    }


def _running_json(trial: Trial, time: float) -> dict[str, Any]:
    seconds = round(_age(trial, time), 1)
    return {"number": trial.number, "fidelity": trial.fidelity.name, "worker": trial.worker, "seconds": seconds}


def _queued_json(trial: Trial) -> dict[str, Any]:
    return {"number": trial.number, "fidelity": trial.fidelity.name, "cost": trial.cost, "priority": trial.priority}


def _annotation_json(trial: Trial) -> dict[str, Any]:
    return {"number": trial.number, "tags": list(trial.tags), "note": trial.note}


def _in_order(now: Snapshot) -> list[Trial]:
    """The queued trials, the first to be started first."""
    return sorted(now.queued, key=lambda trial: (-trial.priority, trial.number))


def _annotated(now: Snapshot) -> list[Trial]:
    """The trials with a note or a tag, newest first."""
    return [trial for trial in reversed(now.trials) if trial.note is not None or trial.tags]


def _failure_json(trial: Trial) -> dict[str, Any]:
    name, state = trial.fidelity.name, str(trial.state)
    return {"number": trial.number, "fidelity": name, "state": state, "reason": trial.reason, "attempt": trial.attempt}


def _age(trial: Trial, time: float) -> float:
    """Seconds since a trial was started."""
    return 0.0 if trial.started is None else max(time - trial.started, 0.0)


def _snapshot(found: Located, store: StudyStore) -> Snapshot:
    from fidelium.snapshot import Snapshot

    return Snapshot(store.definition, store.trials(), math.inf if found.budget is None else found.budget)


def _watch(found: Located, store: StudyStore, every: float) -> None:
    from rich.live import Live

    def page() -> RenderableType:
        return _page(_snapshot(found, store), time.time())

    try:
        with Live(page(), console=console(), auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(page(), refresh=True)
    except KeyboardInterrupt:  # the way to leave
        return


def _page(now: Snapshot, time: float) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(line) for line in _lines(now)]
    parts.append(_costs(now))
    if now.running:
        parts.append(_running(now, time))
    if now.queued:
        parts.append(_queued(now))
    if now.failures:
        parts.append(_failures(now))
    if _annotated(now):
        parts.append(_annotations(now))
    return Group(*parts)


def _lines(now: Snapshot) -> list[str]:
    from fidelium.feasibility import Feasibility
    from fidelium.forecast import Forecast

    of, best, forecast = now.definition, now.best, Forecast.of(now)
    target = visible(of.ladder.target.name)
    states = ", ".join(f"{count} {state}" for state, count in now.states.items() if count)
    budget = "" if math.isinf(now.budget) else f" of {now.budget:g} ({now.spent / now.budget:.0%})"
    value = visible(Feasibility(now).without_best) if best is None else number(best.value)
    value += "" if best is None or best.std is None else f" ± {best.std:.2g}"
    lines = [
        f"{visible(of.stored_name)}: {of.direction} at {target} with {of.strategy_name}",
        f"trials  {len(now.trials)}" + (f" ({states})" if states else ""),
        f"spent   {now.spent:g}{budget}" + (f", {now.reserved:g} reserved for queued trials" if now.reserved else ""),
        *([] if forecast is None or not forecast.has_runs else [f"left    {forecast.text}"]),
        f"best    {value}" + ("" if best is None else f" in trial {best.number}"),
    ]
    for rung in of.ladder:
        if rung.inputs is not None:
            lines.insert(1, f"inputs  {visible(rung.name)} uses {visible(', '.join(rung.inputs))} alone")
    if best is not None:
        lines.append(f"        {design(best.params)}")
        lines += [f"        {line}" for line in outcome_lines(best)]
    if of.constraints and Feasibility(now).judged:
        lines.append(f"feasible {visible(Feasibility(now).text)}")
    if now.excluded:
        numbers = truncated([str(trial.number) for trial in now.excluded], SHOWN)
        lines.append(f"excluded: {', '.join(numbers)}")
    return lines


def _costs(now: Snapshot) -> Table:
    table = grid("fidelity", ">cost each", ">trials", ">given", ">cost", ">share")
    for used in now.usage:
        table.add_row(
            visible(used.fidelity.name),
            f"{used.cost_each:g}",
            str(used.trials),
            str(used.given),
            f"{used.cost:g}",
            f"{used.cost / now.spent:.0%}" if now.spent else "–",
        )
    return table


def _running(now: Snapshot, time: float) -> Table:
    table = grid(">trial", "fidelity", ">age", ">attempt", "worker", title=f"running: {len(now.running)}")
    for trial in now.running[:SHOWN]:
        fidelity, worker = visible(trial.fidelity.name), visible(trial.worker or _BY_HAND)
        table.add_row(str(trial.number), fidelity, duration(_age(trial, time)), str(trial.attempt), worker)
    return _with_rest(table, len(now.running))


def _queued(now: Snapshot) -> Table:
    title = f"queued: {len(now.queued)}" + (f", {len(now.waiting)} wait for a larger budget" if now.waiting else "")
    table = grid(">trial", "fidelity", ">cost", ">priority", "design", title=title)
    for trial in _in_order(now)[:SHOWN]:
        fidelity, cost = visible(trial.fidelity.name), f"{trial.cost:g}"
        table.add_row(str(trial.number), fidelity, cost, str(trial.priority), design(trial.params))
    return _with_rest(table, len(now.queued))


def _annotations(now: Snapshot) -> Table:
    found = _annotated(now)
    table = grid(">trial", "state", "tags", "note", title="notes and tags, newest first")
    for trial in found[:SHOWN]:
        note = reason_line(trial.note, LONGEST_REASON) if trial.note else ""
        table.add_row(str(trial.number), str(trial.state), visible(", ".join(trial.tags)), note)
    return _with_rest(table, len(found))


def _failures(now: Snapshot) -> Table:
    title = counted(len(now.failures), "failure")
    table = grid(">trial", "fidelity", "state", "reason", title=f"{title}, newest first")
    for trial in now.failures[:SHOWN]:
        line = reason_line(trial.reason, LONGEST_REASON)
        table.add_row(str(trial.number), visible(trial.fidelity.name), str(trial.state), line)
    return _with_rest(table, len(now.failures))


def _whole_failures(now: Snapshot) -> list[str]:
    """Every failure with its whole reason, newest first."""
    lines = [] if now.failures else ["no failures"]
    for trial in now.failures:
        lines.append(
            f"trial {trial.number} at {visible(trial.fidelity.name)}: {trial.state} in attempt {trial.attempt}"
        )
        lines += [f"    {visible(line)}" for line in (trial.reason or "unknown").splitlines()]
    return lines


def _with_rest(table: Table, count: int) -> Table:
    if count > SHOWN:
        table.caption, table.caption_justify = f"and {count - SHOWN} more", "left"
    return table


def best(where: Where, name: Name = None, as_json: AsJson = False) -> None:
    """Print the best feasible trial at the target fidelity."""
    from fidelium.feasibility import Feasibility, judged
    from fidelium.trial_table import trial_record

    found = find(where, name)
    with open_store(found) as store:
        now = _snapshot(found, store)
    best = now.best
    if best is None:
        if Feasibility(now).infeasible:
            raise NoDataError(Feasibility(now).without_best)
        raise NoDataError(f"no trial at the target, {now.definition.ladder.target.name!r}, has a value yet")
    if as_json:
        limits = {"constraints": [each.to_dict() for each in judged(best)]} if best.constraints else {}
        print_json({**trial_record(best), **limits})
        return
    out = console()
    out.print(f"{number(best.value)} at {visible(best.fidelity.name)} in trial {best.number}")
    out.print(design(best.params))
    for line in outcome_lines(best):
        out.print(line)


def recommend(where: Where, name: Name = None, fix: Fix = None, as_json: AsJson = False) -> None:
    """Print the recommended design: the best one observed at the target, or one the model is sure is better.

    Fitting the model takes some seconds.
    """
    with open_study(find(where, name)) as study:
        choice = study.recommend(fixed_values(study.space, fix))
    if as_json:
        chance = choice.feasible_probability
        judged = study.definition.constraints or chance not in (None, 1.0)
        likely = {"feasible_probability": chance} if judged else {}
        print_json({"params": choice.params, "mean": choice.mean, "std": choice.std, "trial": choice.trial, **likely})
        return
    out = console()
    out.print(expectation(choice))
    out.print(design(choice.params))


def predict(
    where: Where,
    name: Name = None,
    at: Annotated[list[str] | None, typer.Option(help="A parameter of a design, as name=value; once for each.")] = None,
    designs: Annotated[Path | None, typer.Option(help="CSV file with a design in each row, instead of --at.")] = None,
    fidelity: Annotated[str | None, typer.Option(help="The fidelity to predict.", show_default="the target")] = None,
    outcome: Annotated[str | None, typer.Option(help="The outcome to predict.", show_default="the objective")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the model's mean and standard deviation at designs, and the probability that they are feasible.

    Fitting the model takes some seconds.
    """
    with open_study(find(where, name)) as study:
        points = _designs(study.space, at, designs)
        rung = study.ladder.target if fidelity is None else study.ladder[study.ladder.index(fidelity)]
        means, stds = study.predict(points, rung, outcome)
        limited = bool(study.definition.constraints) or study.history().learns_success
        chances = study.feasibility(points).tolist() if limited else [None] * len(points)
    rows = list(zip(points, means.tolist(), stds.tolist(), chances, strict=True))
    if as_json:
        answers = [
            {"params": params, "mean": mean, "std": std, **({} if chance is None else {"feasible_probability": chance})}
            for params, mean, std, chance in rows
        ]
        print_json({"fidelity": rung.name, **({"outcome": outcome} if outcome else {}), "predictions": answers})
        return
    title = f"{visible(outcome)} at {visible(rung.name)}" if outcome else f"at {visible(rung.name)}"
    table = grid(">mean", ">std", *([">feasible"] if limited else []), "design", title=title)
    for params, mean, std, chance in rows:
        likely = [] if chance is None else [f"{chance:.2f}"]
        table.add_row(f"{mean:.6g}", f"{std:.2g}", *likely, design(params))
    console().print(table)


def _designs(space: SearchSpace, at: list[str] | None, designs: Path | None) -> list[Params]:
    from fidelium.cli.table_io import parse_design, read_designs

    if (at is None) == (designs is None):
        raise SettingError("pass the designs to predict: --at name=value for each parameter, or --designs FILE.csv")
    return read_designs(designs, space) if designs is not None else [parse_design(space, at or [])]


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
        print_json(list(registry.strategy_names()))
        return
    for name in registry.strategy_names():
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
        "constraints": list(problem.constraints),
        "fails": problem.fails,
        "optimum": problem.optimum,
        "reference": problem.reference,
    }


def _sentence(problem: dict[str, Any]) -> str:
    if "missing" in problem:
        return problem["missing"]
    costs = ", ".join(f"{rung['name']} costs {rung['cost']:g}" for rung in problem["fidelities"])
    limits = f" with {', '.join(problem['constraints'])}" if problem["constraints"] else ""
    fails = "; some runs fail" if problem["fails"] else ""
    over = f"{problem['direction']} over {', '.join(problem['parameters'])}{limits}"
    return f"{over}; {costs}{fails}; {problem['reference']}"
