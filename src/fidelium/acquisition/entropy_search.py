"""Max-value entropy search (Algorithm 1, lines 3 and 4): draw f*, then ask where the gain per cost is highest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from fidelium.acquisition.base import Candidate, Designs, best_target_value, incumbents
from fidelium.acquisition.entropy import Gain, observation_gain
from fidelium.acquisition.maxima import SampledMaxima, sample_target
from fidelium.acquisition.maximise import search
from fidelium.history import History
from fidelium.randomness import Key
from fidelium.surrogates.base import Posterior
from fidelium.timing import stage

LEAST_RISE = 1e-3
"""How far above the incumbent every sample of f* is at least, as a share of the target's spread: a smaller rise is not
worth another query beside the incumbent."""


@dataclass(frozen=True)
class EntropySearch:
    """The gain about f*, the target's maximum, per cost.

    Args:
        gain: what a query tells about f*.
        draws: samples of f*.
        draw_starts: L-BFGS starts per sample of f*.
        designs: where the searches start.
        raise_to_incumbent: whether samples of f* below the best observed value are raised to a little above it.
    """

    gain: Gain = observation_gain
    draws: int = 16
    draw_starts: int = 3
    designs: Designs = Designs()
    raise_to_incumbent: bool = True

    def rank(self, posterior: Posterior, history: History, fidelities: Sequence[int], key: Key) -> list[Candidate]:
        """Queries by gain per cost."""
        star_key, search_key = key.split(2)
        with stage("fstar"):
            maxima = self.sample_maxima(posterior, history, star_key)  # line 3
        with stage("search"):
            centres = np.concatenate([incumbents(history), history.space.snap(maxima.unit_x)])
            candidates = self.designs.around(history, centres, search_key)
            context = jnp.asarray(maxima.value)
            return search(self.gain, posterior, context, history, fidelities, candidates, self.designs.starts)  # line 4

    def sample_maxima(self, posterior: Posterior, history: History, key: Key) -> SampledMaxima:
        """Samples of f* and where they are attained."""
        maxima = sample_target(posterior, history, self.draws, self.draw_starts, self.designs, key)
        best = best_target_value(posterior, history)
        if not self.raise_to_incumbent or best is None:
            return maxima
        return SampledMaxima(np.maximum(maxima.value, best + LEAST_RISE), maxima.unit_x)
