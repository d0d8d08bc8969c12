"""What an experiment ran on: the machine and the versions, written beside every result."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

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
