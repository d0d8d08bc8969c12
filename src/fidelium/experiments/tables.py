"""The tables of an experiment: regrets, ratios to a baseline, ranks and times, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from fidelium.experiments.metrics import (
    MEASURES,
    REGRETS,
    SMALLEST,
    Measure,
    Ratio,
    by_problem,
    by_strategy,
    mean_factor,
    mean_ranks,
    over_seeds,
    paired_test,
    ratios,
    summarise,
)
from fidelium.experiments.records import Run

_REACH = (1.0, 0.01)
"""The tables show the cost of reaching these simple regrets."""


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Args:
        title: what it shows.
        header: names of the columns.
        rows: one per strategy.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """The table as Markdown, under its title."""
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        return f"**{self.title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def regret_tables(runs: Sequence[Run], measure: str = "simple regret") -> list[Table]:
    """Per problem the median over the seeds at each checkpoint, the lowest in bold."""
    return [_regrets(problem, same, measure) for problem, same in by_problem(runs).items()]


def _regrets(problem: str, runs: Sequence[Run], name: str) -> Table:
    checkpoints = runs[0].cell.checkpoints
    found = {strategy: _medians(same, MEASURES[name], checkpoints) for strategy, same in by_strategy(runs).items()}
    lowest = [short_number(min(medians[i] for medians in found.values())) for i in range(len(checkpoints))]
    rows = tuple(
        (strategy, *(_marked(short_number(value), best) for value, best in zip(medians, lowest, strict=True)))
        for strategy, medians in found.items()
    )
    seeds = len({run.cell.seed for run in runs})
    title = f"{problem}: {name}, median over {seeds} seeds, when this cost was spent"
    return Table(title, ("strategy", *(f"{cost:g}" for cost in checkpoints)), rows)


def _medians(runs: Sequence[Run], measure: Measure, costs: Sequence[float]) -> list[float]:
    return [over_seeds(runs, measure, cost).median for cost in costs]


def _marked(text: str, lowest: str) -> str:
    return f"**{text}**" if text == lowest else text


def summary_tables(runs: Sequence[Run]) -> list[Table]:
    """Per problem how each strategy ended: all statistics of its simple regret, and its queries."""
    return [_summary(problem, same) for problem, same in by_problem(runs).items()]


def _summary(problem: str, runs: Sequence[Run]) -> Table:
    header = (
        "strategy", "mean", "std. error", "median", "quartiles",
        *(f"cost to {regret:g}" for regret in _REACH), "recommended", "queries (mean)", "warnings",
    )  # fmt: skip
    rows = tuple(_summary_row(strategy, same) for strategy, same in by_strategy(runs).items())
    return Table(f"{problem}: simple regret when {runs[0].cell.budget:g} was spent", header, rows)


def _summary_row(strategy: str, runs: Sequence[Run]) -> tuple[str, ...]:
    budget = runs[0].cell.budget
    end = over_seeds(runs, MEASURES["simple regret"], budget)
    return (
        strategy,
        short_number(end.mean),
        short_number(end.standard_error),
        short_number(end.median),
        f"{short_number(end.lower)} – {short_number(end.upper)}",
        *(f"{summarise(run.cost_to_reach(regret) for run in runs).median:.4g}" for regret in _REACH),
        short_number(over_seeds(runs, MEASURES["recommended design"], budget).median),
        _queries(runs),
        str(sum(len(run.end["warnings"]) for run in runs)),
    )


def _queries(runs: Sequence[Run]) -> str:
    counts = Counter(query["fidelity"] for run in runs for query in run.queries)
    return " / ".join(f"{counts[name] / len(runs):.4g} {name}" for name, _ in runs[0].cell.initial if counts[name])


def time_table(runs: Sequence[Run], reference: str) -> Table:
    """Mean processor seconds of a suggestion per problem, and their ratio to the reference's.

    Problems are the rows if there are more of them than strategies.
    """
    problems = by_problem(runs)
    groups = by_strategy(runs)
    seconds = {name: {p: _seconds(same, p) for p in problems} for name, same in groups.items()}
    base = seconds.get(reference, {})
    title = f"seconds of one core per suggestion (and as a ratio to {reference})"
    if len(problems) > len(groups):  # there is more room for rows than for columns
        rows = tuple((p, *(_time(found[p], base.get(p)) for found in seconds.values())) for p in problems)
        return Table(title, ("problem", *groups), rows)
    rows = tuple((name, *(_time(found[p], base.get(p)) for p in problems)) for name, found in seconds.items())
    return Table(title, ("strategy", *problems), rows)


def _seconds(runs: Sequence[Run], problem: str) -> float | None:
    found = [run.query_seconds for run in runs if run.cell.problem == problem]
    return median(found) if found else None


def _time(seconds: float | None, reference: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds:.2g}" + (f" ({seconds / reference:.2g}×)" if reference else "")


def rank_table(runs: Sequence[Run], reference: str) -> Table:
    """Mean ranks at the end over all problems and seeds, and a paired test of each strategy against the reference."""
    columns: list[Mapping[str, float]] = [mean_ranks(runs, MEASURES[name]) for name in REGRETS]
    strategies = sorted(columns[0], key=columns[0].__getitem__)
    rows = tuple(
        (name, *(f"{ranks[name]:.2f}" for ranks in columns), _tested(runs, name, reference)) for name in strategies
    )
    header = ("strategy", *(f"rank, {name}" for name in REGRETS), f"p against {reference}")
    return Table("mean rank over all problems and seeds when the budget was spent, 1 the best", header, rows)


def _tested(runs: Sequence[Run], strategy: str, reference: str) -> str:
    if strategy == reference or reference not in by_strategy(runs):
        return "–"
    return f"{paired_test(runs, strategy, reference, MEASURES['simple regret']):.2g}"


def ratio_table(runs: Sequence[Run], baseline: str, most: dict[str, float]) -> Table:
    """Median simple regrets when the budget was spent, their ratio, and its bound."""
    rows = tuple(
        (
            each.problem,
            each.strategy,
            short_number(each.regret.median),
            short_number(each.baseline),
            _judged(each, most),
            f"{most[each.problem]:g}" if each.problem in most else "–",
        )
        for each in ratios(runs, baseline)
    )
    title = f"simple regret when the budget was spent, median over the seeds, compared with {baseline}"
    return Table(title, ("problem", "strategy", "regret", f"{baseline}'s", "ratio", "at most"), rows)


def _judged(ratio: Ratio, most: dict[str, float]) -> str:
    text = short_number(ratio.median)
    return f"**{text}**" if ratio.median <= most.get(ratio.problem, 0.0) else text


def ablation_table(runs: Sequence[Run], baseline: str) -> Table:
    """Median simple regrets when the budget was spent, and the multiple of the baseline's over all problems."""
    problems = by_problem(runs)
    rows = [
        (name, *(_end(same, problem) for problem in problems), *_factor(runs, name, baseline))
        for name, same in by_strategy(runs).items()
    ]
    title = f"simple regret when the budget was spent, medians; as a multiple of {baseline}'s, geometric mean over all"
    return Table(title, ("strategy", *problems, "multiple", "p"), tuple(rows))


def _end(runs: Sequence[Run], problem: str) -> str:
    own = [run for run in runs if run.cell.problem == problem]
    return short_number(over_seeds(own, MEASURES["simple regret"], own[0].cell.budget).median) if own else "–"


def _factor(runs: Sequence[Run], name: str, baseline: str) -> tuple[str, str]:
    if name == baseline:
        return "1", "–"
    return short_number(mean_factor(runs, name, baseline)), _tested(runs, name, baseline)


def short_number(number: float) -> str:
    """A regret with two digits; rounding errors of the optimum's value become 0."""
    return f"{0.0 if abs(number) <= SMALLEST else number:.2g}"
