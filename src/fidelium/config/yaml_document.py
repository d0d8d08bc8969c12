"""YAML documents with line numbers: plain data for validation, and the line of every key for error messages.

Scalars follow YAML 1.2: 1e11 is a number, `no` and `off` are text, only true and false are booleans. Quoted scalars are
always text. Duplicate keys and tags are errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fidelium.errors import ConfigError, FideliumError

KeyPath = Sequence[str | int]
"""The keys and list positions that lead to a value."""

_CONSTANTS = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "false": False,
    ".inf": float("inf"),
    "-.inf": -float("inf"),
}
_INTEGER = re.compile(r"[-+]?\d+")
_FLOAT = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Document:
    """A YAML file.

    Args:
        path: the path of the file.
        root: the parsed content, with line numbers.
    """

    path: Path
    root: yaml.Node

    @property
    def data(self) -> Any:
        """The content as dicts, lists and scalars.

        Raises:
            ConfigError: if a key is duplicate or not text, or there is a tag.
        """
        return self._to_python(self.root, (), ())

    def error_at(self, key_path: KeyPath, message: str) -> ConfigError:
        """The error for the value at `key_path`, with file, line and key."""
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key_path).lstrip(".")
        return ConfigError(f"{self.path}:{self.line(key_path)}: {f'{key}: ' if key else ''}{message}")

    @contextmanager
    def errors_at(self, *key_path: str | int) -> Iterator[None]:
        """Add file, line and key to every `FideliumError` raised inside, unless it has them already."""
        try:
            yield
        except ConfigError:
            raise
        except FideliumError as error:
            raise self.error_at(key_path, str(error)) from None

    def line(self, key_path: KeyPath) -> int:
        """The line of a key, from 1; if the key does not exist, that of its closest existing parent."""
        node, line = self.root, self.root.start_mark.line
        for part in key_path:
            found = _child(node, part)
            if found is None:
                break
            line, node = found
        return line + 1

    def _to_python(self, node: yaml.Node, key_path: tuple[str | int, ...], above: tuple[yaml.Node, ...]) -> Any:
        if any(node is other for other in above):
            raise self.error_at(key_path, "an alias must not contain itself")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key_path, (*above, node))
        if isinstance(node, yaml.SequenceNode):
            return [self._to_python(item, (*key_path, i), (*above, node)) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        if node.tag != yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG:
            raise self.error_at(key_path, f"YAML tags such as {node.tag!r} are not supported; remove it")
        return parse_scalar(node.value) if node.style is None else node.value

    def _mapping(self, node: yaml.MappingNode, key_path: tuple[str | int, ...], above: tuple[yaml.Node, ...]) -> Any:
        content: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"{self.path}:{line}: a key must be text, got a list or a mapping")
            if key.value in content:
                raise ConfigError(f"{self.path}:{line}: {key.value}: duplicate key; remove one")
            content[key.value] = self._to_python(value, (*key_path, key.value), above)
        return content


def read_document(path: Path) -> Document:
    """Read a YAML file.

    Raises:
        ConfigError: if it cannot be read, is not YAML, or is empty.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; `fidelium init` creates one") from None
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 text") from None
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}:{_line_of(error, text)}: not YAML: {_problem(error)}") from None
    except RecursionError:
        raise ConfigError(f"{path}:1: not a study file: nested too deeply") from None
    if root is None:
        raise ConfigError(f"{path}:1: the file is empty; `fidelium init` creates one")
    return Document(path, root)


def parse_scalar(text: str) -> Any:
    """The value of an unquoted scalar: None, a boolean, a number, or text."""
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) < 400 else float(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def parse_value(text: str) -> Any:
    """A value as it would stand in a study file: a word, a number, `[1, 2]` or `{a: 1}`.

    Raises:
        ConfigError: if it is not YAML.
    """
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"not a YAML value: {text!r}: {_problem(error)}") from None
    return None if root is None else Document(Path("value"), root).data


def _child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    """The line and the value of a key or a list position."""
    if isinstance(node, yaml.MappingNode):
        found = [(key.start_mark.line, value) for key, value in node.value if key.value == str(part)]
        return found[0] if found else None
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line, node.value[part]
    return None


def _line_of(error: yaml.YAMLError, text: str) -> int:
    if isinstance(error, yaml.reader.ReaderError):
        return text.count("\n", 0, error.position) + 1
    mark = error.problem_mark or error.context_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return mark.line + 1 if mark else 1


def _problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        return " ".join(part for part in (error.context, error.problem) if part)
    return " ".join(str(error).split())
