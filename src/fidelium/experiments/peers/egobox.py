"""`egobox`: efficient global optimisation with constraints (Lafage 2022), default settings; only the target.

Gaussian processes of the value and of each outcome; log expected improvement is maximised by COBYLA where the means of
the outcomes meet their limits. Failed runs are left out, its default (`FailsafeStrategy.REJECTION`).

The first max(5, d + 1) designs are a Latin hypercube, its own size, paid for like the others.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import egobox
import numpy as np
from numpy.typing import NDArray

from fidelium.constraints import OutcomeConstraint
from fidelium.errors import SettingError
from fidelium.experiments.peers.adapters import quiet, to_values
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.space import Categorical, Integer, Parameter, Params, Real, SearchSpace
from fidelium.timing import stage


@dataclass(frozen=True)
class EfficientOptimisation:
    """`Egor.suggest` with everything observed at the target; it has no model to predict with."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """egobox's suggestion; at first the designs of a Latin hypercube."""
        space, seen = history.space, history.observations[-1]
        position = len(history.asked(len(history.ladder) - 1))
        kinds = [_kind(each) for each in space.parameters.values()]
        size = max(5, len(kinds) + 1)
        with quiet("egobox"), stage("search"):
            if position < size or not len(seen):
                design = egobox.lhs(kinds, max(size, position + 1), seed=Key(key.entropy[:1]).word())
                return Query(_to_params(space, design[position]), history.affordable[-1])
            y = np.column_stack([-seen.y, *(outcome[-1].y for outcome in history.outcomes)])
            x = np.array([_to_row(space, space.decode(unit_x)) for unit_x in seen.unit_x])
            limits = [_limit(each) for each in history.constraints]
            found = egobox.Egor(kinds, cstr_specs=limits or None).suggest(x, y, seed=key.word())
        return Query(_to_params(space, found[0]), history.affordable[-1])


def _kind(parameter: Parameter) -> Any:
    """A real parameter is a column of the unit cube, logarithmic or not; the others are egobox's own kinds."""
    match parameter:
        case Real():
            return egobox.XSpec(egobox.XType.FLOAT, [0.0, 1.0])
        case Integer(low, high):
            return egobox.XSpec(egobox.XType.INT, [low, high])
        case Categorical(choices):
            return egobox.XSpec(egobox.XType.ENUM, [len(choices)])
    raise SettingError(f"egobox supports Real, Integer and Categorical, got {parameter!r}")


def _to_row(space: SearchSpace, params: Params) -> list[float]:
    values = to_values(space, params)
    parameters = space.parameters.items()
    return [float(p.encode(params[n])[0]) if isinstance(p, Real) else float(values[n]) for n, p in parameters]


def _to_params(space: SearchSpace, row: NDArray[np.float64]) -> Params:
    """The valid design nearest to a row."""
    params: Params = {}
    for (name, parameter), value in zip(space.parameters.items(), row, strict=True):
        match parameter:
            case Real():
                params[name] = parameter.decode(np.clip(np.array([value]), 0, 1))
            case Categorical():
                params[name] = parameter.choices[round(float(value))]
            case _:
                params[name] = round(float(value))
    return space.decode(space.encode(params))


def _limit(constraint: OutcomeConstraint) -> Any:
    if math.isinf(constraint.lower):
        return egobox.CstrSpec.leq(constraint.upper)
    if math.isinf(constraint.upper):
        return egobox.CstrSpec.geq(constraint.lower)
    return egobox.CstrSpec.between(constraint.lower, constraint.upper)
