"""The numerical ground: normal distribution, quadrature, linear algebra, padding, scaling, L-BFGS.

JAX starts here; what `backend.jax_session` says holds for all of it.
"""
