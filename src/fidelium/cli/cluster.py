"""`--dask`: where evaluations run if they are to run on a cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from fidelium.errors import SettingError

PATIENCE = 10
"""Seconds to wait for the scheduler, and for its first worker."""


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """An executor on a Dask cluster that has workers; it knows how many.

    Args:
        address: of the scheduler, as `tcp://host:8786`.

    Raises:
        SettingError: if Dask is not installed, the scheduler does not answer, or it has no workers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise SettingError("--dask needs the extra 'dask': pip install 'fidelium[dask]'") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said below, in a sentence
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise SettingError(
            f"no Dask scheduler answers at {address!r} ({why}); start one with: dask scheduler"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise SettingError(
                f"the Dask scheduler at {address!r} has no workers; start one with: dask worker {address}"
            ) from None
        yield client.get_executor()
