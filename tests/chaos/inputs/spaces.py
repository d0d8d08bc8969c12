"""Parameters, spaces, ladders and designs from Python."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fidelium.definition import StudyDefinition, checked_budget
from fidelium.errors import FideliumError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.space import Categorical, Integer, Parameter, Real, SearchSpace
from fidelium.storage.serialise import definition_of, definition_text
from tests.chaos.inputs.base import demand
from tests.chaos.inputs.hostile import NUMBERS, anything, number, text


@dataclass(frozen=True)
class Problem:
    """The arguments of everything that a study is made from."""

    parameters: dict[Any, tuple[Any, ...]]
    fidelities: tuple[tuple[Any, Any], ...]
    direction: Any
    seed: Any
    initial: Any
    budget: Any
    points: int
    design: dict[Any, Any]
    constraints: Any = ()


class Spaces:
    """Spaces are built or refused; what is built encodes and decodes every design without a difference."""

    def __init__(self, folder: Path) -> None:
        del folder

    def draw(self, chance: random.Random) -> Problem:
        plain = chance.random() < 0.6  # otherwise nearly everything is refused for the first of many reasons
        parameters = {_name(chance, i, plain): _parameter(chance) for i in range(chance.choice((1, 1, 2, 3)))}
        return Problem(
            parameters,
            tuple(
                (("coarse", "fine")[i] if plain else text(chance), i + 1 if plain else number(chance))
                for i in range(chance.choice((1, 2, 2)))
            ),
            "minimize" if plain else text(chance),
            0 if plain else number(chance),
            None if plain else anything(chance),
            10.0 if plain else number(chance),
            chance.getrandbits(32),
            {name: anything(chance, 1) for name in parameters},
            _constraints(chance) if chance.random() < 0.2 else (),
        )

    def try_out(self, given: Problem) -> None:
        parameters = {name: _built(arguments) for name, arguments in given.parameters.items()}
        space = SearchSpace(parameters, given.constraints)
        _check_points(space, given.points)
        _check_design(space, given.design)
        ladder = FidelityLadder.of(Fidelity(name, cost) for name, cost in given.fidelities)
        definition = StudyDefinition.of(
            space,
            ladder,
            given.direction,
            strategy="random",
            strategy_options=None,
            seed=given.seed,
            initial=given.initial,
            name="chaos",
        )
        checked_budget(ladder, given.budget)
        again = definition_of("chaos", definition_text(definition))
        demand(again.space == space, f"stored and read, {space} is {again.space}")
        demand(list(again.ladder) == list(ladder), f"stored and read, {ladder} is {again.ladder}")


def _name(chance: random.Random, position: int, plain: bool) -> Any:
    return f"x{position}" if plain else chance.choice((text(chance), number(chance)))


def _constraints(chance: random.Random) -> Any:
    """Texts from the pieces of constraints in any order, some of them valid."""
    if chance.random() < 0.05:
        return anything(chance, 1)
    pieces = (
        "x0",
        "x1",
        "x2",
        "(",
        ")",
        "+",
        "-",
        "*",
        "/",
        "**",
        "min(",
        "log(",
        ",",
        "<",
        "<=",
        "==",
        "!=",
        "1",
        "2.5",
    )
    texts = [f"x0 {chance.choice(('<', '<=', '>', '>='))} {chance.choice(NUMBERS)!r}"]
    if chance.random() < 0.5:
        texts.append(" ".join(chance.choices((*pieces, "`x1`", '"a"', text(chance)), k=chance.randint(1, 9))))
    return texts


def _parameter(chance: random.Random) -> tuple[Any, ...]:
    kind = chance.choice(("real", "real", "integer", "categorical"))
    if kind == "categorical":
        return kind, [anything(chance, 1) for _ in range(chance.choice((0, 1, 2, 3, 3, 4)))]
    low, high = sorted((_bound(chance, kind), _bound(chance, kind)))
    log = chance.random() < 0.6 if low > 0 else chance.random() < 0.05
    if chance.random() < 0.95:
        return kind, low, high, log
    return chance.choice(
        ((kind, high, low, log), (kind, anything(chance, 1), high, log), (kind, low, high, text(chance)))
    )


def _bound(chance: random.Random, kind: str) -> Any:
    if chance.random() < 0.3:
        return chance.choice(NUMBERS)
    if kind == "integer":
        return chance.randint(-3, 40)
    return chance.choice((1, 1, -1)) * chance.random() * 10.0 ** chance.choice((-300, -30, -3, 0, 0, 1, 3, 30, 300))


def _built(arguments: tuple[Any, ...]) -> Parameter:
    kind, *rest = arguments
    return {"real": Real, "integer": Integer, "categorical": Categorical}[kind](*rest)


def _check_points(space: SearchSpace, seed: int) -> None:
    """decode(snap(u)) is valid, and encode gives snap(u) back, bit for bit."""
    generator = np.random.default_rng(seed)
    points = np.vstack([generator.random((2, space.dimension)), np.zeros(space.dimension), np.ones(space.dimension)])
    for point in space.repair(points):
        design = space.decode(point)
        valid = space.validate(design)
        demand(repr(valid) == repr(design), f"decoded {design}, which is valid as {valid}")
        again = space.encode(valid)
        demand(again.tobytes() == point.tobytes(), f"encode({valid}) is {again.tolist()}, not {point.tolist()}")


def _check_design(space: SearchSpace, design: dict[Any, Any]) -> None:
    """A design is refused, or it is a point of the cube."""
    try:
        point = space.encode(space.validate(design))
    except FideliumError:
        return
    demand(bool(np.all((point >= 0) & (point <= 1))), f"{design} is encoded as {point.tolist()}")
