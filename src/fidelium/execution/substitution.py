"""Substitution of values into arguments, environment variables and input decks.

`{name}` in an argument or a variable is replaced by the value of that name; `{{` and `}}` stand for braces. A value
becomes text as in JSON, except that a string stays as it is. The text is never read again: braces, quotes and line ends
in a value have no meaning.

Input decks are Jinja templates, strictly: an unknown name is an error with template, line and name. A template sees
every parameter by its name, all of them as `params` (for names such as "young's modulus"), and the names that fidelium
gives (`fidelity`, `number`, ...). Nothing is escaped; true, false and null are written as in JSON.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fidelium.errors import SettingError

if TYPE_CHECKING:
    from jinja2 import Environment


GIVEN_NAMES = (
    "attempt",
    "cost",
    "fidelity",
    "folder",
    "here",
    "number",
    "params",
    "position",
    "python",
    "query",
    "result",
)
"""Names that fidelium gives a value to, besides the parameters."""

_PIECES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def as_text(value: Any) -> str:
    """A string as it is, anything else as in JSON: true, null, 3, 0.1 (the shortest digits that lead back)."""
    return value if isinstance(value, str) else json.dumps(value)


def names_in(pattern: str) -> tuple[str, ...]:
    """The names between braces.

    Raises:
        SettingError: if a brace is alone.
    """
    names = []
    for piece in _PIECES.finditer(pattern):
        if piece[0] in ("{", "}"):
            raise SettingError(f"a {piece[0]!r} is alone in {pattern!r}; write {{{{ and }}}} for braces")
        if piece[1] is not None:
            names.append(piece[1])
    return tuple(names)


def check_names(pattern: str, known: Collection[str]) -> None:
    """Refuse a pattern with an unknown name.

    Raises:
        SettingError: if there is one, with the nearest known name.
    """
    for name in names_in(pattern):
        if name not in known:
            near = get_close_matches(name, known, 1)
            advice = f"did you mean {{{near[0]}}}?" if near else f"known are {', '.join(sorted(known))}"
            raise SettingError(f"unknown name {{{name}}} in {pattern!r}; {advice} (write {{{{ and }}}} for braces)")


def check_parameters(names: Collection[str]) -> None:
    """Refuse a parameter that has a name which fidelium itself gives a value to.

    Raises:
        SettingError: if there is one.
    """
    for name in names:
        if name in GIVEN_NAMES:
            raise SettingError(f"{{{name}}} is already something that fidelium gives; rename the parameter {name!r}")


def check_variable(name: str) -> None:
    """Refuse a name that no environment variable can have.

    Raises:
        SettingError: if it is one.
    """
    if not name or "=" in name or "\0" in name:
        raise SettingError(f"a variable's name is not empty and has no = in it, got {name!r}")


def check_shell(line: str, known: Collection[str]) -> None:
    """Refuse a known name between braces in a shell's line: there, a value could become code.

    Raises:
        SettingError: if there is one, with what to do.
    """
    for found in re.finditer(r"(?<!\$)\{([^{}]*)\}", line):
        if found[1] in known:
            raise SettingError(
                f"{found[0]} cannot stand in a shell's command, where a value could become code; "
                f'use a variable (environment: {{VALUE: "{found[0]}"}}, then "$VALUE"), or a list without shell: true'
            )


def escaped(text: str) -> str:
    """A pattern that stands for the text itself."""
    return text.replace("{", "{{").replace("}", "}}")


def fill(pattern: str, values: Mapping[str, Any]) -> str:
    """The pattern with the values in their places.

    Raises:
        SettingError: if a name is unknown, or the text holds a NUL, which no argument or variable can.
    """
    check_names(pattern, values)
    text = _PIECES.sub(lambda piece: piece[0][0] if piece[1] is None else as_text(values[piece[1]]), pattern)
    if "\0" in text:
        raise SettingError(f"{text!r} holds a NUL character, which no argument or variable can; use query.json")
    return text


def check_template(path: Path, known: Collection[str]) -> None:
    """Refuse a template that cannot be read or parsed, or that uses a name that is not known.

    Raises:
        SettingError: if so; the message says where.
    """
    from jinja2 import TemplateSyntaxError, meta, nodes

    environment = _environment(path)
    try:
        tree = environment.parse(_read(path), filename=str(path))
    except TemplateSyntaxError as error:
        raise SettingError(f"template {path.name}, line {error.lineno}: {error.message}") from None
    unknown = meta.find_undeclared_variables(tree) - {*known, *environment.globals}
    for name in tree.find_all(nodes.Name):
        if name.name in unknown:
            raise SettingError(
                f"template {path.name}, line {name.lineno}: unknown name {name.name!r}; "
                f"known are {', '.join(sorted(known))}"
            )


def render(path: Path, values: Mapping[str, Any]) -> str:
    """The template's text with the values in their places.

    Raises:
        SettingError: if the template cannot be read, or fails with these values.
    """
    from jinja2 import TemplateNotFound, TemplateSyntaxError

    try:
        return _environment(path).get_template(path.name).render(values)
    except TemplateSyntaxError as error:
        raise SettingError(f"template {error.name}, line {error.lineno}: {error.message}") from None
    except TemplateNotFound as error:
        raise SettingError(f"template {path.name}: {error.name!r} is not in {str(path.parent)!r}") from None
    except Exception as error:  # noqa: BLE001  a template computes, so it may raise anything
        raise SettingError(f"template {path.name}{_line(path, error)}: {error}") from None


def _environment(path: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(path.parent),  # for include and import
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        finalize=lambda value: as_text(value) if value is None or isinstance(value, bool) else value,
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingError(f"cannot read the template {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingError(f"the template {str(path)!r} is not UTF-8 text") from None


def _line(path: Path, error: BaseException) -> str:
    """Where in the template an error came from, as far as Jinja tells."""
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""
