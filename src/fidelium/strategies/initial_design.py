"""Designs chosen without a model: the initial design, and random search. No JAX here.

In the initial design each fidelity gets its own scrambled Sobol sequence: as uniform as the paper's random points,
without their clumps. The lower fidelities come first, so that an interrupted start has spent little.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fidelium.errors import SettingError
from fidelium.fidelity import FidelityLadder
from fidelium.history import History, Query, Trial, as_seen
from fidelium.numbers import exact_sum
from fidelium.randomness import Key
from fidelium.space import Params, SearchSpace

if TYPE_CHECKING:
    from scipy.stats import qmc

_TRIES = 1000
_FIRST_TRIES = 16

_MORE_INPUTS = 8
"""Points of a sequence, per point of a design at a fidelity that ignores parameters, of which those that are the same
to it are left out."""

_LONGEST_SEQUENCE = 64
"""Points of a Sobol sequence at most, per point of a design that meets the constraints."""


def default_sizes(space: SearchSpace, ladder: FidelityLadder) -> dict[str, int]:
    """Points per fidelity when the user names none: n_m = max(2, (4 + 3 d_m) sqrt(cost_1 / cost_m)), d_m columns.

    The number of columns counts every choice of a categorical parameter, and only those that the fidelity uses.
    """
    used = [space.columns_of(rung.inputs) for rung in ladder]
    cheapest = [4 + 3 * (space.dimension if each is None else sum(each)) for each in used]
    return {
        rung.name: max(2, round(most * (ladder[0].cost / rung.cost) ** 0.5))
        for rung, most in zip(ladder, cheapest, strict=True)
    }


def sizes_within(sizes: Mapping[str, int], ladder: FidelityLadder, limit: Fraction) -> dict[str, int]:
    """The sizes, reduced where the design would cost more than a limit.

    The lower fidelities are reduced in the same way to half of the limit, if the other half pays for a point at the
    highest one, and to the limit otherwise; the highest one gets what is left.
    """
    *lower, top = ladder
    cost, most = exact_sum([top.cost]), sizes[top.name]
    if not lower:
        return {top.name: min(most, limit // cost)}
    room = max(limit / 2, limit - most * cost) if cost <= limit / 2 else limit
    below = sizes_within(sizes, FidelityLadder(tuple(lower)), room)
    spent = exact_sum({rung.cost: below[rung.name] for rung in lower})
    return below | {top.name: min(most, (limit - spent) // cost)}


def validated_sizes(sizes: object, ladder: FidelityLadder) -> dict[str, int]:
    """`sizes` with every fidelity of the ladder named, low to high.

    Raises:
        FidelityError: if a name is not on the ladder.
        SettingError: if a size is not a whole number >= 0.
    """
    if not isinstance(sizes, Mapping):
        raise SettingError(f"initial must be a dict of fidelity name -> number of points, got {sizes!r}")
    for name, size in sizes.items():
        ladder.index(name)
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise SettingError(f"initial[{name!r}] must be a whole number >= 0, got {size!r}")
    return {name: int(sizes.get(name, 0)) for name in ladder.names}


def initial_design(space: SearchSpace, ladder: FidelityLadder, sizes: Mapping[str, int], key: Key) -> tuple[Query, ...]:
    """The queries of the initial design, low fidelities first.

    At a fidelity that ignores parameters, no two differ in these alone.
    """
    queries: list[Query] = []
    for fidelity, rung in enumerate(ladder):
        count = sizes.get(rung.name, 0)
        for unit_x in _distinct(space, count, rung.inputs, key.fold(fidelity)):
            queries.append(Query(space.decode(unit_x), fidelity))
    return tuple(queries)


def _distinct(space: SearchSpace, count: int, inputs: Sequence[str] | None, key: Key) -> NDArray[np.float64]:
    """The first points of a sequence that differ in the inputs; fewer if there are no more."""
    used = space.columns_of(inputs)
    if used is None or not count:
        return _sobol(space, count, key)
    points = _sobol(space, _MORE_INPUTS * count, key)
    _, first = np.unique(as_seen(used, points), axis=0, return_index=True)
    return points[np.sort(first)[:count]]


def next_of_design(history: History, design: Iterable[Query], sizes: Mapping[str, int]) -> Query | None:
    """The first affordable query of the initial design that was not asked yet, None if there is none left.

    A fidelity that has as many runs within the present bounds as the design has points is done: after the bounds or the
    seed have changed, the design has other points, and runs that are there are not paid for again.

    Args:
        history: what was asked.
        design: the initial design.
        sizes: how many queries of each fidelity count, the first ones.
    """
    # found by comparing, not by counting: so it is still there when a larger budget affords what was skipped
    asked = {identity(t.params, history.ladder, history.ladder.index(t.fidelity.name)) for t in history.trials}
    left = [sizes.get(name, 0) for name in history.ladder.names]
    for query in design:
        left[query.fidelity] -= 1
        if left[query.fidelity] < 0 or query.fidelity not in history.affordable:
            continue
        known = identity(query.params, history.ladder, query.fidelity) in asked
        if not known and not _is_done(history, query.fidelity, sizes):
            return query
    return None


def _is_done(history: History, fidelity: int, sizes: Mapping[str, int]) -> bool:
    name = history.ladder[fidelity].name
    runs = sum(not t.given and t.fidelity.name == name and history.space.contains(t.params) for t in history.trials)
    return runs >= sizes.get(name, 0)


def runs_of_design(
    history: History, planned: Iterable[Query], fidelity: int, sizes: Mapping[str, int]
) -> tuple[Trial, ...]:
    """The trials that count as runs of the initial design: all within the present bounds, and given ones it has.

    Args:
        history: what was asked.
        planned: the initial design.
        fidelity: of the trials.
        sizes: how many queries of each fidelity count, the first ones.
    """
    name = history.ladder[fidelity].name
    there = [query for query in planned if query.fidelity == fidelity][: sizes.get(name, 0)]
    designs = {identity(query.params, history.ladder, fidelity) for query in there}
    return tuple(
        trial
        for trial in history.trials
        if trial.fidelity.name == name
        and (
            identity(trial.params, history.ladder, fidelity) in designs
            if trial.given
            else history.space.contains(trial.params)
        )
    )


def unasked_point(history: History, pending: Sequence[Query], fidelity: int, key: Key) -> NDArray[np.float64]:
    """A uniformly random point not asked at this fidelity before; any point if 1000 draws find none."""
    generator = key.generator()
    asked = asked_or_pending(history, pending, fidelity)
    # the first draws are nearly always enough, and drawing many from a thin set takes time
    for tries in (_FIRST_TRIES, _TRIES) if history.space.constraints else (_TRIES,):
        for unit_x in history.space.sample(generator, tries):
            if history.seen(fidelity, unit_x).tobytes() not in asked:
                return unit_x
    return history.space.sample(generator, 1)[0]


def asked_or_pending(history: History, pending: Sequence[Query], fidelity: int) -> set[bytes]:
    """The points asked at this fidelity, as it sees them (`History.seen`), as bytes."""
    running = history.encode(query for query in pending if query.fidelity == fidelity)
    return {row.tobytes() for row in np.concatenate([history.asked(fidelity), history.seen(fidelity, running)])}


@dataclass(frozen=True)
class RandomSearch:
    """Uniformly random designs at the highest affordable fidelity: the baseline every other strategy must beat."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """A random design that has not been asked at this fidelity."""
        fidelity = history.affordable[-1]
        return Query(history.space.decode(unasked_point(history, pending, fidelity, key)), fidelity)


def _sobol(space: SearchSpace, count: int, key: Key) -> NDArray[np.float64]:
    if count == 0:
        return np.empty((0, space.dimension))
    from scipy.stats import qmc  # slow to import, and only needed here

    if space.constraints:
        return _spread(space, count, qmc.Sobol(space.dimension, scramble=True, rng=key.generator()), key)
    sequence = qmc.Sobol(space.dimension, scramble=True, rng=key.generator())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about sizes that are not a power of two
        return space.snap(
            sequence.random(2 ** math.ceil(math.log2(count)))[:count] if count > 1 else sequence.random(1)
        )


def _spread(space: SearchSpace, count: int, sequence: qmc.Sobol, key: Key) -> NDArray[np.float64]:
    """Designs that meet the constraints: the first of a Sobol sequence that do.

    Where too few do, those that are farthest from each other in a larger random sample.
    """
    found = np.empty((0, space.dimension))
    for part in range(1, _LONGEST_SEQUENCE + 1):
        points = space.snap(sequence.random_base2(math.ceil(math.log2(count))) if part == 1 else sequence.random(count))
        found = np.concatenate([found, points[space.meets(points)]])
        if len(found) >= count:
            return found[:count]
        if part >= 4 and len(found) * _LONGEST_SEQUENCE < count * part:
            break
    pool = space.sample(key.fold(1).generator(), 8 * count + 32)
    chosen = [0]
    distance = np.sum((pool - pool[0]) ** 2, axis=1)
    while len(chosen) < count:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.sum((pool - pool[chosen[-1]]) ** 2, axis=1))
    return pool[chosen]


def identity(params: Params, ladder: FidelityLadder, fidelity: int) -> Hashable:
    """What two equal queries share: the values of all parameters that the fidelity uses."""
    ignored = ladder[fidelity].ignores(params)
    # with the types, since the choices True and 1 are equal in Python
    return fidelity, tuple((type(value), value) for name, value in params.items() if name not in ignored)
