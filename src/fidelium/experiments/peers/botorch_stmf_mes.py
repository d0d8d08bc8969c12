"""`botorch-stmf-mes`: max-value entropy search per cost, the fidelity being a number to the model (`botorch_stmf`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fidelium.experiments.peers.botorch_entropy import most_informative
from fidelium.experiments.peers.botorch_parts import PeerModel
from fidelium.experiments.peers.botorch_stmf import continuous_model
from fidelium.history import History, Query
from fidelium.randomness import Key


@dataclass(frozen=True)
class ContinuousMaxValueEntropy:
    """`SingleTaskMultiFidelityGP` x `qMultiFidelityMaxValueEntropy` per cost."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The query of the highest gain about f* per cost."""
        return most_informative(self.model, history, pending, key)

    def model(self, history: History, key: Key) -> PeerModel:
        """The process of all fidelities.

        Raises:
            NoDataError: if nothing has been observed yet.
        """
        return continuous_model(history, key)
