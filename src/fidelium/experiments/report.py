"""The page of an experiment: how it was run, its tables and its figures, as Markdown with pictures next to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go

from fidelium import problems
from fidelium.experiments.constrained_tables import constraint_tables, failure_tables
from fidelium.experiments.cost_tables import cost_tables
from fidelium.experiments.figures import ablation_figure, ratio_figure, regret_figure, time_figure, write_figure
from fidelium.experiments.found_tables import found_tables
from fidelium.experiments.metrics import REGRETS, by_strategy
from fidelium.experiments.records import Run
from fidelium.experiments.spec import Spec
from fidelium.experiments.tables import (
    Table,
    ablation_table,
    rank_table,
    ratio_table,
    regret_tables,
    summary_tables,
    time_table,
)
from fidelium.strategies import registry

_EXPLANATION = """All methods start from the same random observations, which are free, and compute with
one thread. Regret is the distance from the optimum: *simple*, of the best value observed at the target; *inference*, of
the highest posterior mean (the paper's; without a model, of the best observation); *recommended design*, of the true
value of the design with that mean. The lowest is bold."""

_OWN_EXPLANATION = """Every study begins with the method's own initial design, paid from the budget: ours with its
default one at all fidelities, a peer with that of its library, at the target. All compute with one thread. Regret is
the distance of the best feasible value observed at the target from the optimum; a design counts as feasible if it meets
every limit exactly, except in the table that says otherwise. The lowest is bold. Regrets below 1e-6 count as 1e-6 in
ratios."""

_CAPTIONS = {
    "parts": "regret without a part, relative to the whole",
    "ratio": "regret relative to the baseline's",
    "regret": "regret against cost",
    "time": "seconds per suggestion",
}


@dataclass(frozen=True)
class ReportOptions:
    """What the page shows.

    Args:
        measures: names of `MEASURES`: rows of the figure, and tables.
        average: "median" or "mean", of the figure.
        best_values: whether the figure shows best values of simulated problems instead of regrets.
        ratios: whether to show one figure of the ratios to the baseline's regret, for many problems.
        ablation: whether to show one figure of many methods against the baseline, over all problems.
        constrained: whether to show the tables of problems with constraints, and no figure.
        failures: whether to show the tables of problems whose runs fail, and no figure.
        costs: whether to show the tables of problems whose costs depend on the design, and no figure.
        found: whether to show what it cost to find the best of listed designs, and no figure.
    """

    measures: tuple[str, ...]
    average: str
    best_values: bool = False
    ratios: bool = False
    ablation: bool = False
    constrained: bool = False
    failures: bool = False
    costs: bool = False
    found: bool = False

    @property
    def tables_only(self) -> bool:
        """Whether there are tables of their own kind, and no figure."""
        return self.constrained or self.failures or self.costs or self.found


PAPER = ReportOptions(("simple regret", "inference regret"), "mean", best_values=True)
"""As the paper's figures: mean and standard error of simple and inference regret, and of best values."""

ARENA = ReportOptions(REGRETS, "median")
"""Medians and quartiles of everything: robust against one bad seed."""

RATIOS = ReportOptions(("simple regret",), "median", ratios=True)
"""Many problems, one measure, as ratios to the baseline's."""

ABLATION = ReportOptions(("simple regret",), "median", ablation=True)
"""A method, and the same method without each of its parts."""

CONSTRAINTS = ReportOptions(("simple regret",), "median", constrained=True)
"""Regrets of feasible designs, relative to the optimum, beside peers."""

FAILURES = ReportOptions(("simple regret",), "median", failures=True)
"""Failed runs and regrets."""

COSTS = ReportOptions(("simple regret",), "median", costs=True)
"""Regrets when the same true cost was spent."""

FOUND = ReportOptions(("simple regret",), "median", found=True)
"""The cost of the very best of listed designs."""


def options_for(spec: Spec) -> ReportOptions:
    """What a page of this experiment shows, by its problems."""
    chosen = [problems.get(name) for name in spec.problems]
    if all(problem.constraints for problem in chosen):
        return CONSTRAINTS
    if all(problem.fails for problem in chosen):
        return FAILURES
    if all(problem.cost_factor is not None for problem in chosen):
        return COSTS
    if all(problem.space.table is not None for problem in chosen):
        return FOUND
    return ARENA if spec.baseline is None else RATIOS


def write_report(
    spec: Spec, runs: Sequence[Run], options: ReportOptions, command: str, page: Path, figures: Path
) -> list[Path]:
    """Write the page and its pictures (PNG next to the page, HTML and PNG in the folder of figures).

    Args:
        spec: the experiment.
        runs: its complete cells, at least one.
        options: what to show.
        command: the command that repeats it.
        page: the Markdown file.
        figures: folder of the interactive figures.

    Returns:
        The files, the page first.
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    files = [page]
    drawn = _figures(spec, runs, options)
    for name, figure in drawn.items():
        picture = write_figure(figure, figures, f"{spec.name}-{name}")
        if picture.parent.resolve() != page.parent.resolve():
            (page.parent / picture.name).write_bytes(picture.read_bytes())
        files += [picture.with_suffix(".html"), page.parent / picture.name]
    pictures = [f"![{_CAPTIONS[name]}]({spec.name}-{name}.png)\n" for name in drawn]
    page.write_text("\n".join([_heading(spec, runs, command), *pictures, *_tables(spec, runs, options)]))
    return files


def headline_tables(spec: Spec, runs: Sequence[Run], options: ReportOptions) -> list[Table]:
    """The tables for the terminal."""
    reference = registry.DEFAULT if registry.DEFAULT in spec.strategies else spec.strategies[0]
    if options.constrained:
        return [*constraint_tables(runs), time_table(runs, reference)]
    if options.failures:
        return [*failure_tables(runs, spec.baseline), time_table(runs, reference)]
    if options.costs:
        return [*cost_tables(runs, spec.baseline, spec.at_most), time_table(runs, reference)]
    if options.found:
        return [*found_tables(runs, spec.baseline), time_table(runs, reference)]
    regrets = [table for name in options.measures for table in regret_tables(runs, name)]
    compared = [] if spec.baseline is None else [_baseline_table(spec.baseline, spec, runs, options)]
    return [*compared, *regrets, rank_table(runs, reference), time_table(runs, reference)]


def _baseline_table(baseline: str, spec: Spec, runs: Sequence[Run], options: ReportOptions) -> Table:
    return ablation_table(runs, baseline) if options.ablation else ratio_table(runs, baseline, spec.at_most)


def _tables(spec: Spec, runs: Sequence[Run], options: ReportOptions) -> list[str]:
    summaries = [] if options.tables_only else summary_tables(runs)
    return [table.markdown() for table in (*headline_tables(spec, runs, options), *summaries)]


def _figures(spec: Spec, runs: Sequence[Run], options: ReportOptions) -> dict[str, go.Figure]:
    if options.tables_only:
        return {}
    title = spec.title or spec.name
    bands = "quartiles" if options.average == "median" else "one standard error"
    heading = f"{title} ({options.average}, bands: {bands})"
    if options.ratios and spec.baseline is not None:
        return {"ratio": ratio_figure(runs, spec.baseline, spec.at_most, title)}
    if options.ablation and spec.baseline is not None:
        return {"parts": ablation_figure(runs, spec.baseline, title)}
    return {
        "regret": regret_figure(runs, heading, options.measures, options.average, options.best_values),
        "time": time_figure(runs, f"{title}: processor seconds per suggestion"),
    }


def _heading(spec: Spec, runs: Sequence[Run], command: str) -> str:
    return "\n".join([f"# {spec.title or spec.name}\n", f"Made by\n\n```\n{command}\n```\n", _how(spec, runs)])


def _how(spec: Spec, runs: Sequence[Run]) -> str:
    start = runs[0].start
    used = {name: found for run in runs for name, found in run.start["versions"].items()}
    seeds = sorted({run.cell.seed for run in runs})
    counts = {name: len(same) for name, same in by_strategy(runs).items()}
    whole = len(spec.problems) * len(spec.seeds)
    missing = [f"{name} ({count} of {whole})" for name, count in counts.items() if count < whole]
    explanation = _OWN_EXPLANATION if spec.own_start else _EXPLANATION
    lines = [
        f"{len(runs)} studies, seeds {', '.join(map(str, seeds))}. {explanation}",
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
                f"studies, after spending {min(costs):g} to {max(costs):g}; from then on its regret stays constant."
            )
    return lines
