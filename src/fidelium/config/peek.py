"""A quick look at a study's file: where the study is, without checking the rest, for commands that only look at it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from fidelium.config.yaml_document import Document, read_document
from fidelium.execution.run_folder import safe_name


@dataclass(frozen=True)
class Peek:
    """What is needed to find a study.

    Args:
        name: what it is called.
        storage: the URL of its storage.
        budget: what it may spend in total.
    """

    name: str
    storage: str
    budget: float


def peek_study_file(path: Path) -> Peek | None:
    """Where the study of a file is; None if the file must be loaded and checked to find out what is wrong.

    Raises:
        ConfigError: if the file cannot be read or is no YAML, or the storage is no URL.
    """
    document = read_document(path)
    data = document.data
    if not isinstance(data, dict):
        return None
    name, storage, budget = (data.get(key) for key in ("name", "storage", "budget"))
    if not isinstance(name, str) or not name or not isinstance(storage, str | None):
        return None
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget < math.inf:
        return None
    return Peek(name, storage_url(document, name, storage), float(budget))


def storage_url(document: Document, name: str, storage: str | None) -> str:
    """The storage's URL, an SQLite file's path made whole.

    Raises:
        ConfigError: if it is no URL, or cannot be one.
    """
    url = storage or f"sqlite:///{safe_name(name)}.db"
    scheme, mark, rest = url.partition("://")
    if not mark or not scheme:
        raise document.error_at(("storage",), f"expected a URL such as sqlite:///{url}, got {url!r}")
    file = rest.removeprefix("/")
    if not scheme.startswith("sqlite") or file in ("", ":memory:"):
        return url
    folder = document.path.absolute().parent
    if "?" in str(folder):
        raise document.error_at(("storage",), f"no URL can say a path with a question mark; move {str(folder)!r}")
    return f"{scheme}:///{folder / file}"
