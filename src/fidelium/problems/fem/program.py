"""A problem as an external program: a query file in, a result file out, like simulators on a cluster.

    query.json   {"params": {"youngs_modulus": 2e11, ...}, "fidelity": "coarse"}, other keys are ignored
    result.json  {"value": 44.93, "cost": 1.0}, with any outcomes beside the value,  or  {"failed": "reason"}

The exit code is 0 for a value, 1 for a failure (the reason is also printed to stderr), and 2 for wrong arguments. The
result file appears only when it is complete.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fidelium.errors import FideliumError, SettingError
from fidelium.problems.base import Problem, value_and_outcomes


def run_program(problem: Problem, arguments: Sequence[str]) -> int:
    """Evaluate the query in the first file and write the result to the second; returns the exit code."""
    if len(arguments) != 2:
        module = f"fidelium.problems.fem.{problem.name.replace('-', '_')}"
        return _complain(f"usage: python -m {module} query.json result.json", code=2)
    query, result = map(Path, arguments)
    try:
        answer = _evaluate(problem, query)
    except FideliumError as error:
        answer = {"failed": str(error)}
    try:
        _write(result, answer)
    except OSError as error:
        return _complain(f"cannot write the result to {str(result)!r}: {error.strerror}", code=1)
    return _complain(str(answer["failed"]), code=1) if "failed" in answer else 0


def _evaluate(problem: Problem, path: Path) -> dict[str, Any]:
    query = _read(path)
    fidelity = problem.ladder[problem.ladder.index(query["fidelity"])]
    value, outcomes = value_and_outcomes(problem.evaluate(query["params"], fidelity.name))
    return {"value": value, **outcomes, "cost": fidelity.cost}


def _read(path: Path) -> dict[str, Any]:
    """The query in a file.

    Raises:
        SettingError: if it cannot be read or is not a query.
    """
    try:
        query = json.loads(path.read_text())
    except OSError as error:
        raise SettingError(f"cannot read the query {str(path)!r}: {error.strerror}") from None
    except ValueError as error:
        raise SettingError(f"the query {str(path)!r} is not JSON: {error}") from None
    if not isinstance(query, dict) or not {"params", "fidelity"} <= set(query) or not isinstance(query["params"], dict):
        raise SettingError(
            f'a query must be {{"params": {{"name": value, ...}}, "fidelity": "name"}}, got {json.dumps(query)}'
        )
    return query


def _write(path: Path, answer: dict[str, Any]) -> None:
    """Write to a temporary file and rename it, so that a reader never sees half a result."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(json.dumps(answer) + "\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _complain(sentence: str, code: int) -> int:
    print(sentence, file=sys.stderr)  # noqa: T201 - this is a program
    return code
