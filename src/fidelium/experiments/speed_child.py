"""The measured process of `speed`: `python -m fidelium.experiments.speed_child JSON`, one JSON line on stdout.

Nothing heavy is imported before the process is pinned to its core.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from fidelium.experiments.machine import pin_to_one_core


def measure(problem_name: str, strategy: str, sizes: list[int], steady: int, started: float) -> dict[str, Any]:
    """Seconds from `started` (Unix time) to the first suggestion, those of `steady` more, of all, and peak memory."""
    from fidelium import create_study, problems

    problem = problems.get(problem_name)
    study = create_study(problem.space, problem.ladder, direction=problem.direction, strategy=strategy, initial={})
    _observe(study, problem, sizes)
    trial = study.ask()
    first = time.time() - started
    suggestions: list[dict[str, float]] = []
    for _ in range(steady):
        study.tell(trial, problem.observe(trial.params, trial.fidelity.name))
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

    generator = np.random.default_rng(0)
    for fidelity, size in zip(problem.ladder.names, sizes, strict=True):
        for unit_x in problem.space.sample(generator, size):
            params = problem.space.decode(unit_x)
            study.add_observation(params, fidelity, problem.observe(params, fidelity))


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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


if __name__ == "__main__":
    pin_to_one_core()
    sys.stdout.write(json.dumps(measure(**json.loads(sys.argv[1]))) + "\n")
