"""The records of an experiment: one file of JSON lines per cell, in one folder.

One *cell* is one study: a problem, a strategy, a seed, a budget and the rest of `Cell`. While it runs its lines go to
`NAME.partial`; when it ends the file is renamed to `NAME.jsonl`, so that a cell is complete exactly if that file
exists, even if the process was killed. The lines are, by their "kind":

- start            the cell, versions, machine, the regret of the initial observations
- query            one per query: fidelity, cost, parameters, value, outcomes, whether it is feasible or why it failed,
                   simple regret, seconds of each stage
- recommendation   what the strategy recommends when a given cost is spent, and its regrets
- end              seconds of the whole study, its warnings, and the cost spent at the time limit, if that was reached
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from fidelium import problems
from fidelium.errors import SettingError

RECOMMENDATIONS = 10
"""Default number of evenly spaced costs at which a study records its recommendation, besides the checkpoints."""


@dataclass(frozen=True)
class Cell:
    """One study of the experiment.

    Args:
        problem: a problem's name.
        strategy: the name of a strategy, a peer or an ablation (`methods`).
        seed: of the initial designs and of the study.
        budget: cost units it may spend.
        checkpoints: costs at which strategies are compared, the last one the budget.
        initial: (fidelity, number of random initial points), low to high.
        longest: processor minutes that its suggestions may take in total; None: no limit.
        recommendations: number of evenly spaced costs at which it records its recommendation, besides the checkpoints.
        own_start: whether the strategy begins with its own initial design, paid from the budget.
    """

    problem: str
    strategy: str
    seed: int
    budget: float
    checkpoints: tuple[float, ...]
    initial: tuple[tuple[str, int], ...]
    longest: float | None = None
    recommendations: int = RECOMMENDATIONS
    own_start: bool = False

    @property
    def name(self) -> str:
        """The name of its file."""
        limit = "" if self.longest is None else f"_{self.longest:g}min"
        own = "_own" if self.own_start else ""
        return f"{self.problem}_{self.strategy}_{self.budget:g}{limit}{own}_seed{self.seed}"

    @property
    def recommendation_costs(self) -> tuple[float, ...]:
        """The costs at which the strategy is asked for its recommendation."""
        even = (self.budget * (i + 1) / self.recommendations for i in range(self.recommendations))
        return tuple(sorted({*self.checkpoints, *even}))

    def path(self, folder: Path) -> Path:
        """The file of this cell when it is complete."""
        return folder / f"{self.name}.jsonl"

    def partial(self, folder: Path) -> Path:
        """The file of this cell while it runs."""
        return folder / f"{self.name}.partial"


@dataclass(frozen=True)
class Run:
    """A complete cell, read from its file.

    Args:
        cell: what was run.
        start: the first line.
        queries: one line per query.
        recommendations: one line per cost it was asked at.
        end: the last line.
    """

    cell: Cell
    start: Mapping[str, Any]
    queries: tuple[Mapping[str, Any], ...]
    recommendations: tuple[Mapping[str, Any], ...]
    end: Mapping[str, Any]

    @property
    def stopped_at(self) -> float | None:
        """The cost spent when the time limit was reached; None if it was not. Its regrets stay constant after that."""
        return self.end.get("stopped_at")

    def simple_regret(self, cost: float) -> float:
        """f* - max f_M(x_i) over what was observed at the target when `cost` was spent."""
        reached = [query["simple_regret"] for query in self.queries if query["spent"] <= cost]
        return reached[-1] if reached else self.start["simple_regret"]

    def inference_regret(self, cost: float) -> float:
        """f* - max_x mean_M(x) when `cost` was spent: the paper's; negative if the model is too optimistic."""
        return self._recommended(cost)["inference_regret"]

    def recommendation_regret(self, cost: float) -> float:
        """f* - f_M(recommended x) when `cost` was spent: the true value of the recommended design."""
        return self._recommended(cost)["recommendation_regret"]

    def best_value(self, cost: float) -> float:
        """The best value observed at the target when `cost` was spent, in the problem's units."""
        problem = problems.get(self.cell.problem)
        return problem.optimum - problem.direction.sign * self.simple_regret(cost)

    def cost_to_reach(self, regret: float) -> float:
        """The cost spent when the simple regret was first at most `regret`; infinite if it never was."""
        if self.start["simple_regret"] <= regret:
            return 0.0
        return next((query["spent"] for query in self.queries if query["simple_regret"] <= regret), math.inf)

    @property
    def target_queries(self) -> tuple[Mapping[str, Any], ...]:
        """The queries at the target."""
        target = problems.get(self.cell.problem).ladder.target.name
        return tuple(query for query in self.queries if query["fidelity"] == target)

    def relative_regret(self, cost: float) -> float:
        """The simple regret when `cost` was spent, as a share of the optimum."""
        return self.simple_regret(cost) / abs(problems.get(self.cell.problem).optimum)

    def tolerant_regret(self, tolerance: float) -> float:
        """The relative regret at the end if a violation of at most `tolerance`, in the outcome's units, is accepted.

        A value beyond the optimum, which such a design may have, has a regret of 0.
        """
        problem = problems.get(self.cell.problem)
        values = [
            query["value"]
            for query in self.target_queries
            if query["failed"] is None
            and all(each.violation(query["outcomes"][each.name]) <= tolerance for each in problem.limits)
        ]
        return max(problems.simple_regret(problem, values), 0.0) / abs(problem.optimum)

    @property
    def first_feasible(self) -> float:
        """The cost spent when the first feasible design was found at the target; infinite if there was none."""
        return next((query["spent"] for query in self.target_queries if query["feasible"]), math.inf)

    @property
    def infeasible_share(self) -> float:
        """The share of the runs at the target that were not feasible."""
        return sum(not query["feasible"] for query in self.target_queries) / max(len(self.target_queries), 1)

    @property
    def failures(self) -> int:
        """The number of failed runs, at all fidelities."""
        return sum(query["failed"] is not None for query in self.queries)

    @property
    def failures_in_a_row(self) -> int:
        """The longest series of failed runs."""
        series = groupby(query["failed"] is not None for query in self.queries)
        return max((len(list(same)) for failed, same in series if failed), default=0)

    @cached_property
    def query_seconds(self) -> float:
        """Mean processor seconds of a suggestion, without the first, which compiles."""
        later = [query["seconds"]["cpu"] for query in self.queries[1:]] or [self.queries[0]["seconds"]["cpu"]]
        return math.fsum(later) / len(later)

    def _recommended(self, cost: float) -> Mapping[str, Any]:
        made = [each for each in self.recommendations if each["cost"] <= cost]
        return made[-1] if made else self.start


@contextmanager
def writing(cell: Cell, folder: Path) -> Iterator[IO[str]]:
    """The cell's file for `write_line`; it is renamed to its final name when the block ends without an error."""
    with cell.partial(folder).open("w") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    cell.partial(folder).replace(cell.path(folder))


def write_line(file: IO[str], kind: str, line: Mapping[str, Any]) -> None:
    """Append a line and flush it to the file."""
    file.write(json.dumps({"kind": kind, **line}) + "\n")
    file.flush()


def is_complete(cell: Cell, folder: Path) -> bool:
    """Whether this cell is complete."""
    return cell.path(folder).exists()


def spent(cell: Cell, folder: Path) -> float:
    """The cost this cell has spent so far, its whole budget if it is complete."""
    if is_complete(cell, folder):
        return cell.budget
    return max((line.get("spent", 0.0) for line in _whole_lines(cell.partial(folder))), default=0.0)


def load_run(cell: Cell, folder: Path) -> Run:
    """The complete run of a cell.

    Raises:
        SettingError: if the file of that name was run with other settings.
    """
    lines = [json.loads(line) for line in cell.path(folder).read_text().splitlines()]
    start, end = lines[0], lines[-1]
    # records older than these settings do not have them
    added = {"longest": None, "recommendations": RECOMMENDATIONS, "own_start": False}
    if added | start["cell"] != json.loads(json.dumps(asdict(cell))):
        raise SettingError(
            f"{cell.path(folder)} was run with other checkpoints or initial points; choose another folder or delete it"
        )
    queries, recommendations = (
        tuple(line for line in lines if line["kind"] == kind) for kind in ("query", "recommendation")
    )
    return Run(cell, start, queries, recommendations, end)


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a file whose last one may be truncated."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
