"""Gaussian processes: one exact posterior, and the covariances between fidelities that make the different methods."""
