"""`fidelium init` and `fidelium schema`: a study to start from, and the JSON schema of its file."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from fidelium.cli.output import command, make_folder, print_json
from fidelium.errors import SettingError


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write to; it is made if it is not there.")] = Path("."),
) -> None:
    """Write a commented study.yaml with a small simulator, to start from.

    Nothing that is there is overwritten.
    """
    files = {make_folder(folder) / name: text for name, text in _starter_files().items()}
    if there := [str(path) for path in files if path.exists()]:
        raise SettingError(f"{', '.join(map(repr, there))} would be overwritten; choose another folder")
    for path, text in files.items():
        _write(path, text)
        typer.echo(f"wrote {path}")
    typer.echo(f"run it with: {command('run', str(folder / _STUDY))}")


def schema() -> None:
    """Print the JSON schema of study.yaml, by which editors check and complete it."""
    from fidelium.config import study_schema

    print_json(study_schema())


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise SettingError(f"cannot write {str(path)!r}: {error.strerror}") from None


_STUDY, _SIMULATOR, _SCHEMA = "study.yaml", "simulator.py", "study.schema.json"


def _starter_files() -> dict[str, str]:
    """All files that `fidelium init` writes, by name: the study's file, its simulator, and the schema for editors."""
    from fidelium.config import study_schema

    shipped = resources.files("fidelium.config") / "shipped"
    texts = {name: (shipped / name).read_text(encoding="utf-8") for name in (_STUDY, _SIMULATOR)}
    return {**texts, _SCHEMA: json.dumps(study_schema(), indent=2) + "\n"}
