"""Input decks from Jinja templates, strictly: a name that is not known is an error with template, line and name.

A template sees every parameter by its name, all of them as `params` (for names such as "young's modulus"), and the
names that fidelium gives (`fidelity`, `number`, ...). Nothing is escaped; true, false and null are written as in JSON.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fidelium.errors import SettingError
from fidelium.execution.values import as_text

if TYPE_CHECKING:  # Jinja is loaded when a template is used: most studies have none
    from jinja2 import Environment


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
