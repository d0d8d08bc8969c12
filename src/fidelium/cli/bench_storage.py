"""`fidelium bench storage`: how many asks and tells per second a storage takes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer


def storage(
    url: Annotated[
        list[str] | None, typer.Argument(help="Storages to measure; memory and a new SQLite file if none is given.")
    ] = None,
    processes: Annotated[list[int] | None, typer.Option(help="Processes at once; may be repeated.", min=1)] = None,
    trials: Annotated[int, typer.Option(help="Trials in all.", min=1)] = 400,
) -> None:
    """Time what a storage does for an ask and for a tell, without choosing or evaluating anything.

    Example: fidelium bench storage sqlite:///night.db postgresql://me@server/studies --processes 1 --processes 4
    """
    from rich.console import Console
    from rich.table import Table

    from fidelium.experiments.storage_speed import measure

    table = Table("storage", "processes", "asks / s", "tells / s", "load all, s", title=f"{trials} trials")
    with _places(url) as places:
        for name, place in places.items():
            for count in processes or [1, 4]:
                with Console(stderr=True).status(f"measuring {name} with {count} processes"):
                    speed = measure(place, count, trials)
                rates = (f"{speed.asks_per_second:,.0f}", f"{speed.tells_per_second:,.0f}", f"{speed.load_seconds:.3f}")
                table.add_row(name, str(count), *rates)
    Console().print(table)


@contextmanager
def _places(urls: list[str] | None) -> Iterator[dict[str, str | None]]:
    """What to call each storage, and its URL, None for memory."""
    if urls:
        from fidelium.storage.sql.address import parse_address

        yield {str(parse_address(url)): url for url in urls}  # without passwords
        return
    with tempfile.TemporaryDirectory(prefix="fidelium-") as folder:
        yield {"memory": None, "SQLite": f"sqlite:///{Path(folder) / 'speed.db'}"}
