"""A reader with the paper beside them finds every equation by its number and label."""

from __future__ import annotations

from pathlib import Path

import pytest

import fidelium

LABELS = (
    "mi", "mf-mes", "mf-dnn", "joint-prob", "ac", "cond-m", "quad", "entropy-M", "f_mM", "cond-post", "f_mM2", "mm2",
)  # fmt: skip
SOURCES = [path.read_text() for path in Path(fidelium.__file__).parent.rglob("*.py")]


@pytest.mark.parametrize(("number", "label"), list(enumerate(LABELS, start=1)))
def test_every_equation_is_cited_in_the_sources(number, label):
    cited = [source for source in SOURCES if f"eq. ({number})" in source]
    assert cited
    for source in cited:  # always with its own label
        assert source.count(f"eq. ({number})") == source.count(f"eq. ({number}) {label}")


def test_no_equation_is_cited_without_its_number():
    assert not [label for label in LABELS for source in SOURCES if f"eq. ({label})" in source]
