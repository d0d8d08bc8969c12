"""YAML that remembers its lines: plain data for the checks, and the line of every key for the messages.

Plain scalars are read as YAML 1.2 does: 1e11 is a number, `no` and `off` are words, only true and false are truth
values. Text between quotes is always text. A key that stands twice is an error, and so are tags.
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

Place = Sequence[str | int]
"""The keys and positions that lead to a value."""

_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False, ".inf": float("inf"), "-.inf": -float("inf")}
_INTEGER = re.compile(r"[-+]?\d+")
_FLOAT = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Document:
    """A YAML file.

    Args:
        path: where it is.
        root: its content with lines.
    """

    path: Path
    root: yaml.Node

    @property
    def data(self) -> Any:
        """The content as dicts, lists and scalars.

        Raises:
            ConfigError: if a key stands twice or is no text, or there is a tag.
        """
        return self._plain(self.root, (), ())

    def mistake(self, place: Place, message: str) -> ConfigError:
        """The error to raise for what stands, or should stand, at a place."""
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
        return ConfigError(f"{self.path}:{self.line(place)}: {f'{key}: ' if key else ''}{message}")

    @contextmanager
    def blamed(self, *place: str | int) -> Iterator[None]:
        """Turn an error of fidelium's into one with file, line and key, unless it has them already."""
        try:
            yield
        except ConfigError:
            raise
        except FideliumError as error:
            raise self.mistake(place, str(error)) from None

    def line(self, place: Place) -> int:
        """The line of a place, from 1; of the nearest thing around it if there is nothing."""
        node, line = self.root, self.root.start_mark.line
        for part in place:
            found = _child(node, part)
            if found is None:
                break
            line, node = found
        return line + 1

    def _plain(self, node: yaml.Node, place: tuple[str | int, ...], above: tuple[yaml.Node, ...]) -> Any:
        if any(node is other for other in above):
            raise self.mistake(place, "an alias must not contain itself")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place, (*above, node))
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*place, i), (*above, node)) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        if node.tag != yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG:
            raise self.mistake(place, f"tags such as {node.tag!r} are not used here; remove it")
        return scalar(node.value) if node.style is None else node.value

    def _mapping(self, node: yaml.MappingNode, place: tuple[str | int, ...], above: tuple[yaml.Node, ...]) -> Any:
        content: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"{self.path}:{line}: a key must be a word, got a list or a mapping")
            if key.value in content:
                raise ConfigError(f"{self.path}:{line}: {key.value}: this key stands twice; remove one")
            content[key.value] = self._plain(value, (*place, key.value), above)
        return content


def read_document(path: Path) -> Document:
    """The YAML file at a path.

    Raises:
        ConfigError: if it cannot be read, is no YAML, or is empty.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; `fidelium init` writes one to start from") from None
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 text") from None
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}:{_line_of(error, text)}: not YAML: {_problem(error)}") from None
    except RecursionError:
        raise ConfigError(f"{path}:1: not the YAML of a study: it is nested too deeply") from None
    if root is None:
        raise ConfigError(f"{path}:1: the file is empty; `fidelium init` writes one to start from")
    return Document(path, root)


def scalar(text: str) -> Any:
    """What a word without quotes means: nothing, a truth value, a number, or text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
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
    """The line and the node of a key or a position inside a node."""
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
