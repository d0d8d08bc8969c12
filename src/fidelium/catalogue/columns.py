"""From the descriptors of a catalogue's items to columns of the unit cube.

Every descriptor, or its logarithm, is a column, scaled to [0, 1]. Where there are more than twenty, the columns are
their principal components, as many as hold nearly all of the variance, at one common scale: distances between items
stay what they are, and a model has few lengths to learn. With up to twenty, models of the descriptors themselves were
as accurate or more, and better calibrated (docs/catalogues.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fidelium.errors import SpaceError

if TYPE_CHECKING:
    from scipy.spatial import KDTree

_LOG_SPAN = 10.0
"""Positive descriptors that span less than this factor are not taken on a logarithmic scale by themselves."""

_CUT = 4.0
"""Standard deviations beyond which a descriptor is compressed, so that one extreme item does not squeeze all others."""

_KEPT = 0.99
"""Share of the variance that the columns hold at least."""

MOST_COLUMNS = 20
"""Columns at most: of as many descriptors each has its own."""

_APART = 2.0**-36
"""How far the columns of items with the same descriptors are apart: nothing to a model, but distinct."""


@dataclass(frozen=True, eq=False)
class DescriptorColumns:
    """The encoding of the items of a catalogue.

    Args:
        values: the descriptors, `(items, descriptors)`, finite.
        names: of the descriptors.
        log: the descriptors on a log scale; None to decide by the values.

    Raises:
        SpaceError: if a descriptor on a log scale is not positive, or all descriptors are constant.
    """

    values: NDArray[np.float64]
    names: Sequence[str]
    log: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in self.logarithmic:
            if np.min(self.values[:, self.names.index(name)]) <= 0:
                raise SpaceError(f"the descriptor {name!r} is on a log scale, but is not above 0 for every item")
        if not len(self.varying):
            raise SpaceError(
                f"no descriptor differs between the items ({', '.join(self.names)}); add one that does, or use "
                "Categorical"
            )

    @cached_property
    def logarithmic(self) -> tuple[str, ...]:
        """The descriptors on a log scale."""
        if self.log is not None:
            return tuple(self.log)
        return tuple(name for name, column in zip(self.names, self.values.T, strict=True) if _clearly_log(column))

    @cached_property
    def varying(self) -> NDArray[np.int64]:
        """Positions of the descriptors that are not the same for all items."""
        return np.flatnonzero(np.ptp(self.values / _largest(self.values), axis=0) > 0)

    @cached_property
    def rows(self) -> NDArray[np.float64]:
        """The columns of all items, `(items, width)`, all different."""
        if len(self.varying) <= MOST_COLUMNS:
            columns, widths = self._standard, np.ptp(self._standard, axis=0)
        else:
            columns = self._components
            widths = np.max(np.ptp(columns, axis=0))
        middle = (columns.min(axis=0) + columns.max(axis=0)) / 2
        return _distinct(np.clip(0.5 + (columns - middle) / widths, 0.0, 1.0))

    @cached_property
    def intrinsic_dimension(self) -> int:
        """The participation ratio of the variances along the principal axes, rounded up."""
        variances = self._axes[1]
        return max(1, int(np.ceil(np.sum(variances) ** 2 / np.sum(variances**2) - 1e-9)))

    def notes(self, items: Sequence[str]) -> tuple[str, ...]:
        """What to know of the encoding, in sentences."""
        constant = [name for i, name in enumerate(self.names) if i not in self.varying]
        notes = [f"the same for all items, so left out: {', '.join(constant)}"] if constant else []
        if self.logarithmic:
            notes.append(f"on a log scale: {', '.join(self.logarithmic)}")
        _, first, counts = np.unique(self.values, axis=0, return_index=True, return_counts=True)
        if len(twice := first[counts > 1]):
            some: list[int] = twice[:3].tolist()
            names, alike = ", ".join(items[i] for i in some), np.sum(counts[counts > 1])
            notes.append(f"{alike} items have the descriptors of another one, and are the same to a model: {names}")
        return tuple(notes)

    def nearest(self, columns: NDArray[np.float64]) -> NDArray[np.int64]:
        """Positions of the items nearest to columns `(n, width)`."""
        return self.neighbours(columns, 1)[:, 0]

    def nearest_of(self, positions: NDArray[np.int64], columns: NDArray[np.float64]) -> NDArray[np.int64]:
        """As `nearest`, among the items at these positions only."""
        from scipy.spatial import KDTree

        _, found = KDTree(self.rows[positions]).query(_finite(columns))
        return positions[np.asarray(found, dtype=np.int64)]

    def neighbours(self, columns: NDArray[np.float64], count: int) -> NDArray[np.int64]:
        """Positions of the nearest items to each row, the nearest first, `(n, count)`."""
        _, found = self._tree.query(_finite(columns), k=min(count, len(self.rows)))
        return np.asarray(found, dtype=np.int64).reshape(len(columns), -1)  # k = 1 leaves an axis out

    def spread(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Positions of items that represent all of them, in random order: one of each part of a balanced partition.

        The parts are made by cutting across the longest side, so that the shares of the parts are as equal as can be.
        """
        every = np.arange(len(self.rows))
        rounds = [every] * (count // len(every))
        left = count - len(every) * len(rounds)
        parts = _partition(self.rows, every, left) if left else []
        chosen = [part[generator.integers(len(part))] for part in parts]
        return generator.permutation(np.concatenate([*rounds, np.array(chosen, dtype=np.int64)]))

    @cached_property
    def _standard(self) -> NDArray[np.float64]:
        """The descriptors that differ, each with mean 0 and variance 1, `(items, varying)`."""
        return np.stack([self._scaled(i) for i in self.varying.tolist()], axis=1)

    @cached_property
    def _axes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The principal axes, a row each, and the variances along them, the largest first."""
        _, singular, axes = np.linalg.svd(self._standard, full_matrices=False)
        return axes, singular**2 / len(self._standard)

    @property
    def _components(self) -> NDArray[np.float64]:
        """The first principal components of the items, `(items, width)`."""
        axes, variances = self._axes
        share = np.cumsum(variances) / np.sum(variances)
        width = min(int(np.searchsorted(share, _KEPT)) + 1, MOST_COLUMNS, len(variances))
        signs = np.sign(axes[np.arange(width), np.argmax(np.abs(axes[:width]), axis=1)])
        return self._standard @ (axes[:width] * signs[:, None]).T

    def _scaled(self, position: int) -> NDArray[np.float64]:
        """A descriptor with mean 0 and variance 1, its outliers drawn nearer."""
        column = self.values[:, position]
        column = np.log(column) if self.names[position] in self.logarithmic else column / np.max(np.abs(column))
        column = (column - np.mean(column)) / np.std(column)
        beyond = np.abs(column) - _CUT
        column = np.where(beyond > 0, np.sign(column) * (_CUT + np.log1p(np.maximum(beyond, 0.0))), column)
        return (column - np.mean(column)) / np.std(column)

    @cached_property
    def _tree(self) -> KDTree:
        from scipy.spatial import KDTree  # slow to import

        return KDTree(self.rows)


def _largest(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest size of each column, 1 if all are 0: divided by it, no difference overflows."""
    sizes = np.max(np.abs(values), axis=0)
    return np.where(sizes > 0, sizes, 1.0)


def _finite(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.nan_to_num(columns, nan=0.5, posinf=1.0, neginf=0.0)


def _clearly_log(column: NDArray[np.float64]) -> bool:
    """Whether a descriptor is positive, spans a factor of ten, and is less skewed on a log scale."""
    if np.min(column) <= 0 or np.max(column) / np.min(column) < _LOG_SPAN:
        return False
    return abs(_skewness(np.log(column))) < abs(_skewness(column / np.max(column)))


def _skewness(column: NDArray[np.float64]) -> float:
    centred = column - np.mean(column)
    return float(np.mean(centred**3) / max(np.mean(centred**2), 1e-300) ** 1.5)


def _distinct(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows with the first column of repeated ones moved by next to nothing, towards the middle."""
    rows = rows.copy()
    while True:
        _, inverse, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        if np.all(counts == 1):
            return rows
        order = np.argsort(inverse.reshape(-1), kind="stable")
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        repeat = np.empty(len(rows))
        repeat[order] = np.arange(len(rows)) - starts
        rows[:, 0] += np.where(rows[:, 0] > 0.5, -_APART, _APART) * repeat


def _partition(rows: NDArray[np.float64], members: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """`count` parts of the members, of about equal sizes, cut across the longest side each time."""
    if count <= 1:
        return [members]
    inside = rows[members]
    ordered = members[np.argsort(inside[:, int(np.argmax(np.ptp(inside, axis=0)))], kind="stable")]
    below = count // 2
    cut = round(len(members) * below / count)
    return [*_partition(rows, ordered[:cut], below), *_partition(rows, ordered[cut:], count - below)]
