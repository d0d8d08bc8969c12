"""What peers share whose libraries have parameters of their own kinds: values there and back, and good manners.

A choice of a `Categorical` is its position there: libraries differ in what may be a choice, and in whether True is 1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits

from fidelium.history import History
from fidelium.space import Categorical, Params, SearchSpace

Values = dict[str, Any]
"""Values of all parameters by name, choices as their positions."""


def target_values(history: History) -> list[tuple[Values, float]]:
    """The designs observed at the target, and what was observed, to be maximised."""
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
    """The valid design nearest to such values: libraries round in their own ways."""
    params = dict(values)
    for name, parameter in space.parameters.items():
        if isinstance(parameter, Categorical):
            params[name] = parameter.choices[int(values[name])]
    return space.decode(space.encode(params))


@contextmanager
def quiet(library: str) -> Iterator[None]:
    """Keep a library to one thread, and its log to errors, inside."""
    logger = logging.getLogger(library)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        logger.setLevel(level)
