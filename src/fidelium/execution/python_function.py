"""The result rule of a user's Python function: `post.py:mass` or `module:mass`."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fidelium.errors import EvaluationError, SettingError, SetupError
from fidelium.execution.base import Measurement, parse_number
from fidelium.execution.reasons import described, is_interrupt
from fidelium.execution.result_rules import RESULT


@dataclass(frozen=True)
class PythonFunction:
    """A Python function that gets the trial's folder (a `Path`) and returns the value.

    It may also return the value and the cost, as a tuple or as `{"value": ..., "cost": ...}`, or `{"failed": "why"}`.

    Args:
        source: a file ending in .py, or the name of an importable module.
        function: the name of the function.
    """

    source: str
    function: str

    @classmethod
    def of(cls, text: str) -> PythonFunction:
        """The function given as `source:function`.

        Raises:
            SettingError: if the text has another form.
        """
        source, colon, function = text.rpartition(":")
        if not colon or not source or not function.isidentifier():
            raise SettingError(f"expected file.py:function or module:function, got {text!r}")
        return cls(source, function)

    @property
    def is_file(self) -> bool:
        """Whether the source is a file, not a module."""
        return self.source.endswith(".py")

    @property
    def file(self) -> str:
        return RESULT

    def check(self) -> None:
        """Look for the function without running any code of the source.

        Raises:
            SettingError: if the source does not exist, is not Python, or has no such function.
        """
        if not self.is_file:
            if not _is_module(self.source.partition(".")[0]):
                raise SettingError(f"there is no module {self.source!r}; install it, or name a file: file.py:function")
            return
        names = _names_in(Path(self.source))
        if names is not None and self.function not in names:
            near = get_close_matches(self.function, names, 1)
            listed = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(names)) or 'none'}"
            raise SettingError(f"no function {self.function!r} in {Path(self.source).name}; {listed}")

    def read(self, folder: Path) -> Measurement:
        function = self._load()
        try:
            result = function(folder)
            if isinstance(result, tuple) and len(result) == 2:
                value, cost = result
                return Measurement(
                    parse_number(f"the return value of {self.function}", value),
                    None if cost is None else parse_number(f"the cost returned by {self.function}", cost),
                )
            return Measurement.of(result, self.function)
        except (EvaluationError, SetupError):
            raise
        except BaseException as error:  # user code may raise anything, also SystemExit
            if is_interrupt(error):
                raise
            raise EvaluationError(f"{self.source}:{self.function} failed: {described(error)}") from error

    def _load(self) -> Callable[[Path], Any]:
        """The function.

        Raises:
            SetupError: if there is none that can be called with a folder.
        """
        try:
            module = self._module()
        except BaseException as error:  # the module's own code may raise anything, also SystemExit
            if is_interrupt(error):
                raise
            raise SetupError(f"cannot load {self.source}: {described(error)}; correct it and run again") from error
        function = getattr(module, self.function, None)
        if function is None:
            raise SetupError(f"there is no function {self.function!r} in {self.source}; correct the result rule")
        try:
            inspect.signature(function).bind(Path())
        except TypeError as error:
            raise SetupError(
                f"{self.source}:{self.function} must be a function of one argument, the trial's folder: {error}"
            ) from None
        except ValueError:  # a builtin does not tell
            pass
        return function

    def _module(self) -> object:
        if not self.is_file:
            return importlib.import_module(self.source)
        name = f"fidelium_postprocess_{Path(self.source).stem}"
        spec = importlib.util.spec_from_file_location(name, self.source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look up their module there
        spec.loader.exec_module(module)
        return module


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _names_in(path: Path) -> set[str] | None:
    """The names that a file defines at its top level; None if they cannot be known without running it.

    Raises:
        SettingError: if it cannot be read, or is not Python.
    """
    try:
        tree = ast.parse(path.read_bytes(), path.name)
    except OSError as error:
        raise SettingError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SettingError(f"{path.name} is not valid Python: {error}") from None
    names = set(_top_level_names(tree.body))
    return None if {"*", "__getattr__"} & names else names


def _top_level_names(body: list[ast.stmt]) -> Iterator[str]:
    """What these statements may define, also inside `if`, `try`, `with` and loops."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
            continue
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.stmt):
                yield from _top_level_names([child])
            elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
                yield from _top_level_names(child.body)
