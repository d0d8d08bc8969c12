"""Commands of a study file: several of them, standard input, functions, and what is kept from the programs."""

from __future__ import annotations

import pytest

from fidelium.config.load import load_study_file
from fidelium.config.programs import secret_variables
from fidelium.errors import ConfigError
from fidelium.execution.invocation import Step
from fidelium.fidelity import Fidelity
from fidelium.history import Trial

STUDY = """\
name: small
direction: minimize
budget: 5
parameters: {x: {type: real, low: 0, high: 1}}
fidelities: [{name: only, cost: 1}]
"""
TEMPLATES = "templates: {deck.inp: deck.j2}\n"


@pytest.fixture
def load(tmp_path):
    for name in ("solve", "post.py", "plate.geo"):
        (tmp_path / name).touch()
    (tmp_path / "deck.j2").write_text("{{ x }}\n")

    def load(text):
        (tmp_path / "study.yaml").write_text(STUDY + text)
        return load_study_file(tmp_path / "study.yaml").program

    return load


def test_several_commands_are_steps_of_one(load, tmp_path):
    text = """command:
  - [gmsh, -3, plate.geo]
  - {command: [./solve, 4], stdin: deck.inp}
  - ["{python}", post.py, "{x}"]
"""
    command = load(TEMPLATES + text).commands["only"]
    assert command.steps == (
        Step(("gmsh", "-3", str(tmp_path / "plate.geo"))),
        Step((str(tmp_path / "solve"), "4"), "deck.inp"),
        Step(("{python}", str(tmp_path / "post.py"), "{x}")),
    )


def test_standard_input_is_a_file_made_from_a_template(load):
    assert load(TEMPLATES + "stdin: deck.inp\ncommand: [./solve]").commands["only"].stdin == "deck.inp"
    assert load("stdin: query.json\ncommand: cat\nshell: true").commands["only"].stdin == "query.json"


def test_a_study_with_steps_and_standard_input_runs(load):
    text = """stdin: deck.inp
command: [awk, "{{ print \\"v=\\" 2 * $1 }}"]
result: {regex: "v=(.*)"}
"""
    program = load(TEMPLATES + text)
    assert program.run(Trial(0, {"x": 0.25}, Fidelity("only", cost=1))).value == 0.5


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("stdin: deck.inp\ncommand: [solve]", 6, "no file 'deck.inp' in the trial's folder; make it with templates: {"),
        (TEMPLATES + "stdin: deck.j2\ncommand: [solve]", 7, "no file 'deck.j2' in the trial's folder; make it with"),
        (TEMPLATES + "stdin: ../deck.inp\ncommand: [solve]", 7, "expected a file inside the trial's folder"),
        (TEMPLATES + "stdin: deck.inp\ncommand: [[a], [b]]", 7, "which of the commands reads it? write - {command:"),
        ("command: [{command: [a], stdin: gone}, [b]]", 6, "no file 'gone' in the trial's folder"),
        ("command: [[a], b]", 6, "an argument must be text, got ['a']"),
        ("command: [[a], []]", 6, "expected a list such as [program, argument], got []"),
        ("command: [{stdin: a}]", 6, "expected {command: [program, argument], stdin: file}"),
        ("command: [{command: [a], input: b}]", 6, "expected {command: [program, argument], stdin: file}"),
        ("command: [{command: [a], stdin: 1}]", 6, "expected {command: [program, argument], stdin: file}"),
        ("command: [[a], ['{y}']]", 6, "unknown name {y}"),
        ("command: [[a], [b]]\nshell: true", 6, "expected one line of text with shell: true; got [['a'], ['b']]"),
    ],
)
def test_mistakes_have_their_line(load, text, line, message):
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert f"study.yaml:{line}: " in str(caught.value)
    assert message in str(caught.value)


def test_a_function_that_is_not_in_the_file_is_an_error_with_its_line(load, tmp_path):
    (tmp_path / "post.py").write_text("raise SystemExit\ndef mass(folder): ...\n")
    load("command: [solve]\nresult: {python: 'post.py:mass'}")
    with pytest.raises(
        ConfigError, match=r"study\.yaml:8: result\.python: no function 'value' in post\.py; it has mass"
    ):
        load("command: [solve]\nresult:\n  python: 'post.py:value'")


def test_programs_do_not_get_the_password_of_the_storage(load, monkeypatch, tmp_path):
    url = "postgresql+psycopg://me:p%40ss@host/db"
    secret = {
        "PGPASSWORD": "x",
        "PGPASSFILE": "/x",
        "URL": f"see {url}",
        "SHORT": "postgres://a:p@ss@b",
        "PLAIN": "p@ss",
    }
    public = {"PATH": "/bin:/usr/bin", "PGHOST": "host", "TEXT": "a p@ss of another kind", "KEPT": "1"}
    assert secret_variables(url, {**secret, **public}) == set(secret)
    assert secret_variables("postgresql://me@host/db", {**secret, **public}) == {"PGPASSWORD", "PGPASSFILE"}
    assert secret_variables("sqlite:///x.db", secret) == set()  # the simulator's own
    for name, value in {**secret, **public}.items():
        monkeypatch.setenv(name, value)
    text = "command: 'env > env.txt; echo v=1'\nshell: true\nresult: {regex: 'v=(.*)'}\nenvironment: {PLAIN: mine}\n"
    load(f"storage: {url}\n{text}").run(Trial(0, {"x": 0.5}, Fidelity("only", cost=1)))
    given = dict(line.split("=", 1) for line in (tmp_path / "runs/00000-only/env.txt").read_text().splitlines())
    assert {name: given.get(name) for name in secret} == {**dict.fromkeys(secret), "PLAIN": "mine"}
    assert given["KEPT"] == "1"
