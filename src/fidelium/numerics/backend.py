"""How fidelium uses JAX: double precision, and compiled functions kept between processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import jax
import jax.random as jr
import platformdirs
from threadpoolctl import ThreadpoolController

from fidelium.randomness import Key

CACHE_VARIABLE = "FIDELIUM_CACHE_DIR"
"""Environment variable that moves the compilation cache; empty switches it off."""


def configure() -> None:
    """Switch on double precision and the persistent compilation cache, unless the user has set up one."""
    jax.config.update("jax_enable_x64", True)
    if jax.config.values.get("jax_compilation_cache_dir") is not None:
        return
    folder = os.environ.get(CACHE_VARIABLE, str(Path(platformdirs.user_cache_dir("fidelium")) / "jax"))
    if not folder:
        return
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def jax_key(key: Key) -> jax.Array:
    """The JAX key that stands for one of fidelium's keys."""
    return jr.key(key.word())


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS and LAPACK to one thread inside.

    JAX calls SciPy's LAPACK; on our matrices, of a few dozen to a few hundred rows, its threads cost up to ten times
    more than they save. The user's own computations outside keep their threads.
    """
    with _thread_pools().limit(limits=1, user_api="blas"):
        yield


@cache
def _thread_pools() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  loads the library that JAX will call

    return ThreadpoolController()
