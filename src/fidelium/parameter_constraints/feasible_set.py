"""The designs that meet known constraints: finding some, drawing them evenly, and the nearest one to any point.

Where a uniformly random design meets the constraints often enough, designs are drawn until enough do. In thin sets a
reservoir of designs is found once, and spread by a random walk (`random_walk.py`); a sample continues that walk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fidelium.parameter_constraints.projection import bisected, local_search, projected
from fidelium.parameter_constraints.random_walk import taken, walk
from fidelium.parameter_constraints.region import Region, Rows

_SEED = 20
"""Of the designs that are found once per set."""

_PROBES = 1024
_COMMON = 0.02
"""Share of uniformly random designs that must meet the constraints for them to be drawn in this way."""

_RESERVOIR = 1024
_MOST_AT_ONCE = 100_000
_STARTS = 256
_LEVELS = 60
_ENOUGH = 0.3
"""Share of designs that meet the constraints with which the last of the nested sets is reached."""


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
        return self._accepted_share * math.prod(float(np.sum(each.shares)) for each in self.region.options.values())

    @property
    def _accepted_share(self) -> float:
        """The same of those that `Region.draw` gives, which has constraints on single discrete parameters built in."""
        return self._probed[1]

    def sample(self, generator: np.random.Generator, count: int) -> Rows:
        """`count` random rows, as uniform as is possible over the set."""
        if count == 0:
            return np.empty((0, self.region.width))
        if self._accepted_share >= _COMMON:
            return np.concatenate(list(self._accepted(generator, count)))[:count]
        reservoir = self._reservoir
        if count <= len(reservoir):
            rows = reservoir[generator.permutation(len(reservoir))[:count]]
        else:
            rows = reservoir[generator.integers(len(reservoir), size=count)]
        steps = 8 + 2 * len(self.region.moving)
        return walk(self.region, self.region.met, generator, rows, reservoir, steps)

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
            tries = min(_MOST_AT_ONCE, 16 + int(1.2 * count / self._accepted_share))
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
        rows = None if region.is_polytope else narrowed(region, generator, _RESERVOIR)
        rounds = 4 + len(region.moving) // 2
        if rows is None:  # no nested sets lead there: from where Newton's method ends
            rows, rounds = self._found_by_newton(generator), 12 + 5 * len(region.moving)
        half = len(rows) // 2
        for _ in range(rounds):  # each half moves along the differences of the other
            rows[:half] = walk(region, region.met, generator, rows[:half], rows[half:], 4)
            rows[half:] = walk(region, region.met, generator, rows[half:], rows[:half], 4)
        return rows

    def _found_by_newton(self, generator: np.random.Generator) -> Rows:
        region = self.region
        found = [self._anchors[:_RESERVOIR]]
        enough = (
            max(_STARTS // 2, 4 * region.width) if region.is_polytope else _RESERVOIR
        )  # a walk soon fills a polytope
        for _ in range(8):
            if sum(map(len, found)) >= enough:
                break
            found.append(self._sought(generator, min(enough, _RESERVOIR)))
        rows = np.concatenate(found)
        rows = rows[np.arange(_RESERVOIR) % len(rows)][generator.permutation(_RESERVOIR)]
        for _ in range(3):  # away from the edges, where Newton's method ends and a walk leaves corners slowly
            towards = rows[generator.permutation(_RESERVOIR)]
            moved = rows.copy()
            moved[:, region.reals] += 0.5 * (towards - rows)[:, region.reals]
            rows = taken(region, region.met, rows, moved, np.ones(_RESERVOIR, dtype=bool))
        return rows


def narrowed(region: Region, generator: np.random.Generator, count: int) -> Rows | None:
    """Designs that meet the constraints, nearly uniform: from uniform ones, through sets that are ever narrower.

    Each set has designs that violate the constraints by less, half of those before; they are drawn again and moved by
    the random walk (subset simulation, Au and Beck 2001). None if the sets do not get narrower.
    """
    rows = region.draw(generator, 4 * count)
    violation = region.rough_violation(rows)
    total = violation(rows)
    level = np.inf
    for _ in range(_LEVELS):
        met = region.met(rows)
        last = bool(np.mean(met) >= _ENOUGH)
        narrower = float(np.quantile(total, 0.25 if level == np.inf else 0.5, method="lower"))
        if not last and not narrower < 0.95 * level:
            return None
        level = narrower
        kept = rows[met if last else total <= level]
        rows = np.resize(kept[generator.permutation(len(kept))], (count, region.width))

        def accepts(tried: Rows, level: float = level) -> NDArray[np.bool_]:
            return violation(tried) <= level

        half, within = count // 2, region.met if last else accepts
        for _ in range(2):
            rows[:half] = walk(region, within, generator, rows[:half], rows[half:], 2, linear=last)
            rows[half:] = walk(region, within, generator, rows[half:], rows[:half], 2, linear=last)
        if last:
            return rows
        total = violation(rows)
    return None
