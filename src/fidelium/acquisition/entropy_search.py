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
from fidelium.surrogates.ensemble import versions
from fidelium.timing import stage

LEAST_RISE = 1e-3
"""How far above the incumbent every sample of f* is at least, as a share of the target's spread: a smaller rise is not
worth another query beside the incumbent."""


@dataclass(frozen=True)
class EntropySearch:
    """The gain about f*, the target's maximum, per cost.

    Args:
        gain: what a query tells about f*.
        draws: samples of f*, of every member of an ensemble.
        draw_starts: L-BFGS starts per sample of f*.
        designs: where the searches start.
        raise_to_incumbent: whether samples of f* below the best observed value are raised to a little above it.
        together: whether the gain takes a traced fidelity, so that all of them are climbed by one compiled function.
    """

    gain: Gain = observation_gain
    draws: int = 16
    draw_starts: int = 3
    designs: Designs = Designs()
    raise_to_incumbent: bool = True
    together: bool = False

    def rank(self, posterior: Posterior, history: History, fidelities: Sequence[int], key: Key) -> list[Candidate]:
        """Queries by gain per cost."""
        star_key, search_key = key.split(2)
        members = versions(posterior)
        with stage("fstar"):
            keys = star_key.split(len(members)) if len(members) > 1 else (star_key,)
            maxima = [self.sample_maxima(*each, history) for each in zip(members, keys, strict=True)]  # line 3
        with stage("search"):
            tops = history.space.snap(np.concatenate([each.unit_x for each in maxima]))
            candidates = self.designs.around(history, np.concatenate([incumbents(history), tops]), search_key)
            known = [(member, jnp.asarray(each.value)) for member, each in zip(members, maxima, strict=True)]
            starts, together = self.designs.starts, self.together
            return search(self.gain, known, history, fidelities, candidates, starts, together=together)  # line 4

    def sample_maxima(self, posterior: Posterior, key: Key, history: History) -> SampledMaxima:
        """Samples of f* and where they are attained."""
        maxima = sample_target(posterior, history, self.draws, self.draw_starts, self.designs, key)
        best = best_target_value(posterior, history)
        if not self.raise_to_incumbent or best is None:
            return maxima
        return SampledMaxima(np.maximum(maxima.value, best + LEAST_RISE), maxima.unit_x)
