"""Folders that commands write to."""

from __future__ import annotations

from pathlib import Path

from fidelium.errors import SettingError


def make_folder(path: Path) -> Path:
    """The folder, made if it is not there.

    Raises:
        SettingError: if it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"cannot make the folder {str(path)!r}: {error.strerror}") from None
    return path
