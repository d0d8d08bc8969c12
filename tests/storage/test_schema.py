"""The schema: what migrations make is what a new database gets, other versions are refused, old files are read."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from fidelium.catalogue import Catalogue
from fidelium.constraints import OutcomeConstraint
from fidelium.definition import StudyDefinition
from fidelium.errors import StorageError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Change, Direction, Trial, TrialState
from fidelium.space import Categorical, Integer, Real, SearchSpace
from fidelium.storage import open_storage, schema_version, upgrade
from fidelium.storage.sql import schema
from fidelium.storage.sql.schema import MIGRATIONS, _existing
from fidelium.storage.sql.tables import METADATA
from fidelium.storage.sql.url import parse_address
from fidelium.testing.storage_cases import make_definition, make_trial

FROZEN = Path(__file__).parent / "frozen"


def described(url: str) -> dict[str, object]:
    """Everything that the database says of its tables."""
    engine = sa.create_engine(parse_address(url).url, poolclass=sa.NullPool)
    look = sa.inspect(engine)
    return {
        name: {
            "columns": [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in look.get_columns(name)],
            "key": look.get_pk_constraint(name),
            "foreign": look.get_foreign_keys(name),
            "unique": look.get_unique_constraints(name),
            "indexes": sorted(look.get_indexes(name), key=str),
        }
        for name in look.get_table_names()
    }


def run_sql(url: str, statement: str) -> None:
    engine = sa.create_engine(parse_address(url).url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text(statement))


def make_empty(url: str) -> None:
    if url.startswith("sqlite"):
        Path(url.removeprefix("sqlite:///")).touch()


def test_migrations_make_what_a_new_database_gets(url, tmp_path, request):
    other = f"{url}.other" if url.startswith("sqlite") else request.getfixturevalue("new_database")()
    make_empty(url)
    assert upgrade(url) == (0, schema.CURRENT)
    storage = open_storage(other)
    storage.create(make_definition("s"))
    storage.close()
    assert set(described(url)) == set(METADATA.tables)
    assert described(url) == described(other)
    assert schema_version(url) == schema_version(other) == schema.CURRENT
    assert upgrade(other) == (schema.CURRENT, schema.CURRENT)
    assert open_and_close(other) == ("s",)


def open_and_close(url: str) -> tuple[str, ...]:
    storage = open_storage(url)
    names = storage.names()
    storage.close()
    return names


def test_the_newest_migration_is_the_current_schema():
    from alembic.script import ScriptDirectory

    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [str(schema.CURRENT)]
    assert {file.name for file in FROZEN.glob("*.db")} == {f"schema_{n + 1}.db" for n in range(schema.CURRENT)}


def test_a_migration_that_replaces_a_table_keeps_what_refers_to_it(url):
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    storage = open_storage(url)
    storage.create(make_definition("s")).add(make_trial(0))
    storage.close()

    def replace_table(connection: sa.Connection) -> None:
        with Operations(MigrationContext.configure(connection)).batch_alter_table("fidelium_studies") as batch:
            batch.alter_column("record", nullable=True)

    with _existing(url) as database:
        database.write(replace_table)
    storage = open_storage(url)
    assert len(storage.open("s").trials()) == 1
    storage.close()


def test_a_newer_schema_is_refused(url):
    storage = open_storage(url)
    storage.create(make_definition("s"))
    storage.close()
    run_sql(url, "UPDATE fidelium_schema SET version_num = '99'")
    message = rf"newer fidelium \(schema 99, this one knows {schema.CURRENT}\); update fidelium"
    for use in (open_storage, upgrade):
        with pytest.raises(StorageError, match=message):
            use(url)
    assert schema_version(url) == 99


def make_schema_1(url: str) -> None:
    """The frozen study of schema 1, in any kind of database."""
    make_empty(url)
    with _existing(url) as database:
        database.write(lambda connection: schema.migrate(connection, "1"))
    frozen = sa.create_engine(f"sqlite:///{FROZEN / 'schema_1.db'}", poolclass=sa.NullPool)
    engine = sa.create_engine(parse_address(url).url, poolclass=sa.NullPool)
    for name in ("fidelium_studies", "fidelium_trials"):
        table = sa.Table(name, sa.MetaData(), autoload_with=frozen)
        with frozen.connect() as old, engine.begin() as new:
            new.execute(table.insert(), [row._asdict() for row in old.execute(table.select())])


def test_an_older_schema_is_refused_until_it_is_upgraded(url):
    make_schema_1(url)
    with pytest.raises(StorageError, match=r"older fidelium \(schema 1, this one has 4\).*fidelium storage upgrade"):
        open_storage(url)
    assert upgrade(url) == (1, 4)
    storage = open_storage(url)
    store = storage.open("plate ä")
    trials = store.trials()
    assert [trial.cost for trial in trials] == [0, 2.5, 1, 2.5, 1, 2.5, 2.5, 1]  # the first one was given
    assert [trial.charged for trial in trials] == [None] * 8  # which is what the fidelities cost
    assert not any(trial.excluded for trial in trials)
    assert not any(trial.outcomes for trial in trials)
    assert store.changes() == ()
    dearer = FidelityLadder((Fidelity("coarse", 3), Fidelity("fine", 30)))
    store.redefine(replace(store.definition, ladder=dearer), "ada@host")
    assert [trial.cost for trial in store.trials()] == [0, 2.5, 1, 2.5, 1, 2.5, 2.5, 1]
    storage.close()


def test_a_damaged_study_does_not_stop_an_upgrade(url):
    make_schema_1(url)
    run_sql(url, "UPDATE fidelium_studies SET record = 'damaged'")
    assert upgrade(url) == (1, 4)
    assert open_and_close(url) == ("plate ä",)


def test_a_version_that_is_none_is_refused(url):
    storage = open_storage(url)
    storage.create(make_definition("s"))
    storage.close()
    run_sql(url, "UPDATE fidelium_schema SET version_num = 'abc'")
    with pytest.raises(StorageError, match="fidelium_schema holds 'abc'"):
        open_storage(url)


def test_other_tables_in_the_database_are_left_alone(url):
    run_sql(url, "CREATE TABLE alembic_version (version_num VARCHAR(32))")
    run_sql(url, "INSERT INTO alembic_version VALUES ('theirs')")
    assert upgrade(url) == (0, schema.CURRENT)
    assert set(described(url)) == {*METADATA.tables, "alembic_version"}


def test_looking_makes_nothing(tmp_path):
    storage = open_storage(f"sqlite:///{tmp_path}/study.db")
    assert storage.names() == ()
    with pytest.raises(ValueError, match="there is no study 's' in this storage; it has none"):
        storage.open("s")
    assert list(tmp_path.iterdir()) == []
    other = open_storage(f"sqlite:///{tmp_path}/study.db")
    other.create(make_definition("s")).add(make_trial(0))
    assert storage.names() == ("s",)  # made by somebody else since
    assert len(storage.open("s").trials()) == 1
    storage.close()
    other.close()


def test_a_database_that_does_not_exist_is_not_upgraded(tmp_path):
    for use in (upgrade, schema_version):
        with pytest.raises(StorageError, match=r"there is no file .*typo\.db"):
            use(f"sqlite:///{tmp_path}/typo.db")


def test_opening_a_current_database_does_not_import_alembic(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    program = (
        "import sys, fidelium, fidelium.storage as s; assert 'sqlalchemy' not in sys.modules; s.open_storage(None)\n"
        "assert 'sqlalchemy' not in sys.modules; from fidelium.testing.storage_cases import make_definition\n"
        f"s.open_storage({url!r}).create(make_definition('a')); assert s.open_storage({url!r}).names() == ('a',)\n"
        "assert 'sqlalchemy' in sys.modules and 'alembic' not in sys.modules and 'sqlalchemy.orm' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_schema_1_is_read_as_it_was_written(tmp_path):
    file = shutil.copy(FROZEN / "schema_1.db", tmp_path / "study.db")
    assert schema_version(f"sqlite:///{file}") == 1
    upgrade(f"sqlite:///{file}")
    storage = open_storage(f"sqlite:///{file}")
    store = storage.open("plate ä")
    low, high = Fidelity("coarse", 1), Fidelity("fine", 2.5)
    parameters = {"x": Real(-1, 1.5), "r": Real(1e-9, 1.0, log=True), "n": Integer(1, 64, log=True)}
    space = SearchSpace(parameters | {"c": Categorical(("ä\0\ud800", True, 1, 0.1, None))})
    ladder, sizes = FidelityLadder((low, high)), {"coarse": 20, "fine": 2}
    assert store.definition == StudyDefinition(
        space, ladder, Direction.MINIMIZE, "dnn-mfbo", seed=2**80, initial=sizes, name="plate ä"
    )
    choices = ("ä\0\ud800", True, 1, 0.1, None, 1)
    params = [{"x": 0.1 + 0.2, "r": 1e-9, "n": number + 1, "c": choice} for number, choice in enumerate(choices)]
    trials = store.trials()
    storage.close()
    assert [type(trial.params["c"]) for trial in trials] == [str, bool, int, float, type(None), int, int, int]
    done, failed, lost = TrialState.DONE, TrialState.FAILED, TrialState.LOST
    queued, running = TrialState.QUEUED, TrialState.RUNNING
    ended = Trial(1, params[1], high, done, worker="host:1", started=1006.25, heartbeat=1006.25, finished=1007.25)
    lost_reason = "worker host:1 has ended in attempt 1; not tried again"
    assert trials == (
        Trial(0, params[0], low, done, 1 / 3, given=True, finished=1000.25),
        replace(ended, value=-2.5e-300, measured_cost=7.5),
        replace(later(ended, 2), number=2, params=params[2], fidelity=low, state=failed, reason=FAILURE),
        replace(later(ended, 4), number=3, params=params[3], state=lost, reason=lost_reason),
        Trial(4, params[4], low, queued, reason="interrupted again", attempt=2, worker="host:3", started=1016.25),
        Trial(5, params[5], high, queued, worker="host:3", started=1013.25),
        Trial(6, params[5], high, running, worker="host:4", started=1019.25, heartbeat=1020.25),
        Trial(7, params[5], low, running, started=1021.25),
    )


def test_schema_2_is_read_as_it_was_written(tmp_path):
    file = shutil.copy(FROZEN / "schema_2.db", tmp_path / "study.db")
    assert schema_version(f"sqlite:///{file}") == 2
    upgrade(f"sqlite:///{file}")
    storage = open_storage(f"sqlite:///{file}")
    store = storage.open("plate ä")
    low, high = Fidelity("coarse", 1.5), Fidelity("fine", 4)
    trials, changes = store.trials(), store.changes()
    assert store.definition.ladder == FidelityLadder((low, high))
    storage.close()
    done, failed, queued = TrialState.DONE, TrialState.FAILED, TrialState.QUEUED
    assert [(trial.fidelity, trial.cost) for trial in trials[:3]] == [(low, 0), (high, 2.5), (low, 1)]
    assert [trial.cost for trial in trials] == [0, 2.5, 1, 2.5, 1, 2.5, 2.5, 1, 4, 4, 4, 4]
    assert [trial.number for trial in trials if trial.excluded] == [1]
    assert not any(trial.outcomes for trial in trials)
    params = {"x": 0.1 + 0.2, "r": 1e-9, "n": 1, "c": "ä\0\ud800"}
    assert trials[8:] == (
        Trial(8, params, high, queued, started=1023.25),
        Trial(9, params, high, failed, reason="no licence", started=1025.25, finished=1026.25),
        Trial(10, params, high, done, 0.75, measured_cost=3.0, started=1027.25, finished=1035.25),
        Trial(11, params, high, failed, reason="no licence", started=1029.25, finished=1030.25),
    )
    assert changes == (
        Change(1022.25, "ada@host", "redefine", None, "coarse costs 1.5, fine 4"),
        Change(1031.25, "ada@host", "exclude", 1, "wrong mesh"),
        Change(1032.25, "bob@host", "retry", 8, "[before: failed: no licence]"),
        Change(1033.25, "bob@host", "exclude", 9, ""),
        Change(1034.25, "bob@host", "restore", 9, "a mistake"),
        Change(1035.25, "bob@host", "correct", 10, "read by hand [before: failed: no licence]"),
    )


def test_schema_3_is_read_as_it_was_written(tmp_path):
    file = shutil.copy(FROZEN / "schema_3.db", tmp_path / "study.db")
    assert schema_version(f"sqlite:///{file}") == 3
    upgrade(f"sqlite:///{file}")
    storage = open_storage(f"sqlite:///{file}")
    store = storage.open("plate ä")
    definition, trials, changes = store.definition, store.trials(), store.changes()
    storage.close()
    limits = (OutcomeConstraint("stress", upper=150e6), OutcomeConstraint("frequenz.ä", 10, 20.5))
    assert (definition.constraints, definition.failures_teach, definition.timeouts_teach) == (limits, False, False)
    everything = {"stress": 0.1 + 0.2, "frequenz.ä": 12.0, "mass": 1e-300}
    outcomes = {trial.number: dict(trial.outcomes) for trial in trials if trial.outcomes}
    assert outcomes == {0: everything, 1: {"stress": 150e6}, 12: everything}
    assert [trial.feasible for trial in trials] == [True, *[None] * 11, True]
    assert trials[10].state is TrialState.QUEUED
    assert changes[-1].reason == (f"[before: done with value 0.75, stress {0.1 + 0.2!r}, frequenz.ä 12.0, mass 1e-300]")


def test_schema_4_is_read_as_it_was_written(tmp_path):
    file = shutil.copy(FROZEN / "schema_4.db", tmp_path / "study.db")
    assert schema_version(f"sqlite:///{file}") == 4
    upgrade(f"sqlite:///{file}")
    storage = open_storage(f"sqlite:///{file}")
    store = storage.open("plate ä")
    definition, trials, changes = store.definition, store.trials(), store.changes()
    storage.close()
    items = {"IPE 80 ä": {"area": 7.64, "inertia": 80.1}, "IPE 200": {"area": 28.5, "inertia": 1943.0}}
    assert definition.space.parameters == {"x": Real(-1, 1.5), "profile": Catalogue(items, log=["inertia"])}
    coarse, fine = definition.ladder
    assert (coarse.inputs, fine.inputs, fine.cost) == (("x",), None, "10 + x * profile.area / 100")
    assert fine.cost_of({"x": 1.0, "profile": "IPE 200"}) == 10.285
    assert definition.measures_costs
    assert [trial.std for trial in trials] == [0.1 + 0.2, 0.0, None, 2.5, None]
    assert [trial.priority for trial in trials] == [0, 6, -3, 0, 0]
    assert [trial.note for trial in trials] == ["checked by hand, ä", None, "the mesh is coarse", None, None]
    assert [trial.tags for trial in trials] == [("good", "ä-b"), (), ("thin",), (), ()]
    assert [trial.cost for trial in trials] == [0, 0.1 + 0.7, trials[2].cost, 0, 12.5]
    assert trials[2].cost == fine.cost_of(trials[2].params)
    assert [(change.action, change.trial, change.who) for change in changes] == [
        *(("enqueue", number, "ada@host") for number in (1, 2)),
        *((action, 2, "bob@host") for action in ("note", "tag", "prioritise")),
        ("untag", 3, "bob@host"),
        ("stop", None, "host:1"),
    ]


@pytest.mark.parametrize(
    ("column", "text", "why"),
    [
        ("std", "-1.0", "std is '-1.0', expected a finite number >= 0"),
        ("priority", "0.5", "priority is '0.5', expected a whole number"),
        ("tags", "'[1]'", r"tags is '\[1\]', expected a list of texts"),
        ("tags", "'{'", "tags is '{', expected a list of texts"),
    ],
)
def test_what_people_said_and_is_damaged_is_an_error_that_names_the_row(tmp_path, column, text, why):
    file = shutil.copy(FROZEN / "schema_4.db", tmp_path / "study.db")
    engine = sa.create_engine(f"sqlite:///{file}", poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE fidelium_trials SET {column} = {text} WHERE number = 1")
    upgrade(f"sqlite:///{file}")
    storage = open_storage(f"sqlite:///{file}")
    with pytest.raises(StorageError, match=f"trial 1 of study 'plate ä' in .* is damaged: {why}"):
        storage.open("plate ä").trials()
    storage.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("'{'", "outcomes is not JSON"),
        ("'[1.0]'", r"outcomes is '\[1.0\]', expected numbers by name"),
        ("'{\"stress\": NaN}'", "outcome 'stress' is 'nan', expected a finite number"),
        ("'{\"stress\": 1e999}'", "outcome 'stress' is 'inf', expected a finite number"),
        ('\'{"stress": "1"}\'', "outcome 'stress' is '1', expected a finite number"),
        ("'{\"stress\": true}'", "outcome 'stress' is 'True', expected a finite number"),
    ],
)
def test_damaged_outcomes_are_an_error_that_names_the_row(tmp_path, text, why):
    file = shutil.copy(FROZEN / "schema_3.db", tmp_path / "study.db")
    engine = sa.create_engine(f"sqlite:///{file}", poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE fidelium_trials SET outcomes = {text} WHERE number = 1")
    upgrade(f"sqlite:///{file}")
    storage = open_storage(f"sqlite:///{file}")
    with pytest.raises(StorageError, match=f"trial 1 of study 'plate ä' in .* is damaged: {why}"):
        storage.open("plate ä").trials()
    storage.close()


FAILURE = "mesher: exit code 3\nlast line"


def later(trial: Trial, seconds: int) -> Trial:
    times = {name: getattr(trial, name) + seconds for name in ("started", "heartbeat", "finished")}
    return replace(trial, **times)
