"""Surrogates: models of the objective at all fidelities, behind the four capabilities of `surrogates.base`."""
