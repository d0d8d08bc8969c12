"""Arguments and options that several commands share, and how a shell completes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fidelium.errors import FideliumError


def complete_where(incomplete: str) -> list[str]:
    """Study files, and folders, that a path may go on to."""
    folder = incomplete[: incomplete.rfind("/") + 1]
    try:
        there = sorted(Path(folder or ".").iterdir())
    except OSError:
        return []
    names = [f"{each.name}/" if each.is_dir() else each.name for each in there]
    texts = [folder + name for name in names if name.endswith(("/", ".yaml", ".yml"))]
    return [text for text in texts if text.startswith(incomplete)]


def complete_name(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the studies in the storage that was named before."""
    from fidelium.cli.locate import find
    from fidelium.storage import open_storage

    where = next(iter(context.args), None) or context.params.get("where")  # the option has no value yet: not parsed
    try:
        names = open_storage(find(str(where)).storage).names()
    except FideliumError:  # completing is no time to complain
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
        help="Path of a study.yaml, or URL of a storage like sqlite:///study.db.",
        autocompletion=complete_where,
        show_default=False,
    ),
]
File = Annotated[
    str,
    typer.Argument(metavar="STUDY", help="Path of a study.yaml.", autocompletion=complete_where, show_default=False),
]
Name = Annotated[
    str | None,
    typer.Option(help="Which study of a storage, if it has several.", autocompletion=complete_name, show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
