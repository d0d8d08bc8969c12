"""What the tests of the finite-element problems share."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.stats import rankdata


@pytest.fixture(scope="session")
def rank_correlation() -> Callable[[ArrayLike, ArrayLike], float]:
    """Spearman's: 1 if two fidelities rank the designs alike, -1 if the other way round."""
    return lambda first, second: float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])
