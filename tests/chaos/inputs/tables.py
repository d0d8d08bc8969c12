"""CSV files to import, designs to predict at, and designs on a command line."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from fidelium.cli.table_io import parse_design, read_designs, read_observations
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.space import Categorical, Integer, Params, Real, SearchSpace
from tests.chaos.inputs.base import demand
from tests.chaos.inputs.hostile import TEXTS, encoded, mutated, number, text

_SPACE = SearchSpace(
    {"x": Real(0, 1), "tiles": Integer(1, 9), "kind": Categorical(("foam", "balsa", 1, None)), "cost": Real(1, 2)}
)
_LADDER = FidelityLadder((Fidelity("coarse", 1), Fidelity("fine", 4)))
_GOOD = """\
x,tiles,kind,params_cost,fidelity,value
0.5,3,foam,1.5,coarse,2.5
0.25,9,balsa,1,fine,-1e3
1,1,1,2,fine,0
"""


@dataclass(frozen=True)
class Table:
    """The content of a file, how it is read, and the options of `import`."""

    content: bytes
    use: str
    fidelity: str | None
    columns: dict[str, str]
    skip_bad: bool = False


class Tables:
    """A file is refused with all its mistakes, or every row is a valid observation."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "table.csv"

    def draw(self, chance: random.Random) -> Table | tuple[str, ...]:
        if chance.random() < 0.2:
            return _design(chance)
        document = _GOOD if chance.random() < 0.7 else _table(chance)
        columns = {"value": text(chance)} if chance.random() < 0.05 else {}
        use = chance.choice(("observations", "observations", "designs"))
        content, fidelity = encoded(chance, mutated(chance, document)), chance.choice((None, None, "fine"))
        return Table(content, use, fidelity, columns, skip_bad=chance.random() < 0.3)

    def try_out(self, given: Table | tuple[str, ...]) -> None:
        if isinstance(given, tuple):
            _check(parse_design(_SPACE, given))
            return
        self.path.write_bytes(given.content)
        if given.use == "designs":
            for params in read_designs(self.path, _SPACE):
                _check(params)
            return
        rows, _ = read_observations(self.path, _SPACE, _LADDER, given.fidelity, given.columns, skip_bad=given.skip_bad)
        for row in rows:
            _check(row.params)
            demand(row.fidelity in _LADDER.names and isfinite(row.value), f"an invalid row was read: {row}")


def _check(params: Params) -> None:
    demand(repr(_SPACE.validate(params)) == repr(params), f"an invalid design was read: {params}")


def _design(chance: random.Random) -> tuple[str, ...]:
    """What is given with `--at`."""
    right = {"x": "0.5", "tiles": "3", "kind": "foam", "cost": "1.25"}
    words = [f"{name}={value if chance.random() < 0.8 else text(chance)}" for name, value in right.items()]
    return tuple(word if chance.random() < 0.95 else text(chance) for word in words if chance.random() < 0.97)


def _table(chance: random.Random) -> str:
    """A table of random cells under headers that are mostly right."""
    names = [*_SPACE.names, "fidelity", "value", "params_cost", "state"]
    headers = [name if chance.random() < 0.95 else chance.choice(TEXTS) for name in names if chance.random() < 0.95]
    rows = [[_cell(chance) for _ in headers] for _ in range(chance.randint(0, 4))]
    return "\n".join(",".join(row) for row in [headers, *rows])


def _cell(chance: random.Random) -> str:
    if chance.random() < 0.5:
        return chance.choice(("0.5", "1", "3", "foam", "coarse", "fine", "done"))
    value = number(chance) if chance.random() < 0.5 else text(chance)
    try:
        return str(value)
    except ValueError:  # an integer with too many digits
        return "9" * 5000
