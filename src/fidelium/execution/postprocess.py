"""A value read by a small Python function of the user: `post.py:mass` or `package.module:mass`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fidelium.errors import EvaluationError, SettingError
from fidelium.execution.measured import Measured
from fidelium.execution.reading import finite
from fidelium.execution.results import RESULT


@dataclass(frozen=True)
class PythonFunction:
    """Calls a function with the trial's folder (a `Path`); it returns the value, or the value and the measured cost.

    Args:
        source: a file that ends in .py, or a module that can be imported.
        function: the function's name.
    """

    source: str
    function: str

    @classmethod
    def of(cls, text: str) -> PythonFunction:
        """The function that `source:function` names.

        Raises:
            SettingError: if the text is something else.
        """
        source, colon, function = text.rpartition(":")
        if not colon or not source or not function.isidentifier():
            raise SettingError(f"a Python function is named file.py:function or module:function, got {text!r}")
        return cls(source, function)

    @property
    def is_file(self) -> bool:
        """Whether the function is in a file, not in a module that can be imported."""
        return self.source.endswith(".py")

    @property
    def file(self) -> str:
        return RESULT

    def read(self, folder: Path) -> Measured:
        try:
            answer = self._load()(folder)
        except Exception as error:  # the user's code: whatever it raises is the reason of a failed trial
            raise EvaluationError(f"{self.source}:{self.function} failed: {_place(error)}") from error
        value, cost = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        name = f"what {self.function} returned"
        return Measured(_number(name, value), None if cost is None else _number(f"{name} as cost", cost))

    def _load(self) -> Callable[[Path], Any]:
        if not self.is_file:
            return getattr(importlib.import_module(self.source), self.function)
        name = f"fidelium_postprocess_{Path(self.source).stem}"
        spec = importlib.util.spec_from_file_location(name, self.source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look for their module there
        spec.loader.exec_module(module)
        return getattr(module, self.function)


def _number(name: str, value: Any) -> float:
    """A number, also one of NumPy."""
    return finite(name, value.item() if getattr(value, "shape", None) == () else value)


def _place(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
