"""Where an experiment runs: processes of one thread each; the machine and the versions recorded with every result."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# nothing heavy is imported here: a measured process runs this module first

THREADS = {
    "NPROC": "1",
    "PJRT_NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""Environment variables for computing with one thread; they must be set before JAX is imported."""

_OURS = ("fidelium", "jax", "jaxlib", "numpy", "scipy")
_PEERS = ("botorch", "egobox", "gpytorch", "optuna", "smac", "torch")
"""Packages whose versions are recorded."""


def use_one_thread() -> None:
    """Set the variables of `THREADS` in this process."""
    os.environ.update(THREADS)


def pin_to_one_core() -> None:
    """Pin this process to the last core it may run on, where the system supports it."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def machine() -> dict[str, Any]:
    """Processor, number of cores and system."""
    return {"cpu": _cpu(), "cores": os.cpu_count(), "system": platform.platform()}


def package_versions(peers: bool = False) -> dict[str, str]:
    """Versions of Python and of the numerical packages; with `peers` also of the installed peer libraries."""
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
