"""The page of an experiment: how it was run, its tables and its figures, as Markdown with pictures beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import plotly.graph_objects as go

from fidelium.experiments.figures import regret_figure, time_figure, write_figure
from fidelium.experiments.metrics import (
    MEASURES,
    REGRETS,
    Measure,
    Table,
    by_problem,
    by_strategy,
    mean_ranks,
    over_seeds,
    paired_test,
    short,
    summarise,
)
from fidelium.experiments.ratios import part_figure, part_table, ratio_figure, ratio_table
from fidelium.experiments.records import Run
from fidelium.experiments.spec import Spec
from fidelium.strategies import registry

_REACH = (1.0, 0.01)
"""Simple regrets whose cost is shown."""


def regret_tables(runs: Sequence[Run], measure: str = "simple regret") -> list[Table]:
    """Per problem the median over the seeds at each checkpoint, the lowest in bold."""
    return [_regrets(problem, same, measure) for problem, same in by_problem(runs).items()]


def summary_tables(runs: Sequence[Run]) -> list[Table]:
    """Per problem how each strategy ended: all the statistics of its simple regret, and what it asked."""
    return [_summary(problem, same) for problem, same in by_problem(runs).items()]


def time_table(runs: Sequence[Run], reference: str) -> Table:
    """Mean processor seconds of a suggestion per problem, and how many times those of the reference.

    Problems have the rows if there are more of them than strategies.
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


def rank_table(runs: Sequence[Run], reference: str) -> Table:
    """Mean ranks at the end over all problems and seeds, and a paired test of each strategy against the reference."""
    columns: list[Mapping[str, float]] = [mean_ranks(runs, MEASURES[name]) for name in REGRETS]
    strategies = sorted(columns[0], key=columns[0].__getitem__)
    rows = tuple(
        (name, *(f"{ranks[name]:.2f}" for ranks in columns), _tested(runs, name, reference)) for name in strategies
    )
    header = ("strategy", *(f"rank, {name}" for name in REGRETS), f"p against {reference}")
    return Table("mean rank over all problems and seeds when the budget was spent, 1 the best", header, rows)


def _regrets(problem: str, runs: Sequence[Run], name: str) -> Table:
    checkpoints = runs[0].cell.checkpoints
    found = {strategy: _medians(same, MEASURES[name], checkpoints) for strategy, same in by_strategy(runs).items()}
    lowest = [short(min(medians[i] for medians in found.values())) for i in range(len(checkpoints))]
    rows = tuple(
        (strategy, *(_marked(short(value), best) for value, best in zip(medians, lowest, strict=True)))
        for strategy, medians in found.items()
    )
    seeds = len({run.cell.seed for run in runs})
    title = f"{problem}: {name}, median over {seeds} seeds, when this cost was spent"
    return Table(title, ("strategy", *(f"{cost:g}" for cost in checkpoints)), rows)


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
        short(end.mean),
        short(end.standard_error),
        short(end.median),
        f"{short(end.lower)} – {short(end.upper)}",
        *(f"{summarise(run.cost_to_reach(regret) for run in runs).median:.4g}" for regret in _REACH),
        short(over_seeds(runs, MEASURES["recommended design"], budget).median),
        _queries(runs),
        str(sum(len(run.end["warnings"]) for run in runs)),
    )


def _queries(runs: Sequence[Run]) -> str:
    counts = Counter(query["fidelity"] for run in runs for query in run.queries)
    return " / ".join(f"{counts[name] / len(runs):.4g} {name}" for name, _ in runs[0].cell.initial if counts[name])


def _medians(runs: Sequence[Run], measure: Measure, costs: Sequence[float]) -> list[float]:
    return [over_seeds(runs, measure, cost).median for cost in costs]


def _marked(text: str, lowest: str) -> str:
    return f"**{text}**" if text == lowest else text


def _seconds(runs: Sequence[Run], problem: str) -> float | None:
    found = [run.query_seconds for run in runs if run.cell.problem == problem]
    return median(found) if found else None


def _time(seconds: float | None, reference: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds:.2g}" + (f" ({seconds / reference:.2g}×)" if reference else "")


def _tested(runs: Sequence[Run], strategy: str, reference: str) -> str:
    if strategy == reference or reference not in by_strategy(runs):
        return "–"
    return f"{paired_test(runs, strategy, reference, MEASURES['simple regret']):.2g}"


@dataclass(frozen=True)
class Style:
    """What the page shows.

    Args:
        measures: names of `MEASURES`: rows of the figure, and tables.
        average: "median" or "mean", of the figure.
        best_values: whether the figure shows best values of simulated problems instead of regrets.
        beside: whether the one figure is that of the ratios to the baseline's regret, for many problems.
        parts: whether the one figure is that of a method's parts: many methods beside the baseline.
    """

    measures: tuple[str, ...]
    average: str
    best_values: bool = False
    beside: bool = False
    parts: bool = False


PAPER = Style(("simple regret", "inference regret"), "mean", best_values=True)
"""As the paper's figures: mean and standard error of simple and inference regret, and of best values."""

_EXPLANATION = """All methods start from the same random observations, which are free, and compute with
one thread. Regrets: *simple*, of the best design observed at the target; *inference*, the distance of the highest
posterior mean from the optimum (the paper's; a method without a model believes what it observed); *recommended design*,
that of the true value of the design with this mean. The lowest is bold."""

_CAPTIONS = {
    "parts": "regret without a part, beside that of the whole",
    "ratio": "regret beside the baseline's",
    "regret": "regret against cost",
    "time": "seconds per suggestion",
}

ARENA = Style(REGRETS, "median")
"""Medians and quartiles of everything: they do not hang on one bad seed."""

BESIDE = Style(("simple regret",), "median", beside=True)
"""Many problems, one measure, as ratios to the baseline's."""

PARTS = Style(("simple regret",), "median", parts=True)
"""A method and itself without each of its parts."""


def write_report(spec: Spec, runs: Sequence[Run], style: Style, command: str, page: Path, figures: Path) -> list[Path]:
    """Write the page and its pictures (PNG beside the page, HTML and PNG in the folder of figures).

    Args:
        spec: the experiment.
        runs: its complete cells, at least one.
        style: what to show.
        command: what repeats it.
        page: the Markdown file.
        figures: folder of the interactive figures.

    Returns:
        The files, the page first.
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    files = [page]
    drawn = _figures(spec, runs, style)
    for name, figure in drawn.items():
        picture = write_figure(figure, figures, f"{spec.name}-{name}")
        if picture.parent.resolve() != page.parent.resolve():
            (page.parent / picture.name).write_bytes(picture.read_bytes())
        files += [picture.with_suffix(".html"), page.parent / picture.name]
    pictures = [f"![{_CAPTIONS[name]}]({spec.name}-{name}.png)\n" for name in drawn]
    page.write_text("\n".join([_heading(spec, runs, command), *pictures, *_tables(spec, runs, style)]))
    return files


def headline_tables(spec: Spec, runs: Sequence[Run], style: Style) -> list[Table]:
    """What the terminal shows."""
    regrets = [table for name in style.measures for table in regret_tables(runs, name)]
    beside = [] if spec.baseline is None else [_beside(spec.baseline, spec, runs, style)]
    reference = registry.DEFAULT if registry.DEFAULT in spec.strategies else spec.strategies[0]
    return [*beside, *regrets, rank_table(runs, reference), time_table(runs, reference)]


def _beside(baseline: str, spec: Spec, runs: Sequence[Run], style: Style) -> Table:
    return part_table(runs, baseline) if style.parts else ratio_table(runs, baseline, spec.at_most)


def _figures(spec: Spec, runs: Sequence[Run], style: Style) -> dict[str, go.Figure]:
    title = spec.title or spec.name
    bands = "quartiles" if style.average == "median" else "one standard error"
    heading = f"{title} ({style.average}, bands: {bands})"
    if style.beside and spec.baseline is not None:
        return {"ratio": ratio_figure(runs, spec.baseline, spec.at_most, title)}
    if style.parts and spec.baseline is not None:
        return {"parts": part_figure(runs, spec.baseline, title)}
    return {
        "regret": regret_figure(runs, heading, style.measures, style.average, style.best_values),
        "time": time_figure(runs, f"{title}: processor seconds per suggestion"),
    }


def _heading(spec: Spec, runs: Sequence[Run], command: str) -> str:
    return "\n".join([f"# {spec.title or spec.name}\n", f"Made by\n\n```\n{command}\n```\n", _how(spec, runs)])


def _tables(spec: Spec, runs: Sequence[Run], style: Style) -> list[str]:
    return [table.markdown() for table in (*headline_tables(spec, runs, style), *summary_tables(runs))]


def _how(spec: Spec, runs: Sequence[Run]) -> str:
    start = runs[0].start
    used = {name: found for run in runs for name, found in run.start["versions"].items()}
    seeds = sorted({run.cell.seed for run in runs})
    counts = {name: len(same) for name, same in by_strategy(runs).items()}
    whole = len(spec.problems) * len(spec.seeds)
    missing = [f"{name} ({count} of {whole})" for name, count in counts.items() if count < whole]
    lines = [
        f"{len(runs)} studies, seeds {', '.join(map(str, seeds))}. {_EXPLANATION}",
        f"Machine: {start['machine']['cpu']}, {start['machine']['cores']} cores.",
        f"Versions: {', '.join(f'{name} {found}' for name, found in used.items())}.",
    ]
    if missing:
        lines.append(f"Not complete: {', '.join(missing)}.")
    lines += _stopped(runs)
    return "\n".join(lines) + "\n"


def _stopped(runs: Sequence[Run]) -> list[str]:
    """A line for each strategy that ran out of time."""
    lines: list[str] = []
    for name, same in by_strategy(runs).items():
        costs = [run.stopped_at for run in same if run.stopped_at is not None]
        if costs:
            lines.append(
                f"{name} was stopped after {same[0].cell.longest:g} processor minutes in {len(costs)} of {len(same)} "
                f"studies, when it had spent {min(costs):g} to {max(costs):g}: after that its regret is the one it had."
            )
    return lines
