"""Templates are strict, and their mistakes have a line; logs of programs keep their ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelium.errors import SettingError
from fidelium.execution.output_log import BoundedLog, last_lines
from fidelium.execution.substitution import check_template, render


@pytest.fixture
def deck(tmp_path):
    def write(text):
        (tmp_path / "deck.j2").write_text(text)
        return tmp_path / "deck.j2"

    return write


def test_a_template_keeps_its_text_and_its_last_line_end(deck):
    text = "a{% for i in range(2) %} {{ i * x }}{% endfor %} {{ params['young modulus'] }} {{ none_ }}{# gone #}\n\n"
    values = {"x": 0.5, "params": {"young modulus": "<&>"}, "none_": None}
    check_template(deck(text), values)
    assert render(deck(text), values) == "a 0.0 0.5 <&> null\n\n"


def test_a_template_may_include_its_neighbour(deck, tmp_path):
    (tmp_path / "material.j2").write_text("E={{ x }}")
    assert render(deck("{% include 'material.j2' %}"), {"x": 3}) == "E=3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n{{ yung }}", r"template deck\.j2, line 3: unknown name 'yung'; known are params, young"),
        ("\n{{ young ", r"template deck\.j2, line 2: unexpected end of template"),
        ("{% for %}", r"template deck\.j2, line 1: "),
    ],
)
def test_a_mistake_is_found_before_anything_runs(deck, text, message):
    with pytest.raises(SettingError, match=message):
        check_template(deck(text), ["young", "params"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n{{ params.yung }}", r"template deck\.j2, line 2: 'dict object' has no attribute 'yung'"),
        ("\n\n{{ 1 / (young - young) }}", r"template deck\.j2, line 3: float division by zero"),
        ("{{ young", r"template deck\.j2, line 1: "),
        ("{% include 'gone.j2' %}", r"template deck\.j2: 'gone\.j2' is not in "),
    ],
)
def test_a_mistake_that_shows_later_has_its_line_too(deck, text, message):
    with pytest.raises(SettingError, match=message):
        render(deck(text), {"young": 1.0, "params": {}})


def test_a_template_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(SettingError, match=r"cannot read the template .*gone\.j2': No such file"):
        check_template(tmp_path / "gone.j2", [])
    (tmp_path / "binary.j2").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingError, match="is not UTF-8 text"):
        check_template(tmp_path / "binary.j2", [])


@given(st.lists(st.binary(max_size=40)), st.integers(0, 30))
def test_a_log_keeps_the_first_and_the_last_bytes(tmp_path_factory, chunks, limit):
    path = tmp_path_factory.mktemp("log") / "stdout.txt"
    with BoundedLog(path, limit) as log:
        for chunk in chunks:
            log.write(chunk)
    whole = b"".join(chunks)
    left_out = max(len(whole) - 2 * limit, 0)
    assert log.left_out == left_out
    middle = f"\n[fidelium left out {left_out} bytes]\n".encode()
    expected = whole[:limit] + middle + whole[len(whole) - limit :] if left_out else whole
    assert path.read_bytes() == expected


def test_last_lines_are_a_bounded_sentence(tmp_path):
    (tmp_path / "log").write_text("\n".join(f"line {i} " for i in range(100)) + "\n\n")
    assert last_lines(tmp_path / "log", lines=3) == "line 98 | line 99"
    assert last_lines(tmp_path / "log", lines=3, limit=7) == "...line 99"
    assert last_lines(tmp_path / "gone") == ""
