"""Substitution of values into arguments, environment variables and input decks.

`{name}` in an argument or a variable is replaced by a value; `{{` and `}}` are literal braces. Strings are inserted
unchanged, other values as JSON. The result is not expanded again, so braces, quotes and line ends in a value have no
special meaning.

Input decks are Jinja templates in strict mode: an unknown name is an error with template, line and name. A template can
use every parameter by name, all of them as `params` (for names such as "young's modulus"), and the reserved names
(`fidelity`, `number`, ...). Nothing is escaped; true, false and null are written as in JSON.
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

RESERVED_NAMES = (
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
"""Names that fidelium sets, in addition to the parameters."""

_TOKENS = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def to_text(value: Any) -> str:
    """A string unchanged, anything else as JSON: true, null, 3, 0.1 (the shortest digits that round-trip)."""
    return value if isinstance(value, str) else json.dumps(value)


def placeholders(pattern: str) -> tuple[str, ...]:
    """The names between braces in a pattern.

    Raises:
        SettingError: if a brace is unmatched.
    """
    names = []
    for token in _TOKENS.finditer(pattern):
        if token[0] in ("{", "}"):
            raise SettingError(f"unmatched {token[0]!r} in {pattern!r}; write {{{{ and }}}} for literal braces")
        if token[1] is not None:
            names.append(token[1])
    return tuple(names)


def check_placeholders(pattern: str, known: Collection[str]) -> None:
    """Check that all names in a pattern are known.

    Raises:
        SettingError: if one is not, with the closest known name.
    """
    for name in placeholders(pattern):
        if name not in known:
            near = get_close_matches(name, known, 1)
            advice = f"did you mean {{{near[0]}}}?" if near else f"known names: {', '.join(sorted(known))}"
            raise SettingError(
                f"unknown name {{{name}}} in {pattern!r}; {advice} (write {{{{ and }}}} for literal braces)"
            )


def check_parameter_names(names: Collection[str]) -> None:
    """Check that no parameter has a reserved name.

    Raises:
        SettingError: if one has.
    """
    for name in names:
        if name in RESERVED_NAMES:
            raise SettingError(f"{name!r} is reserved: fidelium sets {{{name}}} itself; rename the parameter {name!r}")


def check_variable_name(name: str) -> None:
    """Check the name of an environment variable.

    Raises:
        SettingError: if it is not valid.
    """
    if not name or "=" in name or "\0" in name:
        raise SettingError(f"a variable's name must not be empty or contain = or NUL, got {name!r}")


def check_shell_command(line: str, known: Collection[str]) -> None:
    """Check that a shell command has no known name between braces: the shell could run the value as code.

    Raises:
        SettingError: if it has one, with the alternative.
    """
    for found in re.finditer(r"(?<!\$)\{([^{}]*)\}", line):
        if found[1] in known:
            raise SettingError(
                f"{found[0]} is not allowed in a shell command, where a value could run as code; "
                f'use a variable (environment: {{VALUE: "{found[0]}"}}, then "$VALUE"), or a list without shell: true'
            )


def escape(text: str) -> str:
    """A pattern that `fill` turns into this text."""
    return text.replace("{", "{{").replace("}", "}}")


def fill(pattern: str, values: Mapping[str, Any]) -> str:
    """The pattern with its names replaced by values.

    Raises:
        SettingError: if a name is unknown, or the result contains a NUL.
    """
    check_placeholders(pattern, values)
    text = _TOKENS.sub(lambda token: token[0][0] if token[1] is None else to_text(values[token[1]]), pattern)
    if "\0" in text:
        raise SettingError(
            f"{text!r} contains a NUL character, which arguments and variables cannot hold; use query.json"
        )
    return text


def check_template(path: Path, known: Collection[str]) -> None:
    """Check that a template can be read and parsed and uses known names only.

    Raises:
        SettingError: if not, with the line.
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
                f"known names: {', '.join(sorted(known))}"
            )


def render(path: Path, values: Mapping[str, Any]) -> str:
    """The template rendered with these values.

    Raises:
        SettingError: if the template cannot be read, or fails with these values.
    """
    from jinja2 import TemplateNotFound, TemplateSyntaxError

    try:
        return _environment(path).get_template(path.name).render(values)
    except TemplateSyntaxError as error:
        raise SettingError(f"template {error.name}, line {error.lineno}: {error.message}") from None
    except TemplateNotFound as error:
        raise SettingError(f"template {path.name}: {error.name!r} not found in {str(path.parent)!r}") from None
    except Exception as error:  # noqa: BLE001  expressions in a template may raise anything
        raise SettingError(f"template {path.name}{_error_line(path, error)}: {error}") from None


def _environment(path: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(path.parent),  # for include and import
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        finalize=lambda value: to_text(value) if value is None or isinstance(value, bool) else value,
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingError(f"cannot read the template {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingError(f"the template {str(path)!r} is not UTF-8 text") from None


def _error_line(path: Path, error: BaseException) -> str:
    """The line of the template that raised an error, if known."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""
