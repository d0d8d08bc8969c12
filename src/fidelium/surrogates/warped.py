"""A surrogate of warped values: the evidence decides whether the outputs are bent before anything else is learned.

Candidates are logarithms of the tails (`tail_candidates`), and for an outcome with limits, of what is far beyond them
(`limit_candidates`). The identity is preferred by a few nats. A bend that wins is followed by a second round, on the
values that it gave. All fidelities get the same kind of bend: usually one and the same, so that their relation stays
simple, or one of its own for each if their units differ.

The posterior of the warped values is reported in the user's units: its `scales` go through the map.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar, cast, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.errors import SettingError
from fidelium.history import Observations
from fidelium.numerics.scaling import scale_rows, standardising
from fidelium.numerics.warping import STRAIGHT, Bend, Warp
from fidelium.randomness import Key
from fidelium.surrogates.base import Focus, Focusable, Posterior, Surrogate
from fidelium.surrogates.learning import Memory, require_data, subset
from fidelium.surrogates.warp_evidence import STEP, Candidate, scored

Values = NDArray[np.float64]
Propose = Callable[[Sequence[Values]], list[Candidate]]
"""Bends that may be good for these values of each fidelity."""

PREFERENCE = 8.0
"""Nats by which a bend must beat the identity: values without tails gave bends up to 4, exponentials 20 or more
from 20 observations on. With 4, studies of values without tails were worse more often than better
(docs/experiments-log.md, "Long tails")."""

OWN = 8.0
"""Nats more, if every fidelity has a bend of its own: with fewer, the few target values of converging studies got
bends that were much too sharp."""

BLUNT, SHARP = 1.0, 0.03
"""First guesses of a bend's scale, relative to the median distance from its end."""

FEWEST = 5
"""Observations of a fidelity from which a bend of its own is taken."""

_LARGEST_GAP = 1e300

MOST_POINTS = 64
"""Observations of a fidelity, at most, that a map is chosen by."""


def rare_milestone(count: int) -> int:
    """The last number of observations, up to `count`, at which a map is chosen again: 12 to 25 % more each time.

    With another map everything is learned again, so it should change more seldom than the parameters.
    """
    step = 1 << max(0, count.bit_length() - 3)
    return count // step * step


@runtime_checkable
class ScaledPosterior(Posterior, Protocol):
    """A posterior that keeps its scales as rows of an array (`scale_rows`), as do its members."""

    units: Float[Array, "m fields"]

    @abstractmethod
    def members(self) -> tuple[ScaledPosterior, ...]:
        """The posteriors whose gains are averaged."""
        ...


P = TypeVar("P", bound=ScaledPosterior)


@dataclass(frozen=True)
class Warped(Generic[P]):
    """A surrogate whose values are warped as the evidence says; where that is the identity, the surrogate itself.

    Args:
        surrogate: of the warped values.
        shares_units: whether the surrogate needs all fidelities in the same units, and so the same map for all.
        focus: where to be precise, and of an outcome its limits; None: at the best values of an objective.
        learned_at: from how many of the observations, the first ones, the map is chosen.
    """

    surrogate: Surrogate[P]
    shares_units: bool = False
    focus: Focus | None = None
    learned_at: Callable[[int], int] = rare_milestone

    def focused(self, focus: Focus) -> Warped[P]:
        """The same surrogate for an outcome with limits, or an objective whose best values are not feasible."""
        return replace(self, focus=focus)

    def fit(self, observations: Sequence[Observations], key: Key) -> P:
        """The posterior given the observations of each fidelity.

        Raises:
            NoDataError: if there is no observation at any fidelity.
        """
        require_data(observations)
        early = [seen.first(self.learned_at(len(seen))) for seen in observations]
        limits = None if self.focus is None else self.focus.limits
        if limits is None:
            warps = choose_warps(early, key, shared=self.shares_units)
        else:
            warps = choose_outcome_warps(early, *limits, key)
        surrogate = self.surrogate
        if self.focus is not None and isinstance(surrogate, Focusable):
            precise = tuple(_through(w, *ends) for w, ends in zip(warps, self.focus.precise, strict=True))
            surrogate = cast("Surrogate[P]", surrogate.focused(Focus(self.focus.unit_x, precise)))
        return fit_warped(surrogate, observations, warps, key)


def _through(warp: Warp, low: float, high: float) -> tuple[float, float]:
    """The ends of a range through a map; an infinite one stays."""
    first, last = warp.inward(np.array([low, low if math.isinf(high) else high])).tolist()
    return first, high if math.isinf(high) else last


def fit_warped(surrogate: Surrogate[P], observations: Sequence[Observations], warps: Sequence[Warp], key: Key) -> P:
    """The posterior of warped values, in the user's units.

    Args:
        surrogate: of the warped values.
        observations: of each fidelity.
        warps: of each fidelity.
        key: of the fit.
    """
    if all(warp.is_identity for warp in warps):
        return surrogate.fit(observations, key)
    warped = [_bent(seen, w) for seen, w in zip(observations, warps, strict=True)]
    posterior = surrogate.fit(warped, key)

    def parts(posterior: ScaledPosterior) -> list[ScaledPosterior]:
        return [posterior, *(member for member in posterior.members() if member is not posterior)]

    rows = [
        jnp.asarray(scale_rows([replace(scale, warp=w) for scale, w in zip(part.scales(), warps, strict=True)]))
        for part in parts(posterior)
    ]
    return eqx.tree_at(lambda p: [part.units for part in parts(p)], posterior, rows)


def _bent(seen: Observations, bend: Warp | Bend) -> Observations:
    """Observations through a map; standard errors by its slope at each value."""
    std = None if seen.std is None else seen.std * np.exp(bend.log_slope(seen.y))
    return replace(seen, y=bend.inward(seen.y), std=std)


def choose_warps(observations: Sequence[Observations], key: Key, *, shared: bool = False) -> tuple[Warp, ...]:
    """The map of every fidelity's values that the evidence prefers.

    Args:
        observations: of each fidelity, to be maximised.
        key: of the choice of observations, where there are many.
        shared: whether all fidelities must have the same map.
    """
    question = repr(("tails", shared, key))
    choose = partial(_choose, observations, partial(tail_candidates, shared=shared), again=True, key=key)
    return _memory.get(_digest(question, observations), choose)


def choose_outcome_warps(
    observations: Sequence[Observations], lower: float | None, upper: float | None, key: Key
) -> tuple[Warp, ...]:
    """The same for an outcome with limits: near them precision matters, far from them only the side.

    Args:
        observations: of each fidelity, in the outcome's own units and sign.
        lower: the lowest value allowed; None: there is none.
        upper: the highest value allowed; None: there is none.
        key: of the choice of observations, where there are many.

    Raises:
        SettingError: if there is no limit, or the lower one is above the upper one.
    """
    low, high = upper if lower is None else lower, lower if upper is None else upper
    if low is None or high is None or not low <= high:
        raise SettingError(f"an outcome needs a lower or an upper limit, in this order, got {lower!r} and {upper!r}")
    question = repr(("limits", low, high, key))
    choose = partial(_choose, observations, partial(limit_candidates, low=low, high=high), again=False, key=key)
    return _memory.get(_digest(question, observations), choose)


_memory = Memory[tuple[Warp, ...]](32)


def _digest(question: str, observations: Sequence[Observations]) -> str:
    digest = hashlib.sha256(question.encode())
    for seen in observations:
        digest.update(repr(len(seen)).encode() + seen.digest)
    return digest.hexdigest()


def _choose(observations: Sequence[Observations], propose: Propose, again: bool, key: Key) -> tuple[Warp, ...]:
    """The best bends, and if `again`, those of the values that they give."""
    parts = zip(observations, key.split(len(observations)), strict=True)
    chosen = [subset(len(seen), MOST_POINTS, part) for seen, part in parts]

    def bends(everything: Sequence[Observations]) -> tuple[Bend, ...]:
        values = [seen.y for seen in everything]
        candidates = propose(values)
        if not candidates:
            return (STRAIGHT,) * len(values)
        fewer = [seen.rows(rows) for seen, rows in zip(everything, chosen, strict=True)]
        return max(scored(fewer, [_straight(values), *candidates]), key=lambda each: each.score).bends

    firsts = bends(observations)
    if not again or all(bend.is_straight for bend in firsts):
        return tuple(Warp(bend) for bend in firsts)
    seconds = bends([_bent(seen, bend) for seen, bend in zip(observations, firsts, strict=True)])
    return tuple(Warp(first, second) for first, second in zip(firsts, seconds, strict=True))


def _straight(values: Sequence[Values]) -> Candidate:
    """The identity."""
    scales = [standardising(y) for y in values]
    centres = tuple(scale.centre for scale in scales)
    return Candidate(tuple((at, at) for at in centres), tuple(scale.spread for scale in scales), centres)


def tail_candidates(values: Sequence[Values], shared: bool) -> list[Candidate]:
    """Logarithms of the distance from a pole that is a little beyond the best or the worst value.

    Args:
        values: of each fidelity.
        shared: whether all fidelities must have the same bend.
    """
    everything = np.concatenate(list(values))
    if not len(everything):
        return []
    candidates = _tails([everything] * len(values), Candidate((), (), (), penalty=PREFERENCE))
    if not shared and len(values) > 1:
        groups = [y if len(y) >= FEWEST else everything for y in values]
        candidates += _tails(groups, Candidate((), (), (), shared=False, penalty=PREFERENCE + OWN))
    return candidates


def _tails(groups: Sequence[Values], like: Candidate) -> list[Candidate]:
    """The bends whose ends are the best or worst values of these groups of values."""
    candidates: list[Candidate] = []
    for end_of, below in ((np.max, True), (np.min, False)):
        ends = [float(end_of(y)) for y in groups]
        gaps = [_gap(y, end, end) for y, end in zip(groups, ends, strict=True)]
        if min(gaps) > 0:
            kind = replace(like, ends=tuple((end, end) for end in ends), gaps=tuple(gaps), outermost=True)
            kind = replace(kind, anchors=tuple(float(y[0]) for y in groups), below=below, above=not below)
            candidates += [replace(kind, start=start) for start in (BLUNT, SHARP)]
    return candidates


def limit_candidates(values: Sequence[Values], low: float, high: float) -> list[Candidate]:
    """Straight between the limits, or near the one limit, and logarithms beyond.

    Args:
        values: of each fidelity.
        low: the lower limit; the upper one, if there is none.
        high: the upper limit; the lower one, if there is none.
    """
    gap = _gap(np.concatenate(list(values)), low, high)
    if gap == 0:
        return []
    count = len(values)
    kind = Candidate(((low, high),) * count, (gap,) * count, (low,) * count, below=True, above=True, penalty=PREFERENCE)
    return [replace(kind, start=start) for start in (BLUNT, SHARP)]


def _gap(y: Values, low: float, high: float) -> float:
    """The median distance from the ends, of the values that are beyond them; 0 if fewer than two are.

    Rounded, relative to the spread of the first values, so that it changes seldom.
    """
    apart = np.abs(y / 2 - np.clip(y / 2, low / 2, high / 2))
    apart = apart[apart > 0]
    if len(apart) < 2:
        return 0.0
    gap, unit = min(2 * float(np.median(apart)), _LARGEST_GAP), standardising(y[:FEWEST]).spread
    return unit * STEP ** round(math.log(gap, STEP) - math.log(unit, STEP))
