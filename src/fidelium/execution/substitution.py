"""Substitution of values into arguments, environment variables and input decks.

`{name}` in an argument or a variable is replaced by a value; `{{` and `}}` are literal braces. Strings are inserted
unchanged, other values as JSON. The result is not expanded again, so braces, quotes and line ends in a value have no
special meaning.

Input decks are Jinja templates (`templates.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from fidelium.errors import EvaluationError, SettingError

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
        SettingError: if a name is unknown.
        EvaluationError: if the result contains a NUL.
    """
    check_placeholders(pattern, values)
    text = _TOKENS.sub(lambda token: token[0][0] if token[1] is None else to_text(values[token[1]]), pattern)
    if "\0" in text:
        raise EvaluationError(
            f"{text!r} contains a NUL character, which arguments and variables cannot hold; use query.json"
        )
    return text
