"""`fidelium init` and `fidelium schema`: a study to start from, and the JSON schema of its file."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from fidelium.cli.output import command, make_folder, print_json
from fidelium.errors import SettingError

_STUDY, _SIMULATOR, _SCHEMA = "study.yaml", "simulator.py", "study.schema.json"


def init(
    folder: Annotated[Path, typer.Argument(help="Folder for the files; it is created if it does not exist.")] = Path(
        "."
    ),
) -> None:
    """Write a commented study.yaml with a small simulator, to start from.

    Existing files are not overwritten.
    """
    files = {make_folder(folder) / name: text for name, text in _starter_files().items()}
    if existing := [str(path) for path in files if path.exists()]:
        raise SettingError(f"{', '.join(map(repr, existing))} would be overwritten; choose another folder")
    for path, text in files.items():
        _write(path, text)
        typer.echo(f"wrote {path}")
    typer.echo(f"run it with: {command('run', str(folder / _STUDY))}")


def schema() -> None:
    """Print the JSON schema of study.yaml, for validation and completion in editors."""
    from fidelium.config.schema import study_schema

    print_json(study_schema())


def _starter_files() -> dict[str, str]:
    """The files that `fidelium init` writes, by name: the study, its simulator, and the schema for editors."""
    from fidelium.config.schema import study_schema

    shipped = resources.files("fidelium.config") / "shipped"
    texts = {name: (shipped / name).read_text(encoding="utf-8") for name in (_STUDY, _SIMULATOR)}
    return {**texts, _SCHEMA: json.dumps(study_schema(), indent=2) + "\n"}


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise SettingError(f"cannot write {str(path)!r}: {error.strerror}") from None
