"""How large functions are compiled. Importing this module compiles a tiny one, after `configure` has set up JAX."""

from __future__ import annotations

from collections.abc import Mapping

import jax


def accepted(options: Mapping[str, bool | int]) -> dict[str, bool | int]:
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


QUICK_TO_COMPILE = accepted({"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False})
"""Compiler options for large functions: a third of the time to compile, and as fast afterwards (sines, cosines,
products). A first suggestion takes 12 to 14 s of processor time instead of 19 to 24 (docs/experiments-log.md)."""
