"""How long a suggestion takes: first in a new process with an empty and with a filled compilation cache, then steady.

Every measurement runs in a process of its own, pinned to one core. The first suggestion is timed from before the
process starts, so Python, the imports and all compilation count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from fidelium.errors import FideliumError, SettingError
from fidelium.experiments.machine import THREADS, machine, versions
from fidelium.problems import Problem

GROWTH = (500, 4000)
"""Numbers of observations between which the growth of time and memory is measured."""


class SpeedError(FideliumError, RuntimeError):
    """The measured process failed."""


@dataclass(frozen=True)
class Speed:
    """What one strategy needs at one data size.

    Args:
        problem: its name.
        strategy: its name.
        sizes: observations per fidelity, low to high.
        first_empty: seconds to the first suggestion of a new process, compilation cache empty.
        first_filled: the same, compilation cache filled.
        steady: stage ("fit", "fstar", "search", "total") -> median seconds of the suggestions that follow.
        peak_mb: peak memory.
        suggestions: how many were asked of the second process.
        all_seconds: what they took together, from the start of that process on.
        all_processor: processor seconds of that process: hardly more on a busy machine.
    """

    problem: str
    strategy: str
    sizes: tuple[int, ...]
    first_empty: float
    first_filled: float
    steady: dict[str, float]
    peak_mb: float
    suggestions: int
    all_seconds: float
    all_processor: float


def measure_speed(problem: str, strategy: str, sizes: Sequence[int], steady: int) -> Speed:
    """Measure one strategy at one data size, in two new processes.

    Raises:
        SpeedError: if a process fails.
    """
    with tempfile.TemporaryDirectory() as cache:
        empty = _child(cache, problem, strategy, sizes, steady=1)
        filled = _child(cache, problem, strategy, sizes, steady)
    stages = {name: None for suggestion in filled["suggestions"] for name in suggestion}
    return Speed(
        problem=problem,
        strategy=strategy,
        sizes=tuple(sizes),
        first_empty=empty["first"],
        first_filled=filled["first"],
        steady={name: median(each.get(name, 0.0) for each in filled["suggestions"]) for name in stages},
        peak_mb=max(empty["peak_mb"], filled["peak_mb"]),
        suggestions=1 + len(filled["suggestions"]),
        all_seconds=filled["seconds"],
        all_processor=filled["processor"],
    )


def parse_sizes(text: str, problem: Problem) -> tuple[int, ...]:
    """Observations per fidelity from "20/20/2", or from a total, "500", in the proportions of the initial sizes.

    Raises:
        SettingError: if the text is neither, or does not fit the problem's ladder.
    """
    parts = text.split("/")
    if not all(part.isdigit() for part in parts) or len(parts) not in (1, len(problem.ladder)):
        raise SettingError(f"sizes must look like {'/'.join(['20'] * len(problem.ladder))} or 500, got {text!r}")
    sizes = [int(part) for part in parts]
    if len(sizes) < len(problem.ladder):
        sizes = list(split(sizes[0], [problem.initial.get(name, 0) for name in problem.ladder.names]))
    if sum(sizes) < 1:
        raise SettingError(f"at least one observation is needed, got {text!r}")
    return tuple(sizes)


def growth_sizes(problem: Problem) -> list[tuple[int, ...]]:
    """The two sizes of the growth measurement, mostly cheap observations."""
    return [split(total, [cost**-0.5 for cost in problem.ladder.costs]) for total in GROWTH]


def split(total: int, weights: Sequence[float]) -> tuple[int, ...]:
    """`total` in the proportions of `weights`, what rounding leaves going to the first."""
    rest = [round(total * weight / sum(weights)) for weight in weights[1:]]
    return (total - sum(rest), *rest)


def report(results: Sequence[Speed]) -> dict[str, Any]:
    """The results with the machine and the versions they were measured on, ready for JSON."""
    return {"machine": machine(), "versions": versions(), "results": [asdict(result) for result in results]}


def _child(cache: str, problem: str, strategy: str, sizes: Sequence[int], steady: int) -> dict[str, Any]:
    task = {"problem_name": problem, "strategy": strategy, "sizes": list(sizes), "steady": steady}
    process = subprocess.run(
        [sys.executable, "-m", "fidelium.experiments.speed_child", json.dumps(task | {"started": time.time()})],
        env=os.environ | THREADS | {"FIDELIUM_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        last = (process.stderr.strip() or f"exit code {process.returncode}").splitlines()[-1]
        raise SpeedError(f"measuring {strategy!r} on {problem!r} with {list(sizes)} observations failed: {last}")
    return json.loads(process.stdout.splitlines()[-1])
