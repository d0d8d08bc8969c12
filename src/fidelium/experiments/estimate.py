"""How long an experiment will take: by the cells that are complete, and before there are any by the spec's guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from fidelium.experiments.records import Cell, is_complete, load, spent

_MINUTES = 2.0
"""Of a study, where nobody says better."""


@dataclass
class Clock:
    """Estimates the time left; seconds of complete cells are read once.

    Args:
        cells: the experiment.
        folder: where its records are.
        workers: how many cells run at once.
        minutes: strategy -> minutes of a study with a whole budget, roughly.
    """

    cells: Sequence[Cell]
    folder: Path
    workers: int
    minutes: Mapping[str, float]
    _seconds: dict[Cell, float] = field(default_factory=dict)

    def seconds_left(self) -> float:
        """What is left to do, divided among the workers; at least what the longest cell needs."""
        self._seconds |= {cell: self._measured(cell) for cell in self.cells if self._is_new(cell)}
        left = [(1 - self.share(cell)) * self._expected(cell) for cell in self.cells if cell not in self._seconds]
        return max(sum(left) / self.workers, max(left, default=0.0))

    def share(self, cell: Cell) -> float:
        """How much of a cell is done, from 0 to 1."""
        return 1.0 if cell in self._seconds else spent(cell, self.folder) / cell.budget

    def _is_new(self, cell: Cell) -> bool:
        return cell not in self._seconds and is_complete(cell, self.folder)

    def _measured(self, cell: Cell) -> float:
        return load(cell, self.folder).end["seconds"]

    def _expected(self, cell: Cell) -> float:
        """Seconds of a cell: what others of its strategy and problem took, or others of its strategy, or a guess."""
        same = [took for each, took in self._seconds.items() if each.strategy == cell.strategy]
        alike = [took for each, took in self._seconds.items() if _alike(each, cell)]
        return mean(alike or same or [60 * self.minutes.get(cell.strategy, _MINUTES)])


def _alike(one: Cell, other: Cell) -> bool:
    return (one.strategy, one.problem) == (other.strategy, other.problem)
