"""A cache of the architectures found for given data, in this process and as small files in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile

import platformdirs

from fidelium.history import Observations
from fidelium.numerics.backend import CACHE_VARIABLE
from fidelium.surrogates.stacked_dnn.architecture import StackArchitecture

_found: dict[str, StackArchitecture] = {}
"""Answers of this process: a cache of a pure function."""


def remembered(
    question: object, observations: Sequence[Observations], answer: Callable[[], StackArchitecture]
) -> StackArchitecture:
    """The answer to a question about these observations, computed the first time it is asked.

    A cache file that cannot be read or written is ignored.

    Args:
        question: a frozen record, whose `repr` holds everything the answer depends on besides the observations.
        observations: of each fidelity.
        answer: computes it.
    """
    name = _name(question, observations)
    if name not in _found:
        known = _read(name)
        _found[name] = known or answer()
        if known is None:
            _write(name, _found[name])
    return _found[name]


def _name(question: object, observations: Sequence[Observations]) -> str:
    digest = hashlib.sha256(f"{version('fidelium')} {question!r}".encode())
    for seen in observations:
        digest.update(f"{seen.unit_x.shape}".encode() + seen.digest)
    return digest.hexdigest()[:32]


def _folder() -> Path | None:
    """Beside the compiled functions; None if the user switched the cache off."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen == "":
        return None
    return Path(chosen or platformdirs.user_cache_dir("fidelium")) / "architectures"


def _read(name: str) -> StackArchitecture | None:
    folder = _folder()
    if folder is None:
        return None
    try:
        fields = json.loads((folder / f"{name}.json").read_text())
        return StackArchitecture(tuple(fields["depths"]), tuple(fields["widths"]), fields["learning_rate"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(name: str, architecture: StackArchitecture) -> None:
    folder = _folder()
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=folder, delete=False) as file:
            json.dump(asdict(architecture), file)
        Path(file.name).replace(folder / f"{name}.json")  # at once: another process sees all of it or nothing
    except OSError:
        return
