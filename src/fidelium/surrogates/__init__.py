"""Surrogates: models of the objective at all fidelities, behind the protocols of `surrogates.base`."""
