"""A table of candidates with descriptors, as in the screening of materials: one catalogue, two fidelities.

Four hidden properties of an item, in a few families, make its descriptors (correlated, of different scales, with errors
of their own) and its value, a smooth function of them with a part that no descriptor explains. The cheap fidelity is
correlated with the target by 0.85. Everything comes from a seeded generator, written before any strategy was run on it;
the problem `candidates` is that of seed 0. Settings were chosen on other seeds (docs/catalogues.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fidelium.catalogue import Catalogue
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.problems.base import Problem
from fidelium.space import SearchSpace

ITEMS, DESCRIPTORS, CORRELATION, CHEAP_COST = 608, 14, 0.85, 0.065

_HIDDEN, _FAMILIES, _HILLS = 4, 6, 5
_OWN_ERROR = 0.15
"""Standard deviation of what is in a descriptor beside the hidden properties, in units of its spread."""

_ROUGHNESS = 0.15
"""Standard deviation of what no descriptor explains of the value, in units of the spread of the rest."""

Column = NDArray[np.float64]


@dataclass(frozen=True)
class Lookup:
    """The values of all items at one fidelity, as a function.

    Args:
        values: by item.
    """

    values: dict[str, float]

    def __call__(self, candidate: str) -> float:
        """The value of an item."""
        return self.values[candidate]


def candidates() -> Problem:
    """608 items with 14 descriptors; the cheap fidelity costs 0.065 of the target."""
    return candidate_table(0)


def candidate_table(seed: int, items: int = ITEMS, descriptors: int = DESCRIPTORS) -> Problem:
    """A problem of this kind.

    Args:
        seed: of the generator.
        items: how many there are.
        descriptors: of each item.
    """
    generator = np.random.default_rng([seed, items, descriptors])
    families = generator.normal(size=(_FAMILIES, _HIDDEN))
    hidden = families[generator.integers(_FAMILIES, size=items)] + 0.6 * generator.normal(size=(items, _HIDDEN))
    names = [f"C{number:04d}" for number in range(items)]
    table = np.stack([_descriptor(hidden, kind, generator) for kind in range(descriptors)], axis=1)
    target = _value(hidden, generator)
    other = _value(hidden, generator)
    other = _standard(other - np.mean(other * target) * target)  # nothing of the target is left in it
    cheap = CORRELATION * target + np.sqrt(1 - CORRELATION**2) * other
    described = [{f"d{k:02d}": float(f"{number:.6g}") for k, number in enumerate(row)} for row in table.tolist()]
    values = [dict(zip(names, column.tolist(), strict=True)) for column in (cheap, target)]
    best = int(np.argmax(target))
    return Problem(
        name="candidates" if seed == 0 else f"candidates-{seed}",
        space=SearchSpace({"candidate": Catalogue(dict(zip(names, described, strict=True)))}),
        ladder=FidelityLadder((Fidelity("cheap", cost=CHEAP_COST), Fidelity("full", cost=1.0))),
        direction=Direction.MAXIMIZE,
        functions=(Lookup(values[0]), Lookup(values[1])),
        optimum=float(target[best]),
        optimisers=({"candidate": names[best]},),
        initial={"cheap": 20, "full": 5},
        reference="ours",
    )


def _standard(column: Column) -> Column:
    """The column with mean 0 and variance 1."""
    return (column - np.mean(column)) / np.std(column)


def _descriptor(hidden: Column, kind: int, generator: np.random.Generator) -> Column:
    """A descriptor: a mixture of the hidden properties with an error, on a scale of its own.

    In turn: linear, log-normal, saturating, a count.
    """
    mixed = _standard(hidden @ generator.normal(size=hidden.shape[1]))
    mixed = mixed + _OWN_ERROR * generator.normal(size=len(mixed))
    size = 10.0 ** generator.uniform(-2, 4)
    shapes = (mixed, np.exp(1.2 * mixed), np.tanh(mixed), np.round(4 + 2 * mixed))
    return size * shapes[kind % len(shapes)]


def _value(hidden: Column, generator: np.random.Generator) -> Column:
    """A slope, hills of different heights and widths, and the part of each item's own; mean 0 and variance 1."""
    smooth = 0.5 * _standard(hidden @ generator.normal(size=hidden.shape[1]))
    for _ in range(_HILLS):
        centre = hidden[generator.integers(len(hidden))] + 0.3 * generator.normal(size=hidden.shape[1])
        width, height = generator.uniform(0.8, 1.6), generator.uniform(0.5, 2.5)
        smooth = smooth + height * np.exp(-0.5 * np.sum((hidden - centre) ** 2, axis=1) / width**2)
    return _standard(_standard(smooth) + _ROUGHNESS * generator.normal(size=len(smooth)))
