"""An initial design that learns, for studies with constraints on outcomes or with failures that teach. No JAX here.

It has as many runs of each fidelity as the fixed one. Until a run at the target is feasible, a design
that a cheap run promises to be is run at the target at once. Above the lowest fidelity most designs are ones that were
run below: the best ones that are not too near to each other, which also shows how the fidelities are related. Points
around known failures are passed over for later ones of the same sequence. All other studies get the fixed design.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fidelium.fidelity import FidelityLadder
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.space import SearchSpace
from fidelium.strategies.initial_design import identity, initial_design, next_of_design, runs_of_design

SPARE = 8
"""Points of a sequence, per point of the design, of which those around failures are passed over."""

REACH = 1.5
"""How far a failure speaks against the points around it, in units of the distance between points of the design."""

NEARER = 0.7
"""A success speaks for the points whose distance to it is less than this share of that to the nearest failure."""

APART = 0.5
"""How far designs run at a fidelity above the lowest are from each other at least, while there are any, in units of the
distance between points of the design."""

BLIND = 3
"""With constraints, one in so many runs at a fidelity above the lowest is where the sequence says."""


@dataclass(frozen=True)
class InitialDesign:
    """The initial design of a study.

    Args:
        space: the parameters.
        ladder: the fidelities.
        sizes: points of each fidelity by name.
        key: of the sequences.
    """

    space: SearchSpace
    ladder: FidelityLadder
    sizes: Mapping[str, int]
    key: Key

    @cached_property
    def planned(self) -> tuple[Query, ...]:
        """The fixed design."""
        return initial_design(self.space, self.ladder, self.sizes, self.key)

    @cached_property
    def spare(self) -> tuple[Query, ...]:
        """How the sequence of each fidelity goes on after the design."""
        sizes = {name: SPARE * size for name, size in self.sizes.items()}
        known = {identity(query.params, self.ladder, query.fidelity) for query in self.planned}
        more = initial_design(self.space, self.ladder, sizes, self.key)
        return tuple(query for query in more if identity(query.params, self.ladder, query.fidelity) not in known)

    @cached_property
    def spacing(self) -> float:
        """Median distance of a planned point to the nearest other one, at the fidelity that has the most."""
        x = max((self.points(self.planned, m) for m in range(len(self.ladder))), key=len)
        apart = np.sqrt(_squares(x, x))
        return float(np.median(np.partition(apart, 1, axis=1)[:, 1])) if len(x) > 1 else 1.0

    def points(self, queries: Iterable[Query], fidelity: int) -> NDArray[np.float64]:
        """The designs of the queries of one fidelity as points of the unit cube, `(n, d)`."""
        rows = [self.space.encode(query.params) for query in queries if query.fidelity == fidelity]
        return np.array(rows).reshape(len(rows), self.space.dimension)

    def next(self, history: History, sizes: Mapping[str, int]) -> Query | None:
        """The next affordable query of the design, None if there is none left.

        Args:
            history: what was asked.
            sizes: how many queries of each fidelity count, the first ones.
        """
        if not history.constraints and not history.learns_success:
            return next_of_design(history, self.planned, sizes)
        return _Learner(self, history, sizes).next()


@dataclass(frozen=True)
class _Learner:
    """Chooses a query of the design from what is known."""

    design: InitialDesign
    history: History
    sizes: Mapping[str, int]

    def next(self) -> Query | None:
        """The next query, None if there is none left."""
        left = [m for m in self.history.affordable if self._count(m) < self._size(m)]
        target = len(self.history.ladder) - 1
        if target in left and self._seeks_feasible:
            chosen = self._promising()
            if chosen is not None:
                return self._query(chosen, target)
        for m in left:
            chosen = self._nested(m) if m else None
            if chosen is None:
                chosen = self._of_sequence(m)
            if chosen is not None:
                return self._query(chosen, m)
        return None

    def _count(self, fidelity: int) -> int:
        """How many runs of a fidelity are there."""
        return len(runs_of_design(self.history, self.design.planned, fidelity, self.sizes))

    def _size(self, fidelity: int) -> int:
        """How many different designs are planned at a fidelity."""
        planned = self.history.seen(fidelity, self.design.points(self.design.planned, fidelity))
        return len({row.tobytes() for row in planned[: self.sizes.get(self.history.ladder[fidelity].name, 0)]})

    @property
    def _seeks_feasible(self) -> bool:
        """Whether no run at the target is feasible yet, and none is pending that may become the first one."""
        target = len(self.history.ladder) - 1
        pending = any(query.fidelity == target for query in self.history.pending)
        return bool(target and self.history.constraints) and not pending and not self.history.feasible[-1].any()

    def _promising(self) -> NDArray[np.float64] | None:
        """Of the designs run below that are expected to be feasible at the target, the one with the most to spare."""
        below = self._new_below(len(self.history.ladder) - 1)
        rows = np.flatnonzero(below.margin >= 0)
        return below.x[rows[np.argmax(below.margin[rows])]] if len(rows) else None

    def _nested(self, fidelity: int) -> NDArray[np.float64] | None:
        """A design that was run below, None if there is none or it is the sequence's turn.

        With constraints it is the best one, otherwise the nearest to the next point of the sequence.
        """
        asked, sequence = self.history.asked(fidelity), self._sequence(fidelity)
        below = self._new_below(fidelity)
        turn = self.history.constraints and self._count(fidelity) % BLIND == BLIND - 1
        if turn or not len(below.x) or not len(sequence):
            return None
        apart = _nearest(self.history.seen(fidelity, below.x), asked) >= APART * self.design.spacing
        rows = np.flatnonzero(apart if apart.any() else ~apart)
        if self.history.constraints:
            return below.x[rows[np.lexsort((-below.value[rows], -np.minimum(below.margin[rows], 0.0)))[0]]]
        return below.x[rows[np.argmin(_nearest(below.x[rows], sequence[:1]))]]

    def _of_sequence(self, fidelity: int) -> NDArray[np.float64] | None:
        """The next point of the sequence that is not around a failure; if all are, the least of them."""
        x = self._sequence(fidelity)
        if not self.history.learns_success:
            return x[0] if len(x) else None
        for more in (False, True):
            x = self._sequence(fidelity, more)
            clear = self._is_clear(x)
            if clear.any():
                return x[np.argmax(clear)]
        failed, succeeded = self._distances(x)
        near = np.where(np.isinf(succeeded), 0.0, succeeded)
        return x[np.argmax(failed - near)] if len(x) else None

    def _sequence(self, fidelity: int, more: bool = False) -> NDArray[np.float64]:
        """The points of the design, or how its sequence goes on, that were not asked."""
        x = self.design.points(self.design.spare if more else self.design.planned, fidelity)
        return x[~self._are_asked(x, fidelity)]

    def _new_below(self, fidelity: int) -> _Below:
        """The designs run below that were not asked here, without those around failures here or above."""
        below = _Below.of(self.history, fidelity)
        rows = ~self._are_asked(below.x, fidelity) & self._is_clear(below.x, fidelity)
        return _Below(below.x[rows], below.value[rows], below.margin[rows])

    def _is_clear(self, x: NDArray[np.float64], lowest: int = 0) -> NDArray[np.bool_]:
        """Which points are not around a failure: near enough to a success, or far enough from failures.

        Args:
            x: the points, `(n, d)`.
            lowest: the lowest fidelity whose runs speak.
        """
        if not self.history.learns_success:
            return np.ones(len(x), dtype=bool)
        away, near = self._distances(x, lowest)
        return (away > REACH * self.design.spacing) | (near < NEARER * away)

    def _distances(self, x: NDArray[np.float64], lowest: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of each point, to the nearest design that failed, and that succeeded, at any fidelity from the lowest on.

        As each fidelity sees them: a run does not fail because of what it ignores.
        """
        distances: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        for m, (succeeded, failed) in enumerate(self.history.successes[lowest:], lowest):
            here, bad, good = (self.history.seen(m, part) for part in (x, failed, succeeded))
            distances.append((_nearest(here, bad), _nearest(here, good)))
        away, near = (np.min(part, axis=0) for part in zip(*distances, strict=True))
        return away, near

    def _are_asked(self, x: NDArray[np.float64], fidelity: int) -> NDArray[np.bool_]:
        """Which points were asked at a fidelity, or differ from one that was in what it ignores."""
        return _are_in(self.history.seen(fidelity, x), self.history.asked(fidelity))

    def _query(self, unit_x: NDArray[np.float64], fidelity: int) -> Query:
        """With the very values of a design that was run: decoding rounds."""
        for trial in self.history.trials:
            point = self.history.space.place(trial.params)
            if point is not None and np.array_equal(point, unit_x) and self.history.space.contains(trial.params):
                return Query(trial.params, fidelity)
        return Query(self.history.space.decode(unit_x), fidelity)


@dataclass(frozen=True)
class _Below:
    """The valid designs that were run below a fidelity.

    Args:
        x: points of the unit cube, `(n, d)`.
        value: at their own fidelity, to be maximised, in standard deviations of the fidelity's values.
        margin: how far the outcome that is nearest to its limit is expected within it at the fidelity, in standard
            deviations of the outcome; negative: how far the violated ones are beyond theirs, added up.
    """

    x: NDArray[np.float64]
    value: NDArray[np.float64]
    margin: NDArray[np.float64]

    @staticmethod
    def of(history: History, fidelity: int) -> _Below:
        parts = [_one_below(history, m, fidelity) for m in range(fidelity)]
        x, value, margin = (np.concatenate(each) for each in zip(*parts, strict=True))
        return _Below(x, value, margin)


def _one_below(history: History, m: int, fidelity: int) -> tuple[NDArray[np.float64], ...]:
    seen, above = history.inside[m], history.inside[fidelity]
    slack = np.full(len(seen), np.inf)
    beyond = np.zeros(len(seen))
    # where the design was run at both, what the lower fidelity is wrong by
    there = history.seen(m, above.unit_x)
    pairs = [(i, j) for i, x in enumerate(seen.seen_x) for j, z in enumerate(there) if np.array_equal(x, z)]
    for each, outcome in zip(history.constraints, history.outcomes, strict=True):
        y = outcome[m].y[history.valid[m]]
        expected = y
        if pairs:
            low, high = (list(rows) for rows in zip(*pairs, strict=True))
            shift = outcome[fidelity].y[history.valid[fidelity]][high] - y[low]
            expected = y + shift[np.argmin(_squares(seen.unit_x, seen.unit_x[low]), axis=1)]
        unit = _spread(y)
        inward = np.minimum(expected - each.lower, each.upper - expected) / unit
        slack = np.minimum(slack, inward)
        beyond += np.maximum(-inward, 0.0)
    value = (seen.y - np.mean(seen.y)) / _spread(seen.y) if len(seen) else seen.y
    return seen.unit_x, value, np.where(beyond > 0, -beyond, slack)


def _spread(y: NDArray[np.float64]) -> float:
    """The standard deviation, 1 if there is none."""
    spread = float(np.std(y)) if len(y) else 0.0
    return spread if spread > 0 else 1.0


def _nearest(x: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance of each row to the nearest of the others, infinite if there are none."""
    return np.sqrt(np.min(_squares(x, others), axis=1, initial=np.inf))


def _squares(x: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sum((x[:, None] - others[None]) ** 2, axis=2)


def _are_in(x: NDArray[np.float64], known: NDArray[np.float64]) -> NDArray[np.bool_]:
    rows = {row.tobytes() for row in known}
    return np.array([row.tobytes() in rows for row in x], dtype=bool)
