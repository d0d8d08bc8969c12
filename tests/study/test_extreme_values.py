"""Any finite values: predictions, recommendations and suggestions are finite, without a warning, for every strategy."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from fidelium import Fidelity, Real, create_study
from fidelium.strategies import registry

MODELLED = [name for name in registry.strategy_names() if name != "random"]

VALUES = {
    "largest floats": ([1.7e308, -1.7e308, 0.0, 1e308], [-1.7e308, 1.7e308, 3.0]),
    "tiny": ([5e-324, 0.0, -5e-324, 1e-310], [1e-320, 2e-308, 0.0]),
    "of all sizes": ([1e-300, -1.7e308, 1.0, 1e9], [1e300, -1e-300, 1.7e308]),
    "constant and large": ([1.7e308] * 4, [1.7e308] * 3),
    "one and one": ([2.5], [-2.5]),
    "one": ([], [1e308]),
    "constant": ([0.0] * 4, [0.0] * 3),
}


@pytest.mark.parametrize("strategy", MODELLED)
def test_any_finite_values_give_finite_answers(strategy):
    for low, high in VALUES.values():
        ladder = [Fidelity("low", 1), Fidelity("high", 4)]
        study = create_study({"x": Real(0, 1)}, ladder, direction="minimize", strategy=strategy, seed=0, initial={})
        for fidelity, values in (("low", low), ("high", high)):
            for step, value in enumerate(values):
                study.add_observation({"x": step / 3}, fidelity, value)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            choice = study.recommend()
            mean, std = study.predict([{"x": 0.1}, {"x": 0.0}, {"x": 0.77}], "high")
            study.ask()
        assert math.isfinite(choice.mean)
        assert math.isfinite(choice.std)
        assert np.all(np.isfinite(mean))
        assert np.all(np.isfinite(std))
        assert np.all(std >= 0)
