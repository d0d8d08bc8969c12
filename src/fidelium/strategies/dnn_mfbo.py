"""DNN-MFBO, Algorithm 1: fit the stack of networks, draw f*, ask where the gain per cost is highest.

`dnn_mfbo_paper` follows the paper to the letter; `dnn_mfbo` is our best form of its idea. What differs between the two
is listed in docs/deviations.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.acquisition.entropy import Gain, observation_gain, paper_gain
from fidelium.acquisition.maxima import SampledMaxima, draw_paths, sample_maxima
from fidelium.acquisition.maximise import Candidate, search
from fidelium.errors import NoDataError
from fidelium.history import History, Query
from fidelium.numerics.backend import jax_key, one_blas_thread
from fidelium.randomness import Key
from fidelium.strategies.initial_design import unasked_point
from fidelium.strategies.model import PosteriorModel
from fidelium.surrogates.base import Posterior, Surrogate
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.stacked_dnn.posterior import StackPosterior
from fidelium.timing import stage

LEAST_RISE = 1e-3
"""How far above the incumbent every sample of f* is at least, as a share of the target's spread: a smaller rise is not
worth another query beside the incumbent."""


@dataclass(frozen=True)
class DnnMfbo:
    """Algorithm 1 with a choice of surrogate, gain and search.

    Args:
        surrogate: how the stack of networks is learned.
        gain: what a query is worth.
        draws: samples of f*.
        draw_starts: L-BFGS starts per sample of f*.
        search_starts: L-BFGS starts per fidelity.
        pool: random designs that starts are chosen from.
        local: designs near the incumbent and the sampled maximisers added to them (none in the paper).
        raise_to_incumbent: whether samples of f* below the best observed value are raised to a little above it.
        reserve_last: whether the last affordable query at the target is kept for the most promising design.
        members: posteriors in the mixture that predicts and recommends.
    """

    surrogate: Surrogate[StackPosterior]
    gain: Gain
    draws: int = 16
    draw_starts: int = 3
    search_starts: int = 8
    pool: int = 512
    local: int = 96
    raise_to_incumbent: bool = True
    reserve_last: bool = True
    members: int = 4

    @one_blas_thread()
    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The query of highest gain per cost."""
        fit_key, star_key, search_key, spare_key = key.split(4)
        if self.reserve_last and history.is_last_target_query:
            with stage("search"):
                designs = self.model(history, search_key).promising()
            target = len(history.ladder) - 1
            return _first_new([Candidate(x, target, 0.0) for x in designs], history, pending, spare_key)
        with stage("fit"):
            posterior = self._posterior(history, pending, fit_key)  # line 1 / 6
        with stage("fstar"):
            maxima = self._sample_maxima(posterior, history, star_key)  # line 3
        with stage("search"):
            ranked = self._search(posterior, maxima, history, search_key)  # line 4
        return _first_new(ranked, history, pending, spare_key)

    @one_blas_thread()
    def model(self, history: History, key: Key) -> PosteriorModel:
        """The stack of networks fitted to the history."""
        fit_key, search_key = key.split(2)
        posteriors = [self._posterior(history, (), member_key) for member_key in fit_key.split(self.members)]
        return PosteriorModel.of(posteriors, history, search_key)

    def _posterior(self, history: History, pending: Sequence[Query], key: Key) -> StackPosterior:
        if not any(len(seen) for seen in history.observations):
            raise NoDataError(
                "this strategy needs at least one observation to learn from; add one or use initial points"
            )
        posterior = self.surrogate.fit(history.observations, key)
        # a query that is running, or failed, will not tell anything new: as if its expected value had been observed
        for query in (*pending, *history.failed):
            posterior = _given(posterior, history.space.encode(query.params), query.fidelity)
        return posterior

    def _sample_maxima(self, posterior: Posterior, history: History, key: Key) -> SampledMaxima:
        draw_key, pool_key = key.split(2)
        candidates = self._candidates(history, pool_key, _incumbents(history))
        maxima = sample_maxima(draw_paths(posterior, jax_key(draw_key), self.draws), candidates, self.draw_starts)
        best = _best_target_value(posterior, history)
        if not self.raise_to_incumbent or best is None:
            return maxima
        return SampledMaxima(np.maximum(maxima.value, best + LEAST_RISE), maxima.unit_x)

    def _search(self, posterior: Posterior, maxima: SampledMaxima, history: History, key: Key) -> list[Candidate]:
        centres = np.concatenate([_incumbents(history), history.space.snap(maxima.unit_x)])
        candidates = self._candidates(history, key, centres)
        return search(
            self.gain,
            posterior,
            maxima.value,
            history.space,
            history.ladder.costs,
            (history.unreserved if self.reserve_last else ()) or history.affordable,
            candidates,
            self.search_starts,
        )

    def _candidates(self, history: History, key: Key, centres: NDArray[np.float64]) -> NDArray[np.float64]:
        """`pool` random designs, and `local` ones around the centres, at distances from 0.001 to 0.1."""
        generator = key.generator()
        uniform = history.space.sample(generator, self.pool)
        if not self.local:
            return uniform
        if not len(centres):
            return np.concatenate([uniform, history.space.sample(generator, self.local)])
        around = centres[np.arange(self.local) % len(centres)]
        radius = 10 ** generator.uniform(-3, -1, size=(self.local, 1))
        radius[: min(len(centres), self.local)] = 0.0
        return np.concatenate([uniform, history.space.snap(around + radius * generator.normal(size=around.shape))])


def dnn_mfbo() -> DnnMfbo:
    """The default: closed-form last layers, random-feature networks, gain about the observation."""
    return DnnMfbo(ClosedFormStack(), observation_gain)


def dnn_mfbo_paper() -> DnnMfbo:
    """The paper to the letter: variational learning, gain about the noise-free value, random starts."""
    from fidelium.surrogates.stacked_dnn.variational import VariationalStack  # and with it optax, which only this needs

    return DnnMfbo(
        VariationalStack(),
        paper_gain,
        draws=10,
        draw_starts=10,
        search_starts=10,
        pool=10,
        local=0,
        raise_to_incumbent=False,
        reserve_last=False,
        members=1,
    )


@partial(jax.jit, static_argnums=2)
def _given(posterior: StackPosterior, unit_x: Float[Array, " d"], fidelity: int) -> StackPosterior:
    return posterior.given(unit_x, fidelity)


def _incumbents(history: History) -> NDArray[np.float64]:
    """The best designs seen, target first, one per fidelity that has been observed."""
    seen = [o.unit_x[np.argmax(o.y)] for o in reversed(history.observations) if len(o)]
    return np.array(seen).reshape(len(seen), history.space.dimension)


def _best_target_value(posterior: Posterior, history: History) -> float | None:
    """The best value observed at the target, in the model's units."""
    y = history.observations[-1].y
    return float(np.max(posterior.scales()[-1].inward(y))) if len(y) else None


def _first_new(ranked: Sequence[Candidate], history: History, pending: Sequence[Query], key: Key) -> Query:
    """The best candidate that has not been asked before; a random new design if there is none."""
    asked: dict[int, set[bytes]] = {}
    for m in {candidate.fidelity for candidate in ranked}:
        running = [query for query in pending if query.fidelity == m]
        asked[m] = {x.tobytes() for x in np.concatenate([history.asked(m), history.encode(running)])}
    for candidate in ranked:
        if candidate.unit_x.tobytes() not in asked[candidate.fidelity]:
            return Query(history.space.decode(candidate.unit_x), candidate.fidelity)
    spare = {m: unasked_point(history, pending, m, key) for m in dict.fromkeys(c.fidelity for c in ranked)}
    # a finite space may be exhausted at one fidelity and not at another, or (then the first is as good as any) at all
    fidelity = next((m for m, unit_x in spare.items() if unit_x.tobytes() not in asked[m]), ranked[0].fidelity)
    return Query(history.space.decode(spare[fidelity]), fidelity)
