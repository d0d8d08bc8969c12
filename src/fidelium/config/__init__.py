"""The study's file, `study.yaml`: what it may say, what it means, and one to start from."""

from __future__ import annotations

from fidelium.config.loading import load
from fidelium.config.model import schema
from fidelium.config.starter import starter, starter_files
from fidelium.config.study_file import Failures, StudyFile

__all__ = ["Failures", "StudyFile", "load", "schema", "starter", "starter_files"]
