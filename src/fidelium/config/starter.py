"""A study to start from: a commented file, and a small simulator that it runs."""

from __future__ import annotations

import json
from importlib import resources

from fidelium.config.model import schema

STUDY, SIMULATOR, SCHEMA = "study.yaml", "simulator.py", "study.schema.json"


def starter() -> str:
    """The commented `study.yaml` that `fidelium init` writes."""
    return starter_files()[STUDY]


def starter_files() -> dict[str, str]:
    """All files that `fidelium init` writes, by name: the study's file, its simulator, and the schema for editors."""
    shipped = resources.files("fidelium.config") / "shipped"
    texts = {name: (shipped / name).read_text(encoding="utf-8") for name in (STUDY, SIMULATOR)}
    return {**texts, SCHEMA: json.dumps(schema(), indent=2) + "\n"}
