"""BoTorch's process with the fidelity as a number: the model of two peers, which differ in their acquisitions.

As in BoTorch's tutorial on discrete fidelities, but for the numbers: 0.5, 0.75 and 1 there, 0 to 1 at equal distances
here. To this kernel f_m is the target plus an error that shrinks with 1 - m / (M - 1). From the initial observations of
seeds 0 to 3 the evidence, with the priors, is 4 to 11 nats higher so on branin, 6 to 25 on levy, and 0.3 to 0.5 lower
on park1.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import numpy as np
from botorch.models import SingleTaskMultiFidelityGP

from fidelium.errors import NoDataError
from fidelium.experiments.peers.botorch_parts import PeerModel, fitted, tensor
from fidelium.experiments.peers.formulas import spaced, standardised, units_of, with_column
from fidelium.history import History
from fidelium.randomness import Key


def continuous_model(history: History, key: Key) -> PeerModel:
    """`SingleTaskMultiFidelityGP` of x and m / (M - 1), all fidelities standardised together.

    Raises:
        NoDataError: if nothing has been observed yet.
    """
    if not any(len(seen) for seen in history.observations):
        raise NoDataError("this peer has nothing to learn a model from yet: no trial is done")
    columns = spaced(len(history.ladder))
    x = np.concatenate([with_column(seen.unit_x, columns[m]) for m, seen in enumerate(history.observations)])
    y = np.concatenate([seen.y for seen in history.observations])
    units = units_of(y)
    process = SingleTaskMultiFidelityGP(
        tensor(x),
        tensor(standardised(y, units))[:, None],
        data_fidelities=[history.space.dimension],
        outcome_transform=None,  # done by `units`, so that acquisitions compute with numbers around 1
    )
    return PeerModel(fitted(process, key), dict.fromkeys(range(len(columns)), units), columns, history, key)
