"""Files made to hurt: whatever a study file holds, the answer is a study or one short line, soon."""

from __future__ import annotations

import string
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fidelium.config.load import load_study_file
from fidelium.config.peek import peek_study_file
from fidelium.config.yaml_document import MOST_VALUES, parse_value
from fidelium.errors import ConfigError

GOOD = """\
name: plate
direction: maximize
budget: 200
parameters:
  young: {type: real, low: 1, high: 5}
  glue: {type: categorical, choices: [epoxy, none]}
fidelities:
  - {name: coarse, cost: 1}
  - {name: fine, cost: 10}
command: [solve, "{young}"]
"""


def bomb(levels: int, width: int = 10) -> str:
    """A few lines of aliases of aliases that stand for `width ** levels` values."""
    lines = [f"a0: &a0 [{', '.join(['x'] * width)}]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]")
    return "\n".join(lines) + "\n"


def mapping_bomb(levels: int) -> str:
    lines = ["a0: &a0 {x: 1, y: 2}"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} {{{', '.join(f'k{i}: *a{level - 1}' for i in range(9))}}}")
    return "\n".join(lines) + "\n"


def refusal(path: Path, text: str | bytes) -> str:
    """The message of a file with this content."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    messages = []
    for read in (load_study_file, peek_study_file):
        try:
            read(path)
        except ConfigError as error:
            messages.append(str(error))
    assert messages
    for message in messages:
        assert "\n" not in message
        assert len(message) < 3000
    return messages[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (bomb(9), f"too many values: more than {MOST_VALUES}, with aliases expanded"),
        (bomb(30, 3) + GOOD, "too many values"),
        (mapping_bomb(9) + GOOD, "too many values"),
        (GOOD.replace("[epoxy, none]", "*a8").replace("name: plate\n", bomb(9) + "name: plate\n"), "too many values"),
        ("a: &a [*a]\n", "an alias must not contain itself"),
        ("a: &a {b: {c: *a}}\n", "an alias must not contain itself"),
        ("a: *nowhere\n", "not YAML: found undefined alias 'nowhere'"),
        ("a: " + "[" * 60 + "]" * 60, "nested too deeply: more than 50 levels"),
        ("[" * 100_000, "nested too deeply"),
        ("{a: " * 100_000, "nested too deeply"),
        ("- " * 100_000, "nested too deeply"),
        ("x" * 2_000_000, "more than 1000000 characters"),
        ("".join(f"k{i}: 1\n" for i in range(5000)), "too many keys: 5000, expected at most 2000"),
        (GOOD + "? " + "x" * 100_000 + "\n: 1\n", "xxx...: unknown key"),
        (GOOD.replace("budget: 200", "budget: " + "9" * 6000), "budget: expected a finite number, got inf"),
        (GOOD.replace("budget: 200", "budget: " + "9" * 350), "budget: expected a"),
        (GOOD.replace("budget: 200", "budget: 1e999"), "budget: expected a finite number, got inf"),
        (GOOD.replace("budget: 200", "budget: .nan"), "budget: expected a number, got '.nan'"),
        (GOOD.replace("budget: 200", "budget: 2020-01-01"), "budget: expected a number, got '2020-01-01'"),
        (GOOD + "seed: " + "9" * 6000, "seed: expected a whole number, got inf"),
        (GOOD + "workers: 1_000", "workers: expected a whole number, got '1_000'"),
        (GOOD + "workers: " + "x" * 100_000, "workers: expected a whole number, got 'xxx"),
        (GOOD + "budget: 3", "duplicate key; remove one"),
        (GOOD + 'timeout: "1' + " " * 100_000 + '!"', "timeout: expected a duration such as 90, 90 s, 10 min or 8 h"),
        (GOOD + '"bud\\nget": 3', "bud\\nget: unknown key; did you mean budget?"),
        (GOOD + "<<: {budget: 3}", "<<: unknown key"),
        (GOOD + "? [a]\n: 3", "a key must be text, got a list or a mapping"),
        (GOOD + "!!int 3: 3", "a key must be plain text"),
        (GOOD + "stop: !!python/object:os.system {trials: 3}", "YAML tags such as"),
        (GOOD + "stop: !!set {trials}", "YAML tags such as"),
        (GOOD + "runs: !!binary aGVsbG8=", "YAML tags such as"),
        (GOOD + 'runs: "a\\0b"', "text must not contain NUL or a lone surrogate, got 'a\\x00b'"),
        (GOOD + 'storage: "sqlite:///\\ud800.db"', "text must not contain NUL or a lone surrogate"),
        (GOOD.replace("  young:", '  "\\ud800":'), "a key must be plain text without NUL"),
        (GOOD + "\0", "not YAML"),
        (GOOD + "--- \nname: other", "not YAML"),
        (b"\xff\xfe" + GOOD.encode("utf-16-le"), "it is not UTF-8 text"),
        (
            GOOD.replace("[epoxy, none]", f"[{', '.join(map(str, range(50_000)))}]"),
            "a search space has at most 10000 columns, one per choice, got 50001",
        ),
        (GOOD.replace("  - {name: coarse, cost: 1}", "  - {name: coarse, cost: 1, oops: 2}\n" * 5000), "oops: unknown"),
    ],
    ids=lambda given: repr(given[:24]),
)
def test_a_hostile_file_is_refused_in_one_short_line(tmp_path, text, message):
    assert message in refusal(tmp_path / "study.yaml", text)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * 500 + "]" * 500, "{a: *b}", "a: b: c", "!!int 3", "&a [*a]", '"\\ud800"', "\0"]
)
def test_a_hostile_option_is_refused_in_one_short_line(text):
    with pytest.raises(ConfigError) as caught:
        parse_value(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 3000


KEYS = [
    "name",
    "budget",
    "parameters",
    "fidelities",
    "command",
    "seed",
    "initial",
    "strategy",
    "storage",
    "stop",
    "runs",
    "real",
    "categorical",
]
VALUES_AS_TEXT = [*["true", "null", "~", ".inf", ".nan", "1e400", "-1", "0", "1e-320", "0x10"], "9" * 500]
SYNTAX = [
    *"[]{},|>'\"%#\t\0\ud800\\\u2028\ufeffé",
    ": ",
    "\n",
    "\n  ",
    "- ",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "!x ",
    "? ",
    "---",
]
WORDS = st.sampled_from([*KEYS, *VALUES_AS_TEXT, *SYNTAX])
PIECES = st.lists(WORDS | st.text(string.printable, max_size=5), max_size=12).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
LINES = GOOD.splitlines()


@given(st.integers(0, len(LINES)), st.integers(0, 2), PIECES | VALUES.map(repr), st.booleans())
@example(2, 1, "budget: " + "9" * 399, False)
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_gives_a_study_or_one_line(tmp_path, start, cut, piece, after_a_key):
    line = LINES[start] if start < len(LINES) else "seed: 1"
    inserted = f"{line.partition(':')[0]}: {piece}" if after_a_key else piece
    text = "\n".join([*LINES[:start], inserted, *LINES[start + cut :]])
    path = tmp_path / "study.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with suppress(ConfigError):
        load_study_file(path)
        return
    refusal(path, text)
