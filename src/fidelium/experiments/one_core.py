"""Processes that compute with one thread each, so that times are comparable and workers do not crowd each other out."""

from __future__ import annotations

import os
import sys

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
