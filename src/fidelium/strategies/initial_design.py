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

from fidelium.errors import NotWorthwhileError, SettingError
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

    The number of columns counts every choice of a categorical parameter, of a catalogue about as many columns as its
    items differ in, and only parameters that the fidelity uses.
    """
    widths = {name: each.width for name, each in space.parameters.items()}
    widths |= {name: each.intrinsic_dimension for name, each in space.catalogues.items()}
    sizes: dict[str, int] = {}
    for rung, cost in zip(ladder, ladder.costs, strict=True):
        cheapest = 4 + 3 * sum(width for name, width in widths.items() if name not in rung.ignores(widths))
        sizes[rung.name] = max(2, round(cheapest * (ladder.costs[0] / cost) ** 0.5))
    return sizes


def sizes_within(sizes: Mapping[str, int], costs: Mapping[str, float], limit: Fraction) -> dict[str, int]:
    """The sizes, reduced where the design would cost more than a limit.

    The lower fidelities are reduced in the same way to half of the limit, if the other half pays for a point at the
    highest one, and to the limit otherwise; the highest one gets what is left.

    Args:
        sizes: points by fidelity's name.
        costs: of a run of each fidelity by name, low to high.
        limit: what the design may cost.
    """
    *lower, top = costs
    cost, most = exact_sum([costs[top]]), sizes[top]
    if not lower:
        return {top: min(most, limit // cost)}
    room = max(limit / 2, limit - most * cost) if cost <= limit / 2 else limit
    below = sizes_within(sizes, {name: costs[name] for name in lower}, room)
    spent = sum((exact_sum([costs[name]]) * below[name] for name in lower), Fraction())
    return below | {top: min(most, (limit - spent) // cost)}


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
        if left[query.fidelity] < 0 or query.fidelity not in history.affordable or not _is_paid_for(history, query):
            continue
        known = identity(query.params, history.ladder, query.fidelity) in asked
        if not known and not _is_done(history, query.fidelity, sizes):
            return query
    return None


def _is_paid_for(history: History, query: Query) -> bool:
    """Whether the expected cost of the query is within the remaining budget."""
    return history.costs.are_declared or history.costs.of(query.params, query.fidelity) <= history.remaining


def _is_done(history: History, fidelity: int, sizes: Mapping[str, int]) -> bool:
    name = history.ladder[fidelity].name
    space = history.space.whole  # of a slice, too: the model learns from all runs
    runs = sum(not t.given and t.fidelity.name == name and space.contains(t.params) for t in history.trials)
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
            else history.space.whole.contains(trial.params)
        )
    )


def unasked_point(history: History, pending: Sequence[Query], fidelity: int, key: Key) -> NDArray[np.float64]:
    """A uniformly random point not asked at this fidelity before; any point if 1000 draws find none.

    Where costs depend on the design, one whose expected cost is within the remaining budget, if there is any.

    Raises:
        NotWorthwhileError: if all designs of a space are listed, and none is left.
    """
    generator = key.generator()
    asked = asked_or_pending(history, pending, fidelity)
    if history.space.table is not None:
        new = [row for row in history.space.table if history.seen(fidelity, row).tobytes() not in asked]
        if not new:
            raise NotWorthwhileError(_exhausted(history, fidelity))
        return new[generator.integers(len(new))]
    # the first draws are nearly always enough, and drawing many from a thin set takes time
    for tries in (_FIRST_TRIES, _TRIES) if history.space.constraints else (_TRIES,):
        points = history.space.sample(generator, tries)
        if history.costs.depend_on_design and not math.isinf(history.remaining):
            points = points[history.pays_for(points, fidelity)]
        for unit_x in points:
            if history.seen(fidelity, unit_x).tobytes() not in asked:
                return unit_x
    return history.space.sample(generator, 1)[0]


def asked_or_pending(history: History, pending: Sequence[Query], fidelity: int) -> set[bytes]:
    """The points asked at this fidelity, as it sees them (`History.seen`), as bytes."""
    running = history.encode(query for query in pending if query.fidelity == fidelity)
    return {row.tobytes() for row in np.concatenate([history.asked(fidelity), history.seen(fidelity, running)])}


def check_new_designs(history: History) -> None:
    """Check that there is a design left to run, where all designs are listed.

    Raises:
        NotWorthwhileError: if all of them were asked at the target.
    """
    table, target = history.space.table, len(history.ladder) - 1
    if table is not None and len(history.trials) >= len(table):
        asked = {row.tobytes() for row in history.asked(target)}
        if all(row.tobytes() in asked for row in table):
            raise NotWorthwhileError(_exhausted(history, target))


def _exhausted(history: History, fidelity: int) -> str:
    assert history.space.table is not None
    return f"all {len(history.space.table)} designs have been run at {history.ladder[fidelity].name!r}"


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
    if (
        space.catalogues
        and space.dimension == sum(each.width for each in space.catalogues.values())
        and not space.constraints
    ):
        return _items(space, np.empty((count, space.dimension)), key)
    from scipy.stats import qmc  # slow to import, and only needed here

    if space.catalogues:
        sequence = qmc.Sobol(space.dimension, scramble=True, rng=key.generator())
        points = _items(space, sequence.random_base2(math.ceil(math.log2(count)))[:count], key)
        return space.repair(points)
    if space.constraints:
        return _spread(space, count, qmc.Sobol(space.dimension, scramble=True, rng=key.generator()), key)
    sequence = qmc.Sobol(space.dimension, scramble=True, rng=key.generator())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about sizes that are not a power of two
        return space.snap(
            sequence.random(2 ** math.ceil(math.log2(count)))[:count] if count > 1 else sequence.random(1)
        )


def _items(space: SearchSpace, points: NDArray[np.float64], key: Key) -> NDArray[np.float64]:
    """The points with items of each catalogue that represent all of its items."""
    points = points.copy()
    for number, (name, catalogue) in enumerate(space.catalogues.items()):
        chosen = catalogue.spread(len(points), key.fold(2 + number).generator())
        points[:, space.places[name]] = catalogue.rows[chosen]
    return points


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
