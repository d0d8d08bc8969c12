"""YAML documents with line numbers: plain data for validation, and the line of every key for error messages.

Scalars follow YAML 1.2: 1e11 is a number, `no` and `off` are text, only true and false are booleans. Quoted scalars are
always text. Duplicate keys and tags are errors. So is what is too large for a study file, in bytes, in depth, or in
values once aliases are expanded: a few lines of aliases of aliases can stand for more values than fit into memory.
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

LARGEST = 1_000_000
"""Bytes of a study file at most; reading that many takes seconds."""

DEEPEST = 50
"""Levels of lists and mappings at most; study files have five."""

MOST_VALUES = 200_000
"""Values at most, each counted as often as aliases repeat it."""

MOST_KEYS = 2000
"""Keys of a mapping at most."""

LONGEST_INTEGER = 300
"""Digits of a whole number at most; one with more is read as a float, which may be infinite."""

LONGEST_MESSAGE = 1000
"""Characters of a message at most: what is wrong may be a value of a megabyte."""

_CONSTANTS = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "false": False,
    ".inf": float("inf"),
    "-.inf": -float("inf"),
}
_DEFAULT_TAGS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))
"""The tags of nodes without a tag."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
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
            ConfigError: if a key is duplicate or not text, there is a tag or text that cannot be stored, or there are
                too many values or levels.
        """
        return self._to_python(self.root, (), (), iter(range(MOST_VALUES)))

    def error_at(self, key_path: KeyPath, message: str) -> ConfigError:
        """The error for the value at `key_path`, with file, line and key."""
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key_path).lstrip(".")
        return self._error(self.line(key_path), key, message)

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

    def _error(self, line: int, key: str, message: str) -> ConfigError:
        key = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in _shortened(key))
        return ConfigError(f"{self.path}:{line}: {f'{key}: ' if key else ''}{_shortened(message)}")

    def _to_python(
        self, node: yaml.Node, key_path: tuple[str | int, ...], above: tuple[yaml.Node, ...], allowed: Iterator[int]
    ) -> Any:
        """A node's content.

        Args:
            node: the node.
            key_path: where it is.
            above: the lists and mappings it is in.
            allowed: has an item for each value that there may still be in the whole document.
        """
        if any(node is other for other in above):
            raise self.error_at(key_path, "an alias must not contain itself")
        if len(above) > DEEPEST:
            raise self._error(node.start_mark.line + 1, "", f"nested too deeply: more than {DEEPEST} levels")
        if next(allowed, None) is None:
            raise self._error(
                node.start_mark.line + 1, "", f"too many values: more than {MOST_VALUES}, with aliases expanded"
            )
        if node.tag not in _DEFAULT_TAGS:
            raise self.error_at(key_path, f"YAML tags such as {node.tag!r} are not supported; remove it")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key_path, (*above, node), allowed)
        if isinstance(node, yaml.SequenceNode):
            return [self._to_python(item, (*key_path, i), (*above, node), allowed) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        if _UNSTORABLE.search(node.value):
            raise self.error_at(key_path, f"text must not contain NUL or a lone surrogate, got {node.value!r}")
        return parse_scalar(node.value) if node.style is None else node.value

    def _mapping(
        self,
        node: yaml.MappingNode,
        key_path: tuple[str | int, ...],
        above: tuple[yaml.Node, ...],
        allowed: Iterator[int],
    ) -> Any:
        if len(node.value) > MOST_KEYS:
            raise self.error_at(key_path, f"too many keys: {len(node.value)}, expected at most {MOST_KEYS}")
        content: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(line, "", "a key must be text, got a list or a mapping")
            if key.tag not in _DEFAULT_TAGS or _UNSTORABLE.search(key.value):
                raise self._error(line, "", f"a key must be plain text without NUL or tags, got {key.value!r}")
            if key.value in content:
                raise self._error(line, key.value, "duplicate key; remove one")
            content[key.value] = self._to_python(value, (*key_path, key.value), above, allowed)
        return content


def read_document(path: Path) -> Document:
    """Read a YAML file.

    Raises:
        ConfigError: if it cannot be read, is not YAML, or is empty.
    """
    try:
        with path.open(encoding="utf-8-sig") as stream:
            text = stream.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; `fidelium init` creates one") from None
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 text") from None
    if len(text) > LARGEST:
        raise ConfigError(f"{path}:1: not a study file: it has more than {LARGEST} characters")
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}:{_line_of(error, text)}: not YAML: {_shortened(_problem(error))}") from None
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
        return int(text) if len(text) <= LONGEST_INTEGER else float(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def parse_value(text: str) -> Any:
    """Parse a value as in a study file: text, a number, `[1, 2]` or `{a: 1}`.

    Raises:
        ConfigError: if it is not YAML.
    """
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"not a YAML value: {_shortened(repr(text))}: {_problem(error)}") from None
    except RecursionError:
        raise ConfigError(f"nested too deeply: {_shortened(repr(text))}") from None
    return None if root is None else Document(Path("value"), root).data


def _child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    """The line and the value of a key or a list position."""
    if isinstance(node, yaml.MappingNode):
        found = [(key.start_mark.line, value) for key, value in node.value if key.value == str(part)]
        return found[0] if found else None
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line, node.value[part]
    return None


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}..."


def _line_of(error: yaml.YAMLError, text: str) -> int:
    if isinstance(error, yaml.reader.ReaderError):
        return text.count("\n", 0, error.position) + 1
    mark = error.problem_mark or error.context_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return mark.line + 1 if mark else 1


def _problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        return " ".join(part for part in (error.context, error.problem) if part)
    return " ".join(str(error).split())
