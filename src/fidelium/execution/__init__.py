"""Running evaluations: Python functions and external programs, in this process, in local processes or on a cluster."""
