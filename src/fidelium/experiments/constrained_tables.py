"""The tables of the experiments with constraints and with failures: the best feasible value, and what it took."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from fidelium.experiments import methods
from fidelium.experiments.metrics import FLOOR, by_problem, by_strategy, summarise
from fidelium.experiments.records import Run
from fidelium.experiments.tables import Table, short_number

Number = Callable[[Run], float]

TOLERANCE = 1e-4
"""The violation that egobox accepts by default, in units of the outcome."""


def constraint_tables(runs: Sequence[Run]) -> list[Table]:
    """Regrets of the best feasible designs, the costs of the first ones, and the shares of infeasible runs."""
    return [
        relative_regret_table(runs),
        relative_regret_table(runs, TOLERANCE),
        _medians("cost of the first feasible design at the target", runs, lambda run: run.first_feasible, "{:.4g}"),
        _means("share of the runs at the target that were infeasible", runs, lambda run: run.infeasible_share),
        _means(
            "share of the studies that found no feasible design", runs, lambda run: run.first_feasible == float("inf")
        ),
        *checkpoint_tables(runs),
    ]


def relative_regret_table(runs: Sequence[Run], tolerance: float = 0.0) -> Table:
    """Median regret at the end as a share of the optimum, and its ratio to that of the better peer.

    Args:
        runs: of all methods.
        tolerance: the violation up to which a design counts as feasible. A peer that searches on the limit itself, as
            egobox does, finds many designs that are just beyond it.
    """
    strategies = list(by_strategy(runs))
    peers = [name for name in strategies if name in methods.peer_names()]
    rows: list[tuple[str, ...]] = []
    for problem, same in by_problem(runs).items():
        ends = {name: _median(own, lambda run: _at_the_end(run, tolerance)) for name, own in by_strategy(same).items()}
        best = min((ends[name] for name in peers if name in ends), default=float("nan"))
        ratios = [_ratio(ends[name], best) for name in strategies if name not in peers and name in ends]
        budget = f"{same[0].cell.budget:g}"
        rows.append((problem, budget, *(_shown(ends, name) for name in strategies), *ratios))
    ours = [f"{name} / better peer" for name in strategies if name not in peers]
    how = f" (violations up to {tolerance:g} accepted)" if tolerance else ""
    title = f"regret of the best feasible design{how} as a share of the optimum, median over the seeds"
    return Table(title, ("problem", "cost", *strategies, *ours), tuple(rows))


def checkpoint_tables(runs: Sequence[Run]) -> list[Table]:
    """For every problem, the median of the relative regret at each checkpoint."""
    found: list[Table] = []
    for problem, same in by_problem(runs).items():
        costs = same[0].cell.checkpoints
        rows = tuple(
            (name, *(short_number(_median(own, lambda run, at=cost: run.relative_regret(at))) for cost in costs))
            for name, own in by_strategy(same).items()
        )
        seeds = len({run.cell.seed for run in same})
        title = f"{problem}: relative regret, median over {seeds} seeds, when this cost was spent"
        found.append(Table(title, ("strategy", *(f"{cost:g}" for cost in costs)), rows))
    return found


def failure_tables(runs: Sequence[Run], baseline: str | None) -> list[Table]:
    """Failed runs and regrets, compared with the baseline."""
    rows: list[tuple[str, ...]] = []
    for problem, same in by_problem(runs).items():
        groups = by_strategy(same)
        compared = groups.get(baseline or "")
        for name, own in groups.items():
            failed, regret = (
                fmean(run.failures for run in own),
                _median(own, lambda run: run.simple_regret(run.cell.budget)),
            )
            other = None if compared is None or name == baseline else compared
            rows.append(
                (
                    problem,
                    name,
                    f"{failed:.3g}",
                    f"{fmean(run.failures / len(run.queries) for run in own):.0%}",
                    str(max(run.failures_in_a_row for run in own)),
                    short_number(regret),
                    "–" if other is None else f"{failed / max(fmean(run.failures for run in other), 1e-9):.2g}",
                    "–"
                    if other is None
                    else _ratio(regret, _median(other, lambda run: run.simple_regret(run.cell.budget))),
                )
            )
    header = (
        "problem", "strategy", "failed runs", "of all", "most in a row", "regret", "ratio, failed", "ratio, regret",
    )  # fmt: skip
    title = "failed runs of a study (mean), longest series of them, and median regret at the end"
    return [Table(title, header, tuple(rows))]


def _at_the_end(run: Run, tolerance: float) -> float:
    return run.tolerant_regret(tolerance) if tolerance else run.relative_regret(run.cell.budget)


def _median(runs: Sequence[Run], number: Number) -> float:
    return summarise(number(run) for run in runs).median


def _ratio(regret: float, other: float) -> str:
    """A regret in units of another, bold if it is not larger."""
    ratio = 1.0 if regret == other else max(regret, FLOOR) / max(other, FLOOR)
    return f"**{short_number(ratio)}**" if ratio <= 1 else short_number(ratio)


def _shown(ends: Mapping[str, float], name: str) -> str:
    if name not in ends:
        return "–"
    text = short_number(ends[name])
    return f"**{text}**" if ends[name] == min(ends.values()) else text


def _medians(title: str, runs: Sequence[Run], number: Number, form: str) -> Table:
    return _by_problem(f"{title}, median", runs, lambda same: form.format(_median(same, number)))


def _means(title: str, runs: Sequence[Run], number: Number) -> Table:
    return _by_problem(title, runs, lambda same: f"{fmean(float(number(run)) for run in same):.0%}")


def _by_problem(title: str, runs: Sequence[Run], cell: Callable[[Sequence[Run]], str]) -> Table:
    """A row for each problem, a column for each strategy."""
    strategies = list(by_strategy(runs))
    rows: list[tuple[str, ...]] = []
    for problem, same in by_problem(runs).items():
        groups = by_strategy(same)
        rows.append((problem, *(cell(groups[name]) if name in groups else "–" for name in strategies)))
    return Table(title, ("problem", *strategies), tuple(rows))
