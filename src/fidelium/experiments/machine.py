"""What an experiment runs on: processes of one thread each, the machine and the versions beside every result."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# nothing heavy is imported here: this is the first module that a measured process runs

THREADS = {
    "NPROC": "1",
    "PJRT_NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""Environment of a process that computes with one thread; it must be set before JAX is imported."""


def use_one_thread() -> None:
    """Set that environment in this process, for JAX to find."""
    os.environ.update(THREADS)


def pin_to_one_core() -> None:
    """Keep this process on one core, the last it may run on, where the system can do that."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


_OURS = ("fidelium", "jax", "jaxlib", "numpy", "scipy")
_PEERS = ("botorch", "gpytorch", "optuna", "smac", "torch")


def machine() -> dict[str, Any]:
    """Processor, number of cores and system."""
    return {"cpu": _cpu(), "cores": os.cpu_count(), "system": platform.platform()}


def versions(peers: bool = False) -> dict[str, str]:
    """Versions of Python and of what we compute with; with `peers` also of the outside methods that are installed."""
    wanted = {name: _version(name) for name in (*_OURS, *(_PEERS if peers else ()))}
    return {"python": platform.python_version(), **{name: found for name, found in wanted.items() if found}}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
