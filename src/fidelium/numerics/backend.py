"""How fidelium uses JAX: in double precision, on one BLAS thread, with compiled functions kept between processes.

All of it holds inside `jax_session` only: the host program's own JAX is as it was, and importing compiles nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.random as jr
import platformdirs
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from threadpoolctl import ThreadpoolController

from fidelium.numerics.compilation_cache import remove_unreadable
from fidelium.randomness import Key

R = TypeVar("R")

CACHE_VARIABLE = "FIDELIUM_CACHE_DIR"
"""Environment variable that moves the compilation cache; empty switches it off."""

_CACHE_FOLDER = "jax_compilation_cache_dir"


@contextmanager
def jax_session() -> Iterator[None]:
    """Compute as fidelium does inside; `@jax_session()` on whatever is called from outside the numerics.

    Double precision is a setting of the thread. The BLAS threads and the compilation cache are settings of the process:
    they are changed by the first of all sessions under way, in any thread, and restored by the last.
    """
    with _process.borrowed(), jax.enable_x64(True):
        yield


class _Process:
    """The settings of the process, and how many sessions need them changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions = 0
        self._restore = ExitStack()

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Changed inside."""
        with self._lock:
            if self._sessions == 0:
                with ExitStack() as changes:
                    changes.enter_context(_one_blas_thread())
                    changes.enter_context(_compilation_cache())
                    self._restore = changes.pop_all()
            self._sessions += 1
        try:
            yield
        finally:
            with self._lock:
                self._sessions -= 1
                if self._sessions == 0:
                    self._restore.close()


_process = _Process()


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Keep BLAS and LAPACK to one thread.

    JAX calls SciPy's LAPACK; on our matrices, of a few dozen to a few hundred rows, its threads cost up to ten times
    more than they save.
    """
    with _thread_pools().limit(limits=1, user_api="blas"):
        yield


@cache
def _thread_pools() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  loads the library that JAX will call

    return ThreadpoolController()


@contextmanager
def _compilation_cache() -> Iterator[None]:
    """Keep all compiled functions in the user's cache folder, unless the host program has a cache of its own.

    JAX has no such setting per thread: what another thread of the host compiles meanwhile is kept there too.
    """
    folder = os.environ.get(CACHE_VARIABLE, str(Path(platformdirs.user_cache_dir("fidelium")) / "jax"))
    if not folder or getattr(jax.config, _CACHE_FOLDER) is not None:
        yield
        return
    ours = {
        _CACHE_FOLDER: folder,
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    _repaired(folder)
    before = {name: getattr(jax.config, name) for name in ours}
    for name, value in ours.items():
        jax.config.update(name, value)
    try:
        yield
    finally:
        for name, value in ours.items():
            if getattr(jax.config, name) == value:  # or else the host has changed it meanwhile, in another thread
                jax.config.update(name, before[name])
        reset_cache()  # else JAX goes on using our folder


@cache
def _repaired(folder: str) -> None:
    """Once in a process: remove what a killed one has left behind."""
    remove_unreadable(Path(folder))


def jax_key(key: Key) -> jax.Array:
    """The JAX key that stands for one of fidelium's keys."""
    return jr.key(key.word())


def quick_jit(
    function: Callable[..., R], *, static_argnums: int | Sequence[int] = (), level: int = 0
) -> Callable[..., R]:
    """`jax.jit` for large functions: a third of the time to compile, and as fast afterwards (sines, cosines, products).

    A first suggestion takes 12 to 14 s of processor time instead of 19 to 24 (docs/experiments-log.md).

    Args:
        function: what to compile, at its first call.
        static_argnums: as those of `jax.jit`.
        level: of optimisation. 1 takes twice as long to compile as 0; the gains of runs with several results, and draws
            of them, are then computed in less than half of the time. More gains nothing.
    """

    @cache
    def jitted() -> Callable[..., R]:
        return jax.jit(function, static_argnums=static_argnums, compiler_options=quick_options(level))

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        return jitted()(*args, **kwargs)

    return call


@cache
def quick_options(level: int = 0) -> dict[str, bool | int]:
    """The compiler options of `quick_jit`."""
    return accepted_options({"xla_backend_optimization_level": level, "xla_cpu_use_fusion_emitters": False})


def accepted_options(options: Mapping[str, bool | int]) -> dict[str, bool | int]:
    """Those of the compiler options that the installed XLA knows: they come and go with its versions."""
    if _compiles(options):
        return dict(options)
    return {name: value for name, value in options.items() if _compiles({name: value})}


def _compiles(options: Mapping[str, bool | int]) -> bool:
    try:
        jax.jit(lambda: 0.0, compiler_options=dict(options)).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
