"""The study's file, `study.yaml`: what it may say, what it means, and one to start from.

The names below are imported when first used: a glance at a file must not wait for the checks of all its keys.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fidelium.config.glancing import Glance, glance
    from fidelium.config.loading import load
    from fidelium.config.model import schema
    from fidelium.config.starter import starter, starter_files
    from fidelium.config.study_file import Failures, StudyFile

__all__ = ["Failures", "Glance", "StudyFile", "glance", "load", "schema", "starter", "starter_files"]

_HOMES = {
    "Failures": "study_file",
    "Glance": "glancing",
    "StudyFile": "study_file",
    "glance": "glancing",
    "load": "loading",
    "schema": "model",
    "starter": "starter",
    "starter_files": "starter",
}


if not TYPE_CHECKING:  # or type checkers would believe in every name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'fidelium.config' has no attribute {name!r}")
        value = getattr(import_module(f"fidelium.config.{_HOMES[name]}"), name)
        globals()[name] = value  # the next access does not come here
        return value
