"""The study file, `study.yaml`: its keys, and how it is loaded.

The names below are imported when first used: a quick look at a file must not wait for the checks of all its keys.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fidelium.config.load import Failures, StudyFile, load_study_file
    from fidelium.config.peek import Peek, peek_study_file
    from fidelium.config.schema import study_schema

__all__ = ["Failures", "Peek", "StudyFile", "load_study_file", "peek_study_file", "study_schema"]

_HOMES = {
    "Failures": "load",
    "Peek": "peek",
    "StudyFile": "load",
    "load_study_file": "load",
    "peek_study_file": "peek",
    "study_schema": "schema",
}


if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'fidelium.config' has no attribute {name!r}")
        value = getattr(import_module(f"fidelium.config.{_HOMES[name]}"), name)
        globals()[name] = value  # the next access does not come here
        return value
