"""A damaged database: every command says so in one line, with exit code 2, or does not mind; never a traceback."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from contextlib import closing

import pytest

TABLES = {
    "fidelium_studies": ("name", "record", "version", "trial_count", "turn_holder", "turn_until"),
    "fidelium_trials": (
        *("number", "params", "fidelity", "state", "value", "reason", "given", "attempt", "worker", "started"),
        *("heartbeat", "finished", "measured_cost", "version", "cost", "excluded"),
    ),
    "fidelium_changes": ("number", "at", "who", "action", "trial", "reason"),
    "fidelium_schema": ("version_num",),
}
HOSTILE = (
    *(None, "", "abc", "done", "running", "queued", "null", "[]", "{}", '{"x": 1}', "{" * 9000, "²", "1" * 5000),
    *(-1, 0, 1, 7, 10**18, -(2**63), 0.5, -0.5, float("inf"), float("-inf"), 1e308, b"\xff\x00", b"", "\x1b[31m"),
    *(
        '{"x": "a", "count": null, "kind": [1]}',
        '{"x": 1e999, "count": 1, "kind": "steel"}',
        '{"x": -1, "count": true}',
    ),
)
COMMANDS = (
    ("status",),
    ("status", "--json"),
    ("best",),
    ("changes",),
    ("storage", "info"),
    ("exclude", "0"),
    ("ask",),
    ("tell", "4", "1.5"),
)


@pytest.fixture
def database(call, study_file, tmp_path):
    """A study with trials in several states, in a database without any constraint."""
    path = study_file(100)
    call("run", path, "--budget", "12", "--quiet")
    call("exclude", path, "1")
    call("ask", path)
    file = tmp_path / "parabola.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        for table in TABLES:
            connection.execute(f"CREATE TABLE loose AS SELECT * FROM {table}")
            connection.execute(f"DROP TABLE {table}")
            connection.execute(f"ALTER TABLE loose RENAME TO {table}")
    shutil.copy(file, tmp_path / "whole.db")
    return path


def restore(tmp_path):
    for file in tmp_path.glob("parabola.db*"):
        file.unlink()
    return shutil.copy(tmp_path / "whole.db", tmp_path / "parabola.db")


def check(call, path, tmp_path, command, damage):
    table = tmp_path / "trials.csv"
    table.unlink(missing_ok=True)
    name, *rest = command
    arguments = (name, rest[0], path) if name == "storage" else (name, path, *rest)
    answer = call(*arguments)
    lines = answer.err.splitlines()
    assert answer.code in (0, 2), (damage, command, answer)
    if answer.code == 2:
        assert len(lines) == 1, (damage, command, answer)
        assert lines[0].startswith("error: "), (damage, command, answer)
        assert len(lines[0]) < 1000, (damage, command, answer)
    return answer


@pytest.mark.parametrize("seed", range(6))
def test_damaged_cells_and_lost_rows(call, database, tmp_path, seed):
    generator = random.Random(seed)
    for _ in range(12):
        file = restore(tmp_path)
        table = generator.choice(list(TABLES))
        column, value = generator.choice(TABLES[table]), generator.choice(HOSTILE)
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            rows = [row for (row,) in connection.execute(f"SELECT rowid FROM {table}")]
            row = generator.choice(rows)
            if generator.random() < 0.15:
                damage = f"DELETE FROM {table} WHERE rowid = {row}"
                connection.execute(damage)
            else:
                damage = f"UPDATE {table} SET {column} = {value!r:.40} WHERE rowid = {row}"
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row))
        for command in generator.sample(COMMANDS, 3):
            check(call, database, tmp_path, command, damage)
        check(call, database, tmp_path, ("export", str(tmp_path / "trials.csv")), damage)


@pytest.mark.parametrize("seed", range(2))
def test_damaged_files(call, database, tmp_path, seed):
    generator = random.Random(seed)
    for _ in range(8):
        file = tmp_path / restore(tmp_path)
        content = bytearray(file.read_bytes())
        for _ in range(generator.choice((1, 10, 1000))):
            content[generator.randrange(len(content))] = generator.randrange(256)
        if generator.random() < 0.3:
            del content[generator.randrange(len(content)) :]
        file.write_bytes(content)
        for command in generator.sample(COMMANDS, 3):
            check(call, database, tmp_path, command, seed)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            "UPDATE fidelium_trials SET state = 'dnoe' WHERE number = 2",
            "trial 2 of study 'parabola' in .* is damaged: state is 'dnoe', expected one of queued",
        ),
        (
            "UPDATE fidelium_trials SET fidelity = -1 WHERE number = 2",
            "trial 2 .* fidelity is '-1', expected a position below 2",
        ),
        ("UPDATE fidelium_trials SET params = '{' WHERE number = 3", "trial 3 .* params is not JSON"),
        (
            "UPDATE fidelium_trials SET params = '{}' WHERE number = 3",
            "trial 3 .* expected values of .'x', 'count', 'kind'",
        ),
        (
            "UPDATE fidelium_trials SET value = NULL WHERE number = 0",
            "trial 0 .* value is 'None', expected a finite number",
        ),
        (
            "UPDATE fidelium_trials SET cost = 'dear' WHERE number = 0",
            "trial 0 .* cost is 'dear', expected a finite number",
        ),
        (
            "UPDATE fidelium_trials SET version = 99999 WHERE number = 0",
            "trial 0 .* version is 99999, newer than the study",
        ),
        ("DELETE FROM fidelium_trials WHERE number = 1", "study 'parabola' in .* is damaged: trial 1 is missing"),
        ("DELETE FROM fidelium_trials WHERE number = 4", "it should have 5 trials, but number 4 is missing"),
        (
            "UPDATE fidelium_studies SET record = '{\"parameters\": 1}'",
            "the definition of study 'parabola' in .* is damaged",
        ),
        ("UPDATE fidelium_studies SET trial_count = 'x'", "study 'parabola' in .* trial_count is 'x'"),
        ("DELETE FROM fidelium_schema", "the table fidelium_schema holds nothing"),
        ("DROP TABLE fidelium_trials", "the tables are damaged; restore a backup"),
    ],
)
def test_the_message_names_the_row_and_what_to_do(call, database, tmp_path, damage, message):
    with closing(sqlite3.connect(tmp_path / "parabola.db", isolation_level=None)) as connection:
        connection.execute(damage)
    for command in (("status",), ("ask",)):
        answer = check(call, database, tmp_path, command, damage)
        assert answer.code == 2
        assert re.search(message, answer.err), answer.err
        assert "restore a backup" in answer.err or "fix it" in answer.err
