"""Conversions between fidelium and other libraries: units, fidelities, parameter values, threads and logs.

A choice of a `Categorical` becomes its position: libraries differ in what may be a choice, and in whether True is 1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fidelium.history import History
from fidelium.space import Categorical, Params, SearchSpace

Units = tuple[float, float]
"""Shift and scale of a model's values: y = shift + scale * z."""


def mean_and_spread(y: NDArray[np.float64]) -> Units:
    """Mean and standard deviation of the values; 1 where there is no spread."""
    spread = float(np.std(y, ddof=1)) if len(y) > 1 else 0.0
    return float(np.mean(y)), spread or 1.0


def standardised(y: NDArray[np.float64], units: Units) -> NDArray[np.float64]:
    """z = (y - shift) / scale."""
    shift, scale = units
    return (y - shift) / scale


def with_column(unit_x: NDArray[np.float64], value: float) -> NDArray[np.float64]:
    """The designs `(n, d)` with the fidelity as a last column, as BoTorch's models expect it: `(n, d + 1)`."""
    return np.column_stack([unit_x, np.full(len(unit_x), value)])


def numbered(height: int) -> tuple[float, ...]:
    """The fidelities of a ladder as the numbers of tasks: 0, 1, ..., M - 1."""
    return tuple(float(m) for m in range(height))


def spaced(height: int) -> tuple[float, ...]:
    """The fidelities of a ladder as points of [0, 1] at equal distances, the target at 1: m / (M - 1)."""
    return tuple(m / (height - 1) for m in range(height)) if height > 1 else (1.0,)


def per_cost(gain: float, cost: float) -> float:
    """The gain per cost; a negative estimate is multiplied by the cost instead, as in BoTorch."""
    return gain / cost if gain > 0 else gain * cost


Values = dict[str, Any]
"""Values of all parameters by name, choices as their positions."""


def target_values(history: History) -> list[tuple[Values, float]]:
    """The designs observed at the target and their values, to be maximised."""
    space, seen = history.space, history.observations[-1]
    return [(to_values(space, space.decode(x)), float(y)) for x, y in zip(seen.unit_x, seen.y, strict=True)]


def to_values(space: SearchSpace, params: Params) -> Values:
    """The values of a design, choices as their positions."""
    values = dict(params)
    for name, parameter in space.parameters.items():
        if isinstance(parameter, Categorical):
            values[name] = int(parameter.encode(params[name]).argmax())
    return values


def to_params(space: SearchSpace, values: Mapping[str, Any]) -> Params:
    """The valid design nearest to these values: libraries round differently."""
    params = dict(values)
    for name, parameter in space.parameters.items():
        if isinstance(parameter, Categorical):
            params[name] = parameter.choices[int(values[name])]
    return space.decode(space.encode(params))


@contextmanager
def quiet(library: str) -> Iterator[None]:
    """Limit a library to one thread, and its log to errors."""
    logger = logging.getLogger(library)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        logger.setLevel(level)
