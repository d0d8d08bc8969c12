"""How fidelium uses JAX: what the installed XLA does not know is left out."""

from __future__ import annotations

import jax.numpy as jnp

from fidelium.numerics.backend import accepted_options, quick_jit, quick_options

KNOWN = {"xla_backend_optimization_level": 0}


def test_options_that_xla_does_not_know_are_left_out():
    assert accepted_options(KNOWN | {"xla_of_another_year": True}) == KNOWN
    assert accepted_options({"xla_of_another_year": True}) == {}
    assert accepted_options(KNOWN) == KNOWN


def test_the_options_are_taken_and_change_no_result():
    def wave(x):
        return jnp.sum(jnp.sin(x) * jnp.cos(2 * x))

    x = jnp.linspace(0.0, 3.0, 50)
    assert set(KNOWN) <= set(quick_options())
    for level in (0, 1):
        assert quick_options(level)["xla_backend_optimization_level"] == level
        assert jnp.allclose(quick_jit(wave, level=level)(x), wave(x), rtol=1e-12)
