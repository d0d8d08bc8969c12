"""Compiler options: what the installed XLA does not know is left out."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fidelium.numerics.compiling import QUICK_TO_COMPILE, accepted

KNOWN = {"xla_backend_optimization_level": 0}


def test_options_that_xla_does_not_know_are_left_out():
    assert accepted(KNOWN | {"xla_of_another_year": True}) == KNOWN
    assert accepted({"xla_of_another_year": True}) == {}
    assert accepted(KNOWN) == KNOWN


def test_the_options_are_taken_and_change_no_result():
    def wave(x):
        return jnp.sum(jnp.sin(x) * jnp.cos(2 * x))

    x = jnp.linspace(0.0, 3.0, 50)
    assert set(KNOWN) <= set(QUICK_TO_COMPILE)
    assert jnp.allclose(jax.jit(wave, compiler_options=QUICK_TO_COMPILE)(x), wave(x), rtol=1e-12)
