"""Arguments and options that several commands share, and how a shell completes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fidelium.errors import FideliumError, SettingError


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
    from fidelium.cli.locate import find, open_storage_of

    where = next(iter(context.args), None) or context.params.get("where")  # the option has no value yet: not parsed
    try:
        with open_storage_of(find(str(where))) as storage:
            names = storage.names()
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
StrategyName = Annotated[
    str | None,
    typer.Option("--strategy", help="How to choose what to evaluate.", show_default="the study's", metavar="NAME"),
]
StrategyOption = Annotated[
    list[str] | None,
    typer.Option("--option", help="An option of the strategy, as name=value; may be repeated.", metavar="NAME=VALUE"),
]


def strategy_options(texts: list[str]) -> dict[str, Any]:
    """Options of a strategy from `name=value`; values are read as in a study file.

    Raises:
        SettingError: if a text has another form.
    """
    from fidelium.config.yaml_document import parse_value

    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.strip() or not equals:
            raise SettingError(f"--option must look like name=value, got {text!r}")
        options[name.strip()] = parse_value(value)
    return options
