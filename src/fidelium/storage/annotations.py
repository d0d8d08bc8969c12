"""What a person may write on a trial: a note, tags, and a priority among queued trials."""

from __future__ import annotations

import re

from fidelium.errors import SettingError
from fidelium.storage.serialise import LONGEST_REASON, bounded_reason

MOST = 1_000_000
"""The largest priority, and minus the smallest one."""

LONGEST_TAG = 40
"""Characters of a tag at most."""

_TAG = re.compile(r"[^\s,;\"'`\\]+")
_WHOLE = re.compile(r"\s*[-+]?[0-9]{1,20}\s*")


def checked_note(note: object) -> str | None:
    """A note as any storage keeps it, without blanks around it; None if nothing is left.

    Raises:
        SettingError: if it is not a text, or too long.
    """
    if note is not None and not isinstance(note, str):
        raise SettingError(f"a note must be a text, got {note!r}")
    text = (note or "").strip()
    if len(text) > LONGEST_REASON:
        raise SettingError(f"a note has at most {LONGEST_REASON} characters, got {len(text)}: {text[:40]!r}...")
    return bounded_reason(text) or None


def checked_tag(tag: object) -> str:
    """A tag as any storage keeps it.

    Raises:
        SettingError: if it is not a short word.
    """
    word = tag.strip() if isinstance(tag, str) else ""
    if not _TAG.fullmatch(word) or len(word) > LONGEST_TAG or not word.isprintable():
        shown = repr(tag if not isinstance(tag, str) or len(tag) <= 2 * LONGEST_TAG else f"{tag[:LONGEST_TAG]}...")
        raise SettingError(
            f"a tag must be one word of at most {LONGEST_TAG} characters, without commas or quotes, got {shown}"
        )
    return word


def checked_priority(priority: object) -> int:
    """A priority.

    Raises:
        SettingError: if it is not a whole number in the range that every storage keeps.
    """
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > MOST:
        raise SettingError(f"a priority must be a whole number from -{MOST} to {MOST}, got {priority!r}")
    return priority


def parsed_priority(text: str) -> int:
    """A priority written in digits.

    Raises:
        SettingError: if it is something else.
    """
    if not _WHOLE.fullmatch(text):
        raise SettingError(f"a priority must be a whole number from -{MOST} to {MOST}, got {text[:40]!r}")
    return checked_priority(int(text))
