"""Every error in a study file is one line with file, line number and key, and says what to do."""

from __future__ import annotations

import re

import pytest

from fidelium.config.load import load_study_file
from fidelium.errors import ConfigError

GOOD = """\
name: plate
direction: maximize
budget: 200
workers: 2
initial: {coarse: 20}
parameters:
  young: {type: real, low: 1, high: 5}
  glue:
    type: categorical
    choices: [epoxy, none]
fidelities:
  - name: coarse
    cost: 1
    command: [solve, "{young}"]
  - name: fine
    cost: 10
    command: [solve, "{query}"]
    timeout: 10 min
templates:
  deck.inp: deck.j2
environment:
  THREADS: "1"
result:
  file: out.txt
failures: {retries: 1}
stop: {trials: 5}
"""

ERRORS = [  # what is replaced, by what, the line, the key, the message
    ("budget: 200", "budgt: 200", 3, "budgt", "unknown key; did you mean budget?"),
    ("type: real, low", "type: real, lo", 7, "parameters.young.lo", "unknown key; did you mean low?"),
    ("    cost: 1\n", "    prize: 1\n", 13, "fidelities[0].prize", "unknown key; known are command, shell"),
    ("retries: 1", "retrys: 1", 25, "failures.retrys", "unknown key; did you mean retries?"),
    ("trials: 5", "trials: 5, wal_time: 3", 26, "stop.wal_time", "unknown key; did you mean wall_time?"),
    ("  file: out.txt", "  files: out.txt", 24, "result.files", "unknown key; did you mean file?"),
    ("name: plate\n", "", 1, "name", "is missing; add it, for instance name: plate"),
    ("    cost: 10\n", "", 15, "fidelities[1].cost", "is missing; add it, for instance cost: 1"),
    (", high: 5", "", 7, "parameters.young.high", "is missing; add it, for instance high: 1"),
    ("type: real, ", "", 7, "parameters.young", "type is missing; add type: real"),
    (
        "type: real",
        "type: float",
        7,
        "parameters.young",
        "expected type real, integer, categorical or catalogue, got 'float'",
    ),
    ("maximize", "maximise", 2, "direction", "expected 'maximize' or 'minimize', got 'maximise'"),
    ("budget: 200", "budget: much", 3, "budget", "expected a number, got 'much'"),
    ("budget: 200", 'budget: "200"', 3, "budget", "expected a number, got '200'; remove the quotes"),
    ("budget: 200", "budget: true", 3, "budget", "expected a number, got True"),
    ("budget: 200", "budget: -1", 3, "budget", "must be above 0, got -1"),
    ("budget: 200", "budget: .inf", 3, "budget", "expected a finite number, got inf"),
    ("budget: 200", "budget: 0.5", 3, "budget", "the budget 0.5 is below the cheapest run: one at 'coarse' costs 1"),
    ("workers: 2", "workers: 1.5", 4, "workers", "expected a whole number, got 1.5"),
    ("workers: 2", "workers: 0", 4, "workers", "must be at least 1, got 0"),
    ("name: plate", "name: 12", 1, "name", "expected a string, got 12; put it in quotes"),
    ("name: plate", 'name: ""', 1, "name", "expected a string that is not empty, got ''"),
    ("low: 1, high: 5", "low: 5, high: 1", 7, "parameters.young", "Real needs low < high, got low=5.0 and high=1.0"),
    ("low: 1,", "low: 0, log: true,", 7, "parameters.young", "Real with log=True needs low > 0"),
    ("[epoxy, none]", "[epoxy]", 8, "parameters.glue", "Categorical needs at least two choices"),
    ("[epoxy, none]", "[epoxy, [a]]", 10, "parameters.glue.choices", "a choice must be text, a number, true, false"),
    (
        "workers: 2",
        "workers: 2\nparameter_constraints: [young <= 3, glue ==]",
        5,
        "parameter_constraints[1]",
        "constraint 'glue ==': it ends where",
    ),
    (
        "workers: 2",
        "workers: 2\nparameter_constraints: [yung < 3]",
        5,
        "parameter_constraints[0]",
        "unknown parameter 'yung'; did you mean 'young'?",
    ),
    (
        "workers: 2",
        "workers: 2\nparameter_constraints: [young > 6]",
        5,
        "parameter_constraints",
        "cannot find a design within the bounds that meets the constraint 'young > 6'",
    ),
    (
        "workers: 2",
        "workers: 2\nparameter_constraints: [young > 3, young < 2]",
        5,
        "parameter_constraints",
        "cannot find a design within the bounds that meets 'young > 3' and 'young < 2' together",
    ),
    (
        "workers: 2",
        "workers: 2\nparameter_constraints: young > 3",
        5,
        "parameter_constraints",
        "expected a list, got 'young > 3'",
    ),
    (
        "workers: 2",
        "workers: 2\nparameter_constraints: [3]",
        5,
        "parameter_constraints[0]",
        "expected a string, got 3; put it in quotes",
    ),
    ("  young:", "  number:", 7, "parameters.number", "is reserved: fidelium sets {number} itself; rename"),
    ("name: fine", "name: coarse", 15, "fidelities[1]", "the names of the fidelities must differ"),
    ("cost: 10", "cost: 0.1", 15, "fidelities[1]", "costs must increase from low to high fidelity"),
    ("workers: 2", "workers: 2\nworkers: 3", 5, "workers", "duplicate key; remove one"),
    ("    cost: 10", "    cost: 10\n    cost: 11", 17, "cost", "duplicate key; remove one"),
    ('    command: [solve, "{query}"]\n', "", 15, "fidelities[1].command", "is missing; add command: [program"),
    ('[solve, "{query}"]', "solve it", 17, "fidelities[1].command", "expected a list, or shell: true for a line"),
    ('[solve, "{query}"]', "[]", 17, "fidelities[1].command", "expected a list such as [program, argument], got []"),
    ('[solve, "{query}"]', '[""]', 17, "fidelities[1].command", "a command needs a program"),
    ('[solve, "{query}"]', "[solve, 1e5]", 17, "fidelities[1].command", "must be text, got 100000.0; put it in quotes"),
    ('[solve, "{query}"]', "[solve, '{yung}']", 17, "fidelities[1].command", "unknown name {yung}"),
    ('[solve, "{query}"]', "solve {young}\n    shell: true", 17, "fidelities[1].command", "could run as code"),
    ("stop: {", "constraints: stress <= 1\nstop: {", 26, "constraints", "expected a list, got 'stress <= 1'"),
    ("stop: {", "constraints: [2]\nstop: {", 26, "constraints[0]", "expected a string, got 2; put it in quotes"),
    (
        "stop: {",
        "constraints:\n  - stress <= 1\n  - stress ==\nstop: {",
        28,
        "constraints[1]",
        "expected 'NAME <= number'",
    ),
    ("stop: {", "constraints: [young <= 1]\nstop: {", 26, "constraints[0]", "constraints on parameters go to"),
    ("stop: {", "constraints: [value <= 1]\nstop: {", 26, "constraints[0]", "'value' is reserved"),
    ("stop: {", "constraints: [s <= .inf]\nstop: {", 26, "constraints[0]", "expected 'NAME <= number'"),
    ("stop: {", "constraints: [s <= inf]\nstop: {", 26, "constraints[0]", "a limit must be a finite number"),
    ("stop: {", "constraints:\n  - s <= 1\n  - s >= 2\nstop: {", 28, "constraints[1]", "contradict each other"),
    ("retries: 1", "model: maybe", 25, "failures.model", "expected true or false, got 'maybe'"),
    ("retries: 1", "timeouts: never", 25, "failures.timeouts", "expected 'count' or 'ignore', got 'never'"),
    ("stop: {", "outcomes: {s: {}}\nstop: {", 26, "outcomes.s", "expected where to find it, such as {file: out.txt"),
    ("stop: {", "outcomes: {s: out.txt}\nstop: {", 26, "outcomes.s", "expected a mapping of keys to values"),
    ("stop: {", "outcomes: {s: {regx: a}}\nstop: {", 26, "outcomes.s.regx", "unknown key; did you mean regex?"),
    ("stop: {", "outcomes: {s: {regex: a}}\nstop: {", 26, "outcomes.s", "needs a group (...) around the number"),
    ("stop: {", "outcomes: {s: {file: ../a}}\nstop: {", 26, "outcomes.s", "../a"),
    ("stop: {", "outcomes: {young: {file: a}}\nstop: {", 26, "outcomes.young", "'young' is a parameter"),
    ("stop: {", "outcomes: {cost: {file: a}}\nstop: {", 26, "outcomes.cost", "'cost' is reserved"),
    (
        "    timeout",
        "    outcomes: {2x: {file: a}}\n    timeout",
        18,
        "fidelities[1].outcomes.2x",
        "is a word of letters",
    ),
    ("10 min", "10 parsec", 18, "fidelities[1].timeout", "expected a duration such as 90, 90 s, 10 min or 8 h"),
    ("10 min", "0", 18, "fidelities[1].timeout", "must be above 0, got 0"),
    ("deck.j2", "gone.j2", 20, "templates.deck.inp", "cannot read the template"),
    ("deck.j2", "unknown.j2", 20, "templates.deck.inp", "template unknown.j2, line 2: unknown name 'yung'"),
    ("deck.j2", "syntax.j2", 20, "templates.deck.inp", "template syntax.j2, line 1: "),
    ("deck.inp:", "../deck.inp:", 20, "templates.../deck.inp", "expected a file inside the trial's folder"),
    ('"1"', "1.5", 22, "environment.THREADS", "expected a string, got 1.5; put it in quotes"),
    ('"1"', '"{yung}"', 22, "environment.THREADS", "unknown name {yung}"),
    ("THREADS", "A=B", 22, "environment.A=B", "a variable's name must not be empty or contain = or NUL"),
    ("file: out.txt", "json: a[0]", 23, "result", "json needs a file to read; add file: NAME"),
    ("file: out.txt", "column: mass", 23, "result", "column needs a file to read"),
    ("out.txt", "o\n  json: a\n  regex: (b)", 23, "result", "json and regex are alternatives; keep one"),
    ("file: out.txt", "row: 3", 23, "result", "row and delimiter need a column; add column: NAME"),
    ("file: out.txt", "regex: mass", 23, "result", "'mass' needs a group (...) around the number"),
    ("file: out.txt", "regex: (", 23, "result", "'(' is not a valid regular expression"),
    ("file: out.txt", "python: post.py", 23, "result", "expected file.py:function or module:function"),
    ("file: out.txt", "python: gone.py:f", 24, "result.python", "No such file"),
    ("out.txt", "../out.txt", 23, "result", "expected a file inside the trial's folder, got '../out.txt'"),
    ("out.txt", "o\n  column: [1]", 25, "result.column", "expected a column's name, or its position from 0, got [1]"),
    ("out.txt", "o\n  column: a\n  row: first", 26, "result.row", "expected a row's position from 0, or last"),
    ("retries: 1", "retries: -1", 25, "failures.retries", "must be at least 0, got -1"),
    ("retries: 1", "then: abort", 25, "failures.then", "expected 'continue' or 'stop', got 'abort'"),
    ("failures: {retries: 1}", "failures: 3", 25, "failures", "expected a mapping of keys to values, got 3"),
    (
        "workers: 2",
        "strategy: {name: dnn-mfbo-paper, depth: 3}",
        4,
        "strategy",
        "strategy 'dnn-mfbo-paper' has no option 'depth'; it has 'architecture'",
    ),
    (
        "workers: 2",
        "strategy: {depth: 3}",
        4,
        "strategy",
        "expected the name of a strategy, or {name: ..., option: value}",
    ),
    ("workers: 2", "strategy: dnn-mfbi", 4, "strategy", "unknown strategy 'dnn-mfbi'; known are 'dnn-mfbo'"),
    ("workers: 2", "storage: plate.db", 4, "storage", "expected a URL such as sqlite:///plate.db, got 'plate.db'"),
    ("{coarse: 20}", "{course: 20}", 5, "initial", "'course'"),
    ("{coarse: 20}", "{coarse: -3}", 5, "initial.coarse", "must be at least 0, got -3"),
    ("{coarse: 20}", "20", 5, "initial", "expected a mapping of names to values, got 20"),
    ("workers: 2", "workers: !!int 2", 4, "workers", "YAML tags such as"),
]


@pytest.fixture
def message(tmp_path):
    """The line and the message of the error of a file with this text."""
    (tmp_path / "deck.j2").write_text("{{ young }}")
    (tmp_path / "unknown.j2").write_text("\n{{ yung }}")
    (tmp_path / "syntax.j2").write_text("{{ young")

    def of(text):
        path = tmp_path / "study.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            load_study_file(path)
        found = re.fullmatch(re.escape(str(path)) + r":(\d+): (.*)", str(caught.value))
        assert found is not None, caught.value  # one line that starts with the file
        return int(found[1]), found[2]

    return of


def test_the_unchanged_file_is_valid(tmp_path):
    (tmp_path / "deck.j2").write_text("{{ young }}")
    (tmp_path / "study.yaml").write_text(GOOD)
    assert load_study_file(tmp_path / "study.yaml").definition.name == "plate"


@pytest.mark.parametrize(("old", "new", "line", "key", "expected"), ERRORS)
def test_an_error_is_one_line_with_file_line_number_and_key(message, old, new, line, key, expected):
    assert GOOD.count(old) >= 1
    found_line, rest = message(GOOD.replace(old, new, 1))
    assert rest.startswith(f"{key}: ")
    assert expected in rest
    assert found_line == line


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("name: plate\nbudget: [1, 2\n", 3, "not YAML: while parsing a flow sequence expected ',' or ']'"),
        ("name: plate\n\tbudget: 1\n", 2, "not YAML: "),
        ("name: 'plate\n", 2, "not YAML: "),
        ("", 1, "the file is empty; `fidelium init` creates one"),
        ("# nothing\n", 1, "the file is empty"),
        ("- a\n- b\n", 1, "expected keys such as name, parameters and fidelities"),
        ("name: &a [*a]\n", 1, "name[0]: an alias must not contain itself"),
        ("name: plate\n? [a]\n: 1\n", 2, "a key must be text"),
        ("a: 1\n---\nb: 2\n", 2, "not YAML: "),
        ("a: 1\nb: \x07\n", 2, "not YAML: "),
        ("a: " + "[" * 5000, 1, "nested too deeply"),
    ],
)
def test_a_file_that_is_not_a_study_is_an_error_with_a_line(message, text, line, expected):
    found_line, rest = message(text)
    assert expected in rest
    assert found_line == line


def test_of_several_errors_the_first_is_reported(message):
    text = GOOD.replace("retries: 1", "retries: x").replace("maximize", "up").replace("cost: 1\n", "cost: x\n")
    assert message(text)[0] == 2


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*gone\.yaml: No such file or directory; `fidelium init`"):
        load_study_file(tmp_path / "gone.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="it is not UTF-8 text"):
        load_study_file(tmp_path / "binary.yaml")
    with pytest.raises(ConfigError, match="Is a directory"):
        load_study_file(tmp_path)
