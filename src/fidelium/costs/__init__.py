"""Costs of runs: declared ones that depend on the design, and what is learned from measured ones. No JAX here."""
