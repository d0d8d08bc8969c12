"""Arguments and options shared by several commands, with their shell completion."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fidelium.errors import FideliumError


def complete_study(incomplete: str) -> list[str]:
    """Study files and folders whose path starts with `incomplete`."""
    folder = incomplete[: incomplete.rfind("/") + 1]
    try:
        entries = sorted(Path(folder or ".").iterdir())
    except OSError:
        return []
    names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries]
    paths = [folder + name for name in names if name.endswith(("/", ".yaml", ".yml"))]
    return [path for path in paths if path.startswith(incomplete)]


def complete_name(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the studies in the storage given before."""
    from fidelium.cli.locate import find
    from fidelium.storage import open_storage

    where = next(iter(context.args), None) or context.params.get(
        "where"
    )  # not parsed yet, since the option has no value
    try:
        names = open_storage(find(str(where)).storage).names()
    except FideliumError:  # completion shows no errors
        return []
    return [name for name in names if name.startswith(incomplete)]


def complete_problem(incomplete: str) -> list[str]:
    """Names of built-in problems."""
    from fidelium import problems

    return [name for name in problems.names() if name.startswith(incomplete)]


Where = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="Path of a study.yaml, or URL of a storage such as sqlite:///study.db.",
        autocompletion=complete_study,
        show_default=False,
    ),
]
File = Annotated[
    str,
    typer.Argument(metavar="STUDY", help="Path of a study.yaml.", autocompletion=complete_study, show_default=False),
]
Name = Annotated[
    str | None,
    typer.Option(
        help="Name of the study, if the storage has several.", autocompletion=complete_name, show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
