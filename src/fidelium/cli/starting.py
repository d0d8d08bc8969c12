"""`fidelium init` and `fidelium schema`: a study to start from, and what its file may say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fidelium.cli.files import make_folder
from fidelium.cli.words import command, print_json
from fidelium.errors import SettingError


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write to; it is made if it is not there.")] = Path("."),
) -> None:
    """Write a commented study.yaml with a small simulator, to start from.

    Nothing that is there is overwritten.
    """
    from fidelium.config import starter_files

    files = {make_folder(folder) / name: text for name, text in starter_files().items()}
    if there := [str(path) for path in files if path.exists()]:
        raise SettingError(f"{', '.join(map(repr, there))} would be overwritten; choose another folder")
    for path, text in files.items():
        _write(path, text)
        typer.echo(f"wrote {path}")
    typer.echo(f"run it with: {command('run', str(folder / 'study.yaml'))}")


def schema() -> None:
    """Print the JSON schema of study.yaml, by which editors check and complete it."""
    from fidelium.config import schema as of_study

    print_json(of_study())


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise SettingError(f"cannot write {str(path)!r}: {error.strerror}") from None
