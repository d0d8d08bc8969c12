"""What a regret experiment found, as rows: medians over the seeds, per problem and strategy."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from fidelium.experiments.regret import Run

_CHECKPOINTS = {"branin": (300, 500, 1000, 1500), "levy": (300, 500, 1000, 1500), "park1": (30, 60, 100, 300)}


@dataclass(frozen=True)
class Row:
    """A strategy on a problem, over all seeds.

    Args:
        problem: its name.
        strategy: its name.
        seeds: how many seeds there were.
        regrets: cost -> median simple regret when that was spent.
        recommendation: median regret of the recommended design at the end.
        queries: fidelity -> mean number of queries.
        seconds: median seconds of a suggestion.
    """

    problem: str
    strategy: str
    seeds: int
    regrets: dict[float, float]
    recommendation: float
    queries: dict[str, float]
    seconds: float


def checkpoints(problem: str, budget: float) -> tuple[float, ...]:
    """The costs at which regrets are compared, the last one the budget."""
    known = _CHECKPOINTS.get(problem, (budget * 0.1, budget * 0.2, budget * 0.4))
    return (*(float(cost) for cost in known if cost < budget), budget)


def rows(runs: Iterable[Run]) -> list[Row]:
    """One row per problem, budget and strategy, in the order they first appear."""
    groups: dict[tuple[str, float, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.cell.problem, run.cell.budget, run.cell.strategy].append(run)
    return [_row(group) for group in groups.values()]


def cells_of(row: Row) -> list[str]:
    """A row of the table as texts, the checkpoints left out."""
    used = " / ".join(f"{count:.4g} {name}" for name, count in row.queries.items())
    return [row.strategy, *map(_short, row.regrets.values()), _short(row.recommendation), used, f"{row.seconds:.2f}"]


def header_of(row: Row) -> list[str]:
    """The table's header for the problem of this row."""
    return ["strategy", *(f"{cost:g}" for cost in row.regrets), "recommended", "queries (mean)", "s / query"]


def markdown(table: Sequence[Row]) -> str:
    """The rows as Markdown tables, one per problem and budget."""
    parts: list[str] = []
    for title in dict.fromkeys(title_of(row) for row in table):
        same = [row for row in table if title_of(row) == title]
        header = header_of(same[0])
        lines = [header, ["---"] * len(header), *(cells_of(row) for row in same)]
        parts.append(f"**{title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts) + "\n"


def title_of(row: Row) -> str:
    """What the table of this row's problem is called."""
    return f"{row.problem}: median simple regret over {row.seeds} seeds when this cost was spent"


def _row(runs: Sequence[Run]) -> Row:
    cell = runs[0].cell
    counts = Counter(query["fidelity"] for run in runs for query in run.queries)
    order = {query["fidelity"]: query["cost"] for run in runs for query in run.queries}
    return Row(
        problem=cell.problem,
        strategy=cell.strategy,
        seeds=len(runs),
        regrets={c: median(run.simple_regret(c) for run in runs) for c in checkpoints(cell.problem, cell.budget)},
        recommendation=median(run.final["recommendation_regret"] for run in runs),
        queries={name: counts[name] / len(runs) for name in sorted(order, key=order.__getitem__)},
        seconds=median(query["seconds"]["total"] for run in runs for query in run.queries),
    )


def _short(regret: float) -> str:
    return f"{regret:.2g}"
