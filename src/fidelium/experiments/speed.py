"""How long a suggestion takes: first in a new process with an empty and with a filled compilation cache, then steady.

Every measurement runs in its own process, pinned to one core: `python -m fidelium.experiments.speed JSON`, which prints
one JSON line. The first suggestion is timed from before the process starts, so Python, the imports and all compilation
count.
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
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from fidelium.errors import FideliumError, SettingError
from fidelium.experiments.machine import THREADS, machine, package_versions, pin_to_one_core

if TYPE_CHECKING:  # the measured process imports nothing heavy before it is pinned to its core
    from fidelium.problems import Problem

GROWTH = (500, 4000)
"""Numbers of observations between which the growth of time and memory is measured."""


class SpeedError(FideliumError, RuntimeError):
    """The measured process failed."""


@dataclass(frozen=True)
class Speed:
    """Time and memory of one strategy at one data size.

    Args:
        problem: its name.
        strategy: its name.
        sizes: observations per fidelity, low to high.
        first_empty: seconds to the first suggestion of a new process, compilation cache empty.
        first_filled: the same, compilation cache filled.
        steady: stage ("fit", "fstar", "search", "total") -> median seconds of the suggestions that follow.
        peak_mb: peak memory.
        suggestions: number of suggestions of the second process.
        all_seconds: their total time, from the start of that process.
        all_processor: processor seconds of that process, which depend little on other load.
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


def speed_report(results: Sequence[Speed]) -> dict[str, Any]:
    """The results with the machine and the versions they were measured on, ready for JSON."""
    return {"machine": machine(), "versions": package_versions(), "results": [asdict(result) for result in results]}


def parse_sizes(text: str, problem: Problem) -> tuple[int, ...]:
    """Observations per fidelity from "20/20/2", or from a total such as "500", divided like the initial sizes.

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
    """`total` in the proportions of `weights`; the first gets the rounding difference."""
    rest = [round(total * weight / sum(weights)) for weight in weights[1:]]
    return (total - sum(rest), *rest)


def _child(cache: str, problem: str, strategy: str, sizes: Sequence[int], steady: int) -> dict[str, Any]:
    task = {"problem_name": problem, "strategy": strategy, "sizes": list(sizes), "steady": steady}
    process = subprocess.run(
        [sys.executable, "-m", "fidelium.experiments.speed", json.dumps(task | {"started": time.time()})],
        env=os.environ | THREADS | {"FIDELIUM_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        last = (process.stderr.strip() or f"exit code {process.returncode}").splitlines()[-1]
        raise SpeedError(f"measuring {strategy!r} on {problem!r} with {list(sizes)} observations failed: {last}")
    return json.loads(process.stdout.splitlines()[-1])


def measure_here(problem_name: str, strategy: str, sizes: list[int], steady: int, started: float) -> dict[str, Any]:
    """Seconds from `started` (Unix time) to the first suggestion, of `steady` more, of all, and peak memory.

    This is what the measured process runs.
    """
    from fidelium import create_study, problems
    from fidelium.problems import value_and_outcomes

    problem = problems.get(problem_name)
    study = create_study(
        problem.space,
        problem.ladder,
        direction=problem.direction,
        strategy=strategy,
        initial={},
        constraints=problem.constraints,
    )
    _observe(study, problem, sizes)
    trial = study.ask()
    first = time.time() - started
    suggestions: list[dict[str, float]] = []
    for _ in range(steady):
        value, outcomes = value_and_outcomes(problem.observe(trial.params, trial.fidelity.name))
        study.tell(trial, value, outcomes=outcomes)
        trial, seconds = _timed_ask(study)
        suggestions.append(seconds)
    return {
        "first": first,
        "suggestions": suggestions,
        "seconds": time.time() - started,
        "processor": time.process_time(),
        "peak_mb": _peak_mb(),
    }


def _observe(study: Any, problem: Any, sizes: list[int]) -> None:
    import numpy as np

    from fidelium.problems import value_and_outcomes

    generator = np.random.default_rng(0)
    for fidelity, size in zip(problem.ladder.names, sizes, strict=True):
        for unit_x in problem.space.sample(generator, size):
            params = problem.space.decode(unit_x)
            study.add_observation(params, fidelity, *value_and_outcomes(problem.observe(params, fidelity)))


def _timed_ask(study: Any) -> tuple[Any, dict[str, float]]:
    from fidelium.timing import record

    start = time.perf_counter()
    with record() as stages:
        trial = study.ask()
    return trial, {**stages, "total": time.perf_counter() - start}


def _peak_mb() -> float:
    status = Path("/proc/self/status")
    if status.exists():  # on Linux ru_maxrss starts from the parent's memory at the fork
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 2**10
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


if __name__ == "__main__":
    pin_to_one_core()
    sys.stdout.write(json.dumps(measure_here(**json.loads(sys.argv[1]))) + "\n")
