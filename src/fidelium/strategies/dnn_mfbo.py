"""DNN-MFBO, Algorithm 1: fit the stack of networks, draw f*, ask where the gain per cost is highest.

`dnn_mfbo_paper` follows the paper to the letter; `dnn_mfbo` is our best form of its idea. What differs between the two
is listed in docs/deviations.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fidelium.acquisition.base import Designs
from fidelium.acquisition.entropy import EntropySearch, joint_gain, paper_gain
from fidelium.errors import UnknownNameError
from fidelium.randomness import Key
from fidelium.strategies.searched import SearchedStrategy
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.stacked_dnn.architecture import StackArchitecture
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack


def dnn_mfbo() -> SurrogateStrategy:
    """The default: closed-form last layers, random-feature networks, gain about the observation."""
    return SurrogateStrategy(
        ClosedFormStack(),
        EntropySearch(joint_gain, draws=5, designs=Designs(256, 64, 5), together=True),
        reserve_last=True,
        steady=Key((0,)),
    )


def dnn_mfbo_paper(
    architecture: StackArchitecture | Mapping[str, Any] | str | None = None, initial: Mapping[str, int] | None = None
) -> SurrogateStrategy | SearchedStrategy:
    """The paper to the letter: variational learning, gain about the noise-free value, random starts.

    Args:
        architecture: the networks, also as a mapping of the fields; "search" has SMAC3 find them on the study's initial
            data, as in the paper (extra `tune`), "quick" takes the best of a few; None is the architecture of the
            authors' program.
        initial: for a search, how many points the initial data have: what `create_study` got as `initial`.

    Raises:
        UnknownNameError: if the architecture is another word.
        SettingError: if SMAC3 is wanted and not installed.
    """
    if isinstance(architecture, Mapping):
        return _paper(StackArchitecture.from_mapping(architecture))
    if not isinstance(architecture, str):
        return _paper(architecture)
    if architecture == "search":
        from fidelium.tuning.search import SmacSearch

        return SearchedStrategy(SmacSearch(), _paper, initial)
    if architecture == "quick":
        from fidelium.tuning.search import QuickChoice

        return SearchedStrategy(QuickChoice(), _paper, initial)
    raise UnknownNameError(f"architecture must be 'search', 'quick' or a StackArchitecture, got {architecture!r}")


def _paper(architecture: StackArchitecture | None) -> SurrogateStrategy:
    from fidelium.surrogates.stacked_dnn.variational import VariationalStack  # and with it optax, which only this needs

    designs = Designs(pool=10, local=0, starts=10)
    acquisition = EntropySearch(paper_gain, draws=10, draw_starts=10, designs=designs, raise_to_incumbent=False)
    surrogate = VariationalStack() if architecture is None else VariationalStack.of(architecture)
    return SurrogateStrategy(surrogate, acquisition, steady=None)
