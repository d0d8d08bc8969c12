"""DNN-MFBO, Algorithm 1: fit the stack of networks, draw f*, ask where the gain per cost is highest.

`dnn_mfbo_paper` follows the paper to the letter; `dnn_mfbo` is our best form of its idea. What differs between the two
is listed in docs/deviations.md.
"""

from __future__ import annotations

from fidelium.acquisition.base import Designs
from fidelium.acquisition.entropy import gaussian_gain, paper_gain
from fidelium.acquisition.entropy_search import EntropySearch
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack


def dnn_mfbo() -> SurrogateStrategy:
    """The default: closed-form last layers, random-feature networks, gain about the observation."""
    return SurrogateStrategy(ClosedFormStack(), EntropySearch(gaussian_gain), reserve_last=True, members=4)


def dnn_mfbo_paper() -> SurrogateStrategy:
    """The paper to the letter: variational learning, gain about the noise-free value, random starts."""
    from fidelium.surrogates.stacked_dnn.variational import VariationalStack  # and with it optax, which only this needs

    designs = Designs(pool=10, local=0, starts=10)
    acquisition = EntropySearch(paper_gain, draws=10, draw_starts=10, designs=designs, raise_to_incumbent=False)
    return SurrogateStrategy(VariationalStack(), acquisition, steady=False)
