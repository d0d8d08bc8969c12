"""What a simulator leaves in its folder, read by every rule."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import fidelium as fd
from fidelium.constraints import is_outcome_name
from fidelium.errors import EvaluationError, SetupError
from fidelium.execution.python_function import PythonFunction
from fidelium.execution.result_rules import (
    CsvCell,
    JsonPath,
    Pattern,
    ResultFile,
    ResultRule,
    reported_failure,
)
from tests.chaos.inputs.base import demand
from tests.chaos.inputs.hostile import anything, encoded, mutated, text

_JSON = (
    '{"value": 1.2}',
    '{"value": -3.5e2, "cost": 4}',
    '{"failed": "no mesh"}',
    '{"results": {"mass": [1, 2.5]}}',
    '{"value": 1.2, "stress": 1.5e8, "frequency": 12, "x": 0.5, "solver": "2.21", "modes": [1, 2]}',
    '{"value": 1.2, "stress": NaN, "mass": -Infinity, "std": 1, "ok": true}',
)
_TABLE = ("run,mass,stress\n1,2.5,3\n2,2.25,4\n", "1 2 3\n4 5 6\n", "mass;stress\n1,5;2\n", '"mass"\n"1.5D+03"\n')
_OUTPUT = ("step 1\nmass = 2.5\nmass = 2.25\n", "mass =\n", "FAIL: no mesh\n", "mass = 1.5D+03 kg\n")
_PATHS = (
    "value",
    "results.mass[0]",
    "results.mass[-1]",
    '["value"]',
    "$",
    "[0]",
    "value[0]",
    "",
    "a..b",
    "[99999999999]",
)
_COLUMNS: tuple[str | int, ...] = ("mass", "stress", "nope", 0, 1, -1, 7, "", 10**30)
_REGEXES = (
    "mass = (.*)",
    r"^mass\s*=\s*([-\d.eED+]+)",
    "(.)",
    "(x)?",
    "(",
    "mass",
    r"(?P<a>\d+)",
    r"(\d+)$",
    "(?i)MASS = (.*)",
)
_RETURNED = (
    "1.5", "(1.5, 2)", "(1.5, -1)", "(1, None)", "(None, 1)", "(1, 2, 3)", "[]", "None", "'1.5'", "'1_000'", "True",
    "1j", "10**400", "-10**400", "float('nan')", "float('inf')", "1/0", "undefined", "(float('nan'), 1)",
    "(1, float('inf'))", "exit(0)", "exit(3)", "exit('done')", "raise_(ValueError('\\ud800'))",
    "raise_(ValueError(''))", "raise_(OSError())", "raise_(RecursionError)", "main(folder)", "float", "object()",
    "b'1'", "bytearray(8)", "range(3)", "folder", "type('F',(float,),{})(1)",
    "type('B',(),{'__float__':lambda s:1/0})()", "type('S',(),{'shape':()})()",
    "type('R',(),{'__repr__':lambda s:1/0})()", "__import__('numpy').float32(1.5)",
    "__import__('numpy').array(2.5)", "__import__('numpy').array([1,2])", "__import__('decimal').Decimal('1.5')",
    "__import__('fractions').Fraction(1, 3)", "iter([1])", "{'value': 1}", "{}", "'\\ud800'", "'a' * 10**6",
    "{'value': 1, 'stress': 2}", "{'value': 1, 'stress': float('nan')}", "{'value': 1, 'std': 2}", "{'value': 1, 2: 3}",
    "{'value': 1, 's': '2'}", "{'value': 1, 's': __import__('numpy').float32(1.5)}", "{'value': 1, 's': 10**400}",
    "{'value': 1, 's': type('B',(),{'__float__':lambda s:1/0})()}",
    "{'value': 1, type('R',(),{'__repr__':lambda s:1/0})(): 1}",
    "raise_(StopIteration)", "raise_(GeneratorExit)", "raise_(ExceptionGroup('x', [ValueError()]))",
)  # fmt: skip
_POST = """\
def raise_(error):
    raise error

def main(folder):
    return eval((folder / "returned").read_text(encoding="utf-8"))
"""


@dataclass(frozen=True)
class Result:
    """A rule with its arguments, and the content of the file that it reads."""

    rule: str
    arguments: tuple[Any, ...]
    content: bytes
    is_stored: bool


class Results:
    """Any content is a finite value or a failed trial with a reason, and the study can store either."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "post.py").write_text(_POST)
        self.study = fd.create_study(
            {"x": fd.Real(0, 1)},
            [fd.Fidelity("fine", 1)],
            direction="minimize",
            strategy="random",
            storage=f"sqlite:///{folder}/results.db",
            name="results",
            initial={},
        )

    def draw(self, chance: random.Random) -> Result:
        rule, arguments, content = chance.choice((_file, _file, _path, _cell, _pattern, _function))(chance)
        return Result(rule, arguments, content, is_stored=chance.random() < 0.02)

    def try_out(self, given: Result) -> None:
        rule = self._rule(given)
        path = self.folder / ("returned" if given.rule == "python" else rule.file)
        path.write_bytes(given.content)
        try:
            failure = reported_failure(rule, self.folder)
            if failure is not None:
                raise EvaluationError(failure)
            measured = rule.read(self.folder)
        except (EvaluationError, SetupError) as error:
            str(error).encode(errors="surrogatepass")
            if given.is_stored:
                self.study.tell(self.study.ask(), failed=str(error))
            raise
        demand(type(measured.value) is float and isfinite(measured.value), f"the value is {measured.value!r}")
        cost = measured.cost
        demand(cost is None or (type(cost) is float and cost >= 0 and isfinite(cost)), f"the cost is {cost!r}")
        for name, outcome in measured.outcomes.items():
            demand(type(outcome) is float and is_outcome_name(name), f"the outcome {name!r} is {outcome!r}")
        if given.is_stored:
            outcomes = {name: each for name, each in measured.outcomes.items() if name != "x"}
            self.study.tell(self.study.ask(), measured.value, measured_cost=cost, outcomes=outcomes)

    def _rule(self, given: Result) -> ResultRule:
        match given.rule:
            case "file":
                return ResultFile(*given.arguments)
            case "json":
                return JsonPath(*given.arguments)
            case "column":
                return CsvCell(*given.arguments)
            case "regex":
                return Pattern(*given.arguments)
            case _:
                return PythonFunction(str(self.folder / "post.py"), *given.arguments)


def _file(chance: random.Random) -> tuple[str, tuple[Any, ...], bytes]:
    if chance.random() < 0.5:
        return "file", ("result.json",), encoded(chance, mutated(chance, chance.choice(_JSON)))
    fields = {key: anything(chance, 1) for key in ("value", "cost", "failed") if chance.random() < 0.6}
    return "file", ("result.json",), encoded(chance, _dumped(chance, fields))


def _path(chance: random.Random) -> tuple[str, tuple[Any, ...], bytes]:
    document = chance.choice(_JSON) if chance.random() < 0.6 else _dumped(chance, anything(chance))
    return "json", ("out.json", chance.choice(_PATHS)), encoded(chance, mutated(chance, document))


def _cell(chance: random.Random) -> tuple[str, tuple[Any, ...], bytes]:
    row, delimiter = (
        chance.choice((-1, -1, 0, 1, 5, -7, 10**30)),
        chance.choice((",", ",", "space", ";", "\t", '"', "é")),
    )
    arguments = ("out.csv", chance.choice(_COLUMNS), row, delimiter)
    return "column", arguments, encoded(chance, mutated(chance, chance.choice(_TABLE)))


def _pattern(chance: random.Random) -> tuple[str, tuple[Any, ...], bytes]:
    file = chance.choice(("stdout.txt", "out.txt"))
    return "regex", (chance.choice(_REGEXES), file), encoded(chance, mutated(chance, chance.choice(_OUTPUT)))


def _function(chance: random.Random) -> tuple[str, tuple[Any, ...], bytes]:
    source = chance.choice(_RETURNED) if chance.random() < 0.8 else repr(anything(chance, 1))
    return "python", (chance.choice(("main", "main", "main", "nope")),), source.encode("utf-8", "backslashreplace")


def _dumped(chance: random.Random, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=chance.random() < 0.5)
    except ValueError:  # an integer with too many digits
        return text(chance)
