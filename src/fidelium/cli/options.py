"""Arguments and options shared by several commands, with their shell completion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fidelium.errors import FideliumError, SettingError, SpaceError

if TYPE_CHECKING:
    from fidelium.space import SearchSpace


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
    from fidelium.cli.locate import find, open_storage_of

    # the arguments are not parsed yet, since the option has no value
    where = next(iter(context.args), None) or context.params.get("where")
    try:
        with open_storage_of(find(str(where))) as storage:
            names = storage.names()
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
StrategyName = Annotated[
    str | None,
    typer.Option("--strategy", help="How to choose what to evaluate.", show_default="the study's", metavar="NAME"),
]
StrategyOption = Annotated[
    list[str] | None,
    typer.Option("--option", help="An option of the strategy, as name=value; may be repeated.", metavar="NAME=VALUE"),
]


Fix = Annotated[
    list[str] | None,
    typer.Option(
        "--fix", help="Hold a parameter, as name=value; may be repeated.", metavar="NAME=VALUE", show_default=False
    ),
]


def fixed_values(space: SearchSpace, texts: Sequence[str] | None) -> dict[str, Any]:
    """The parameters that are held, from the strings `name=value` of --fix.

    Raises:
        SettingError: if a string has another form, or a parameter is given twice.
        SpaceError: if a parameter is unknown, or its value is not valid.
    """
    from fidelium.cli.table_io import parse_value_of

    values: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or name in values:
            raise SettingError(f"--fix must look like name=value, each name once, got {text!r}")
        if name not in space.parameters:
            raise SpaceError(f"--fix: unknown parameter {name!r}; this space has {list(space.names)}")
        values[name] = parse_value_of(space.parameters[name], name, value)
    return values


def named_values(texts: Sequence[str], option: str, parse: Callable[[str], Any]) -> dict[str, Any]:
    """Values by name, from the strings `name=value` of an option that may be repeated.

    Args:
        texts: the strings.
        option: the option, for the message.
        parse: the value from its text; raises ValueError if it cannot be parsed.

    Raises:
        SettingError: if a string has another form.
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            if not name.strip() or not equals:
                raise ValueError
            values[name.strip()] = parse(value)
        except ValueError:
            kind = "a number" if parse is float else "a value"
            raise SettingError(f"{option} must look like name=value with {kind}, got {text!r}") from None
    return values


def strategy_options(texts: Sequence[str]) -> dict[str, Any]:
    """Options of a strategy from `name=value`; values are read as in a study file.

    Raises:
        SettingError: if a string has another form.
    """
    from fidelium.config.yaml_document import parse_value

    return named_values(texts, "--option", parse_value)
