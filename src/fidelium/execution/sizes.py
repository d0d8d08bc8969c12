"""How many evaluations an executor runs at once. The protocol of executors has no word for it, so this looks inside."""

from __future__ import annotations

from concurrent.futures import Executor


def workers_of(executor: Executor) -> int | None:
    """The number of workers of an executor of the standard library, of loky or of Dask; None if it does not say."""
    size = getattr(executor, "_max_workers", None)
    if size is None and (client := getattr(executor, "_client", None)) is not None:  # Dask's
        size = sum(client.ncores().values())
    return size if isinstance(size, int) and size > 0 else None
