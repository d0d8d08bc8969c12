"""The designs that meet known constraints: finding some, drawing them evenly, and the nearest one to any point.

Where a uniformly random design meets the constraints often enough, designs are drawn until enough do. In thin sets a
reservoir of designs is found once, by Newton's method on the violated margins from many starts, and mixed by a random
walk; a sample continues that walk from it, by steps that leave the uniform distribution as it is:

- along the difference of two designs of the reservoir, or any direction, to a uniformly random point of the set on that
  line (hit-and-run, by shrinking the interval as slice sampling does): differences lie in a thin set as it does;
- by exactly such a difference, which leads from one discrete value to another where numbers must follow;
- to another value of one discrete parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fidelium.parameters import Integer
from fidelium.projection import bisected, local_search, projected
from fidelium.region import Region, Rows

_SEED = 20
"""Of the designs that are found once per set."""

_PROBES = 1024
_COMMON = 0.02
"""Share of uniformly random designs that must meet the constraints for them to be drawn in this way."""

_RESERVOIR = 512
_MOST_AT_ONCE = 100_000
_STARTS = 256
_SHRINKS = 60


@dataclass(frozen=True)
class FeasibleSet:
    """The rows of a region that meet its constraints.

    Args:
        region: parameters and constraints.
    """

    region: Region

    @property
    def is_empty(self) -> bool:
        """Whether no design that meets the constraints was found: none may exist, or it is too well hidden."""
        return not len(self._anchors)

    @property
    def share(self) -> float:
        """Share of uniformly random designs that meet the constraints, from a thousand of them."""
        return self._probed[1]

    def sample(self, generator: np.random.Generator, count: int) -> Rows:
        """`count` random rows, as uniform as is possible over the set."""
        if count == 0:
            return np.empty((0, self.region.width))
        if self.share >= _COMMON:
            return np.concatenate(list(self._accepted(generator, count)))[:count]
        reservoir = self._reservoir
        if count <= len(reservoir):
            rows = reservoir[generator.permutation(len(reservoir))[:count]]
        else:
            rows = reservoir[generator.integers(len(reservoir), size=count)]
        return _walk(self.region, generator, rows, reservoir, 8 + 2 * len(self.region.moving))

    def repair(self, rows: Rows) -> Rows:
        """A row that meets the constraints near each row; the row itself, snapped, if it does."""
        region = self.region
        repaired = region.snap(rows)
        left = np.flatnonzero(~region.met(repaired))
        if not len(left):
            return repaired
        found, good = projected(region, rows[left])
        repaired[left[good]] = found[good]
        rest = left[~good]
        if len(rest):
            repaired[rest] = bisected(region, self._anchors, rows[rest])
        return repaired

    def _accepted(self, generator: np.random.Generator, count: int) -> Iterator[Rows]:
        while count > 0:
            tries = min(_MOST_AT_ONCE, 16 + int(1.2 * count / self.share))
            rows = self.region.draw(generator, tries)
            rows = rows[self.region.met(rows)]
            count -= len(rows)
            yield rows

    @cached_property
    def _probed(self) -> tuple[Rows, float]:
        """Uniformly random designs that meet the constraints, and their share."""
        if any(not len(options) for options in self.region.options.values()):
            return np.empty((0, self.region.width)), 0.0
        probes = self.region.draw(np.random.default_rng(_SEED), _PROBES if self.region.width < 200 else _PROBES // 8)
        met = self.region.met(probes)
        return probes[met], float(np.mean(met))

    @cached_property
    def _anchors(self) -> Rows:
        """Designs that meet the constraints, where another one is near if none is found; none for an empty set."""
        found, _ = self._probed
        if len(found) or any(not len(options) for options in self.region.options.values()):
            return found
        generator = np.random.default_rng(_SEED + 1)
        for count in (32, _STARTS, 4 * _STARTS):
            found = self._sought(generator, count)
            if len(found):
                break
        return found

    def _sought(self, generator: np.random.Generator, count: int) -> Rows:
        """Designs that meet the constraints, found from random starts."""
        region = self.region
        starts = region.draw(generator, count)
        rows, good = projected(region, starts)
        found = [rows[good]]
        if region.discrete and not good.all():
            rows, good = projected(region, local_search(region, rows[~good]))
            found.append(rows[good])
        return np.concatenate(found)

    @cached_property
    def _reservoir(self) -> Rows:
        """Designs spread over the set."""
        region, generator = self.region, np.random.default_rng(_SEED + 2)
        found = [self._anchors[:_RESERVOIR]]
        for _ in range(8):
            if sum(map(len, found)) >= _RESERVOIR:
                break
            found.append(self._sought(generator, _RESERVOIR))
        rows = np.concatenate(found)
        rows = rows[np.arange(_RESERVOIR) % len(rows)]
        half = _RESERVOIR // 2
        rows = rows[generator.permutation(_RESERVOIR)]
        for _ in range(3):  # away from the edges, where Newton's method ends and a walk leaves corners slowly
            towards = rows[generator.permutation(_RESERVOIR)]
            moved = rows.copy()
            moved[:, region.reals] += 0.5 * (towards - rows)[:, region.reals]
            rows = _taken(region, rows, moved, np.ones(_RESERVOIR, dtype=bool))
        for _ in range(12 + 5 * len(region.moving)):  # each half moves along the differences of the other
            rows[:half] = _walk(region, generator, rows[:half], rows[half:], 4)
            rows[half:] = _walk(region, generator, rows[half:], rows[:half], 4)
        return rows


def _walk(region: Region, generator: np.random.Generator, rows: Rows, others: Rows, steps: int) -> Rows:
    """Move every row by random steps that keep the uniform distribution on the set, along differences of `others`."""
    has_reals, names = bool(len(region.reals)), region.discrete
    for step in range(steps):
        if has_reals:
            first, second = (others[generator.integers(len(others), size=len(rows))] for _ in range(2))
            direction = (first - second)[:, region.reals]
            random = generator.normal(size=direction.shape)
            axis = np.zeros(direction.shape)
            axis[np.arange(len(rows)), generator.integers(direction.shape[1], size=len(rows))] = 1.0
            kind = generator.random((len(rows), 1))
            along = np.all(direction == 0, axis=1, keepdims=True)
            direction = np.where(along | (kind < 0.15), random, np.where(kind < 0.3, axis, direction))
            rows = _slice(region, generator, rows, direction)
        if names and (step % 2 == 0 or not has_reals):
            first, second = (others[generator.integers(len(others), size=len(rows))] for _ in range(2))
            rows = _jump(region, generator, rows, first, second)
            rows = _refresh(region, generator, rows, names[int(generator.integers(len(names)))])
    return rows


def _slice(region: Region, generator: np.random.Generator, rows: Rows, direction: NDArray[np.float64]) -> Rows:
    """A random point of the set on the line through each row, by shrinking the interval that the box leaves."""
    rows, reals = rows.copy(), region.reals
    x = rows[:, reals]
    low, high = region.interval(rows, direction)
    left = np.flatnonzero(np.isfinite(low) & np.isfinite(high) & (high > low))
    for _ in range(_SHRINKS):
        if not len(left):
            break
        at = low[left] + (high[left] - low[left]) * generator.random(len(left))
        tried = rows[left]
        tried[:, reals] = x[left] + at[:, None] * direction[left]
        tried = region.snap(tried)
        met = region.met(tried)
        rows[left[met]] = tried[met]
        left, at = left[~met], at[~met]
        low[left], high[left] = np.where(at < 0, at, low[left]), np.where(at < 0, high[left], at)
    return rows


def _jump(region: Region, generator: np.random.Generator, rows: Rows, first: Rows, second: Rows) -> Rows:
    """Each row moved by the difference of two others, if it then meets the constraints.

    A choice becomes that of `first` where it is that of `second`. So every jump has one back, of the same probability.
    """
    moved, inside, ratio = rows.copy(), np.ones(len(rows), dtype=bool), np.ones(len(rows))
    reals = region.reals
    moved[:, reals] += first[:, reals] - second[:, reals]
    inside &= np.all((moved[:, reals] >= 0) & (moved[:, reals] <= 1), axis=1)
    for name in region.discrete:
        place, parameter = region.places[name], region.parameters[name]
        if isinstance(parameter, Integer):
            before, up, down = (parameter.values(each[:, place])[:, 0] for each in (rows, first, second))
            after = before + up - down
            inside &= (after >= parameter.low) & (after <= parameter.high)
            after = np.clip(after, parameter.low, parameter.high)
            ratio *= parameter.shares(after) / parameter.shares(before)
            moved[:, place] = parameter.units(after)[:, None]
        else:
            same = np.all(rows[:, place] == second[:, place], axis=1)
            moved[:, place] = np.where(same[:, None], first[:, place], rows[:, place])
    return _taken(region, rows, moved, inside & (generator.random(len(rows)) < ratio))


def _refresh(region: Region, generator: np.random.Generator, rows: Rows, name: str) -> Rows:
    """Another value of a discrete parameter, if the row then meets the constraints."""
    moved, place = rows.copy(), region.places[name]
    if name in region.options:
        moved[:, place] = region.options[name].draw(generator, len(rows))
    else:
        moved[:, place] = region.parameters[name].snap(generator.random((len(rows), 1)))
    return _taken(region, rows, moved, np.ones(len(rows), dtype=bool))


def _taken(region: Region, rows: Rows, moved: Rows, wanted: NDArray[np.bool_]) -> Rows:
    moved = region.snap(moved)
    wanted = wanted & region.met(moved)
    return np.where(wanted[:, None], moved, rows)
