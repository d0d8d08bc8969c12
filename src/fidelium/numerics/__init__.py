"""The numerical ground: normal distribution, quadrature, linear algebra, padding, scaling, L-BFGS. JAX starts here.

Importing it puts JAX into double precision and points its compilation cache at the user's cache folder.
"""

from fidelium.numerics.backend import configure

configure()
