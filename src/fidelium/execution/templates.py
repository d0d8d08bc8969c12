"""Input decks: Jinja templates in strict mode, where an unknown name is an error with template, line and name.

A template can use every parameter by name, all of them as `params` (for names such as "young's modulus"), the reserved
names (`fidelity`, `number`, ...), the descriptors of a catalogue's item (`profile.area`), and the functions of
arithmetic in `FUNCTIONS`. Nothing is escaped; true, false and null are written as in JSON.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fidelium.errors import EvaluationError, SettingError, SetupError
from fidelium.execution.substitution import to_text

if TYPE_CHECKING:
    from jinja2 import Environment, nodes

FUNCTIONS: Mapping[str, Any] = {
    **{
        name: getattr(math, name)
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "radians", "degrees")
    },
    **{name: getattr(math, name) for name in ("sqrt", "exp", "log", "log10", "floor", "ceil", "pi")},
    "abs": abs,
    "min": min,
    "max": max,
}
"""Names of arithmetic in templates; a parameter of the same name wins."""


class Item(str):
    """An item of a catalogue: its name, with its descriptors as attributes, as in `{{ profile.area }}`."""

    def __new__(cls, name: str, descriptors: Mapping[str, float]) -> Item:
        item = str.__new__(cls, name)
        item.__dict__.update(descriptors)
        return item

    def __getattribute__(self, name: str) -> Any:
        own = object.__getattribute__(self, "__dict__")  # descriptors first: one may be called count or title
        return own[name] if name in own and not name.startswith("__") else object.__getattribute__(self, name)


def check_template(path: Path, known: Collection[str]) -> None:
    """Check that a template can be read and parsed, uses known names only and includes files that exist.

    Names that the template itself sets somewhere (`set`, `for`, `macro`, `import`) are known.

    Raises:
        SettingError: if not, with the line.
    """
    from jinja2 import meta, nodes

    environment = _environment(path)
    tree = _parse(environment, path)
    with _syntax_errors(path):  # a filter or test that does not exist
        undeclared = meta.find_undeclared_variables(tree)
    unknown = undeclared - {*known, *environment.globals, *_assigned(tree)}
    for name in tree.find_all(nodes.Name):
        if name.name in unknown:
            near = get_close_matches(name.name, known, 1)
            advice = f"did you mean {near[0]}?" if near else f"known names: {', '.join(sorted(known))}"
            raise SettingError(f"template {path.name}, line {name.lineno}: unknown name {name.name!r}; {advice}")
    for line, name in _included(tree):
        if not (path.parent / name).is_file():
            raise SettingError(f"template {path.name}, line {line}: {name!r} not found in {str(path.parent)!r}")
        _parse(environment, path.parent / name)


def render(path: Path, values: Mapping[str, Any]) -> str:
    """The template rendered with these values.

    Raises:
        SetupError: if the template cannot be read, or is wrong.
        EvaluationError: if its arithmetic fails with these values.
    """
    from jinja2 import TemplateNotFound, TemplateSyntaxError

    try:
        return _environment(path).get_template(path.name).render(values)
    except TemplateSyntaxError as error:
        raise SetupError(f"template {error.name}, line {error.lineno}: {error.message}") from None
    except TemplateNotFound as error:
        raise SetupError(f"template {path.name}: {error.name!r} not found in {str(path.parent)!r}") from None
    except (ArithmeticError, ValueError) as error:
        message = f"template {path.name}{_error_line(path, error)}: {error}"
        raise (SetupError if isinstance(error, UnicodeError) else EvaluationError)(message) from None
    except Exception as error:  # noqa: BLE001  expressions in a template may raise anything
        raise SetupError(f"template {path.name}{_error_line(path, error)}: {error}") from None


def _environment(path: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(path.parent),  # for include and import
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        finalize=lambda value: to_text(value) if value is None or isinstance(value, bool) else value,
    )
    environment.globals.update(FUNCTIONS)
    return environment


def _parse(environment: Environment, path: Path) -> nodes.Template:
    """The tree of a template.

    Raises:
        SettingError: if it cannot be read or parsed, with the line.
    """
    with _syntax_errors(path):
        return environment.parse(_read(path), filename=str(path))


@contextmanager
def _syntax_errors(path: Path) -> Iterator[None]:
    from jinja2 import TemplateSyntaxError

    try:
        yield
    except TemplateSyntaxError as error:
        raise SettingError(f"template {path.name}, line {error.lineno}: {error.message}") from None
    except RecursionError:
        raise SettingError(f"template {path.name} is nested too deeply") from None


def _assigned(tree: nodes.Template) -> Iterator[str]:
    """The names that a template sets; whether they are set before they are used shows when it is rendered."""
    from jinja2 import nodes

    for name in tree.find_all(nodes.Name):
        if name.ctx in ("store", "param"):
            yield name.name
    for node in tree.find_all((nodes.Macro, nodes.Import, nodes.FromImport)):
        if isinstance(node, nodes.Macro):
            yield node.name
        elif isinstance(node, nodes.Import):
            yield node.target
        elif isinstance(node, nodes.FromImport):
            yield from (name if isinstance(name, str) else name[1] for name in node.names)


def _included(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    """The line and the name of every template that is needed, where it is written as one text."""
    from jinja2 import nodes

    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        optional = isinstance(node, nodes.Include) and node.ignore_missing
        if isinstance(node.template, nodes.Const) and isinstance(node.template.value, str) and not optional:
            yield node.lineno, node.template.value


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
