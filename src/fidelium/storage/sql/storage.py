"""Studies in a database, by name."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import Connection, Row

from fidelium.definition import StudyDefinition
from fidelium.errors import StorageError, StudyExistsError
from fidelium.history import Change, Trial
from fidelium.storage import transitions
from fidelium.storage.base import Action, Annotation, Result, always, never
from fidelium.storage.memory import Clock
from fidelium.storage.serialise import bounded_reason, checked_name, definition_text, unknown_study
from fidelium.storage.sql import tables as sql
from fidelium.storage.sql.database import Database
from fidelium.storage.sql.rows import (
    COUNT,
    NAME,
    NUMBER,
    TEXT,
    cell,
    change_of,
    damaged,
    fixed_columns,
    life_columns,
    stored_definition,
    trial_of,
)
from fidelium.storage.sql.schema import check_version, lock_catalogue, make_tables, version_in
from fidelium.storage.sql.url import Address, parse_address

_STUDY_COLUMNS = {
    "version": COUNT,
    "trial_count": COUNT,
    "turn_holder": TEXT.or_nothing(),
    "turn_until": NUMBER,
}
"""What every write relies on."""


@dataclass
class _Seen:
    """What was read of a study; changed while the database is read only, by one thread at a time."""

    definition: StudyDefinition
    trials: list[Trial] = field(default_factory=list)
    version: int = 0


class SqlStudy:
    """One study's rows. Every write first locks the study's own row, so writers happen one after another.

    Args:
        database: where it is.
        study_id: its key there.
        definition: what it is made from.
    """

    def __init__(self, database: Database, study_id: int, definition: StudyDefinition) -> None:
        self._database = database
        self._id = study_id
        self._seen = _Seen(definition)
        self._place = f"study {definition.stored_name!r} in {database.address}"  # for messages

    @property
    def definition(self) -> StudyDefinition:
        return self._seen.definition

    @property
    def is_shared(self) -> bool:
        return True

    def trials(self) -> tuple[Trial, ...]:
        return self._database.read(self._refreshed)

    def add(self, trial: Trial, *, alive: bool = False, budget: float = math.inf) -> Trial | None:
        fixed = fixed_columns(trial, self.definition.ladder)

        def work(connection: Connection) -> Trial | None:
            study = self._lock(connection)
            if not transitions.is_next(trial, study.trial_count):
                return None
            if math.isfinite(budget):
                transitions.check_budget(trial, self._committed(connection, budget), budget)
            added = transitions.entered(trial, self.definition, alive, self._database.now(connection))
            version = study.version + 1
            connection.execute(sql.ADD_TRIAL, fixed | life_columns(added) | {"study_id": self._id, "version": version})
            self._update(connection, version=version, trial_count=study.trial_count + 1)
            return added

        return self._database.write(work)

    def enqueue(self, trials: Sequence[Trial], who: str, budget: float = math.inf) -> tuple[Trial, ...]:
        checked_name(who, "the name of who adds a trial")
        fixed = [fixed_columns(trial, self.definition.ladder) for trial in trials]

        def work(connection: Connection) -> tuple[Trial, ...]:
            study, now = self._lock(connection), self._database.now(connection)
            counts = self._committed(connection, budget) if math.isfinite(budget) else {}
            added = transitions.enqueued(trials, study.trial_count, counts, budget, self.definition)
            if added:
                columns = {"study_id": self._id, "version": study.version + 1}
                rows = [
                    first | life_columns(trial) | columns | {"number": trial.number}
                    for first, trial in zip(fixed, added, strict=True)
                ]
                connection.execute(sql.ADD_TRIAL, rows)
                self._record(connection, *(transitions.enqueue_record(trial, who, now) for trial in added))
                self._update(connection, version=study.version + 1, trial_count=study.trial_count + len(added))
            return tuple(added)

        return self._database.write(work)

    def claim(
        self, worker: str | None, budget: float = math.inf, accepts: Callable[[Trial], bool] = always
    ) -> Trial | None:
        if worker is not None:
            checked_name(worker, "a worker's name")

        def work(connection: Connection) -> Trial | None:
            study = self._lock(connection)
            first = self._first_to_start(connection, budget, accepts)
            if first is None:
                return None
            return self._save(connection, study, transitions.claimed(first, worker, self._database.now(connection)))

        return self._database.write(work)

    def finish(self, number: int, attempt: int, result: Result) -> Trial:
        measured = self.definition.measures_costs
        return self._change(
            number, attempt, lambda trial, now: transitions.ended(trial, result, now, measured=measured)
        )

    def requeue(
        self, number: int, attempt: int, reason: str | None = None, measured_cost: float | None = None
    ) -> Trial:
        cost = measured_cost if self.definition.measures_costs else None
        return self._change(number, attempt, lambda trial, now: transitions.given_back(trial, reason, cost))

    def amend(
        self, number: int, action: Action, who: str, reason: str | None = None, result: Result | None = None
    ) -> Trial:
        checked_name(who, "the name of who changes a trial")

        def work(connection: Connection) -> Trial:
            study, now = self._lock(connection), self._database.now(connection)
            trial = transitions.known(self._find(connection, study, number), number, study.trial_count)
            measured = self.definition.measures_costs
            amended = transitions.amended(trial, action, reason, result, now, measured=measured)
            self._record(connection, transitions.change_record(trial, action, who, reason, now))
            return self._save(connection, study, amended)

        return self._database.write(work)

    def annotate(self, number: int, annotation: Annotation, text: str, who: str) -> Trial:
        checked_name(who, "the name of who writes on a trial")

        def work(connection: Connection) -> Trial:
            study, now = self._lock(connection), self._database.now(connection)
            trial = transitions.known(self._find(connection, study, number), number, study.trial_count)
            written = transitions.annotated(trial, annotation, text)
            if written == trial:
                return trial
            self._record(connection, transitions.annotation_record(trial, written, annotation, who, text, now))
            return self._save(connection, study, written)

        return self._database.write(work)

    def redefine(self, definition: StudyDefinition, who: str, reason: str | None = None) -> None:
        checked_name(who, "the name of who changes a study")
        text = definition_text(definition)

        def work(connection: Connection) -> None:
            self._lock(connection)
            record = connection.execute(sql.RECORD, {"of_study": self._id}).scalar_one()
            stored = stored_definition(self.definition.stored_name, record, str(self._database.address))
            transitions.check_redefinition(stored, definition)
            if record != text:
                self._update(connection, record=text)
                now = self._database.now(connection)
                self._record(connection, Change(now, who, "redefine", None, bounded_reason(reason) or ""))

        self._database.write(work)
        self._seen = _Seen(definition)

    def note_stop(self, who: str, reason: str) -> None:
        checked_name(who, "a worker's name")

        def work(connection: Connection) -> None:
            self._lock(connection)
            self._record(connection, transitions.stop_record(who, reason, self._database.now(connection)))

        self._database.write(work)

    def changes(self) -> tuple[Change, ...]:
        def work(connection: Connection) -> tuple[Change, ...]:
            self._count(connection)
            rows = connection.execute(sql.CHANGES_OF_STUDY, {"of_study": self._id})
            return tuple(change_of(row, self._place) for row in rows)

        return self._database.read(work)

    def beat(self, worker: str) -> None:
        checked_name(worker, "a worker's name")

        def work(connection: Connection) -> None:
            version, now = self._lock(connection).version + 1, self._database.now(connection)
            values = {"of_study": self._id, "by_worker": worker, "now": now, "new_version": version}
            if connection.execute(sql.BEAT, values).rowcount:
                self._update(connection, version=version)

        self._database.write(work)

    def recover(self, silent_for: float, dead: Collection[str], retries: int) -> tuple[Trial, ...]:
        def work(connection: Connection) -> tuple[Trial, ...]:
            study = self._lock(connection)
            now = self._database.now(connection)
            running = self._select(connection, sql.RUNNING)
            abandoned = [trial for trial in running if transitions.is_abandoned(trial, silent_for, dead, now)]
            for trial in running:
                if transitions.is_ahead(trial, now):
                    self._save(connection, study, transitions.alive(trial, now))
            return tuple(
                self._save(connection, study, transitions.taken_away(trial, dead, retries, now)) for trial in abandoned
            )

        return self._database.write(work)

    def take_turn(self, holder: str, seconds: float, has_ended: Callable[[str], bool] = never) -> bool:
        checked_name(holder, "the name of a turn's holder")

        def work(connection: Connection) -> bool:
            study, now = self._lock(connection), self._database.now(connection)
            current, until = study.turn_holder, study.turn_until
            if not transitions.may_take_turn(holder, current, until, now, seconds, has_ended):
                return False
            self._update(connection, turn_holder=holder, turn_until=now + seconds)
            return True

        return self._database.write(work)

    def end_turn(self, holder: str) -> None:
        def work(connection: Connection) -> None:
            if self._lock(connection).turn_holder == holder:
                self._update(connection, turn_holder=None)

        self._database.write(work)

    def _first_to_start(self, connection: Connection, budget: float, accepts: Callable[[Trial], bool]) -> Trial | None:
        """The queued trial to start next; one row is read where none of them waits for a larger budget."""
        if accepts is always and (math.isinf(budget) or transitions.fits(self._costs(connection), budget)):
            return next(iter(self._select(connection, sql.FIRST_QUEUED)), None)
        queued = self._select(connection, sql.QUEUED)
        counts = self._costs(connection, sql.STARTED_COSTS) if queued and math.isfinite(budget) else {}
        return transitions.first_to_start(queued, counts, budget, accepts)

    def _committed(self, connection: Connection, budget: float) -> Mapping[float, int]:
        """How many trials of each cost count against a budget."""
        counts = self._costs(connection)
        if transitions.fits(counts, budget):
            return counts
        unstarted = [trial for trial in self._select(connection, sql.QUEUED) if trial.is_unstarted]
        return transitions.committed(self._costs(connection, sql.STARTED_COSTS), unstarted, budget)

    def _costs(self, connection: Connection, statement: Any = sql.COSTS) -> dict[float, int]:
        """How many trials there are of each cost."""
        rows = connection.execute(statement, {"of_study": self._id})
        return {cell(row, "cost", NUMBER, f"a trial of {self._place}"): row.runs for row in rows}

    def _refreshed(self, connection: Connection) -> tuple[Trial, ...]:
        """All trials, after reading what changed; writers take turns, so a version is complete when it is seen."""
        count, seen, place = self._count(connection), self._seen, self._place
        rows = connection.execute(sql.NEWER_TRIALS, {"of_study": self._id, "seen": seen.version}).all()
        trials, version = list(seen.trials), seen.version
        for row in rows:
            trial, of_trial = trial_of(row, seen.definition, place), cell(row, "version", COUNT, place)
            if trial.number > len(trials):
                raise damaged(place, f"trial {len(trials)} is missing")
            if of_trial > cell(row, "newest", COUNT, place):
                raise damaged(f"trial {trial.number} of {place}", f"version is {of_trial}, newer than the study")
            trials[trial.number : trial.number + 1] = [trial]
            version = max(version, of_trial)
        if len(trials) < count:
            raise damaged(place, f"it should have {count} trials, but number {len(trials)} is missing")
        seen.trials, seen.version = trials, version
        return tuple(trials)

    def _count(self, connection: Connection) -> int:
        """How many trials the study has."""
        row = connection.execute(sql.TRIAL_COUNT, {"of_study": self._id}).first()
        if row is None:
            raise self._deleted()
        return cell(row, "trial_count", COUNT, self._place)

    def _change(self, number: int, attempt: int, change: Callable[[Trial, float], Trial]) -> Trial:
        def work(connection: Connection) -> Trial:
            study = self._lock(connection)
            trial = transitions.owned(self._find(connection, study, number), number, attempt, study.trial_count)
            return self._save(connection, study, change(trial, self._database.now(connection)))

        return self._database.write(work)

    def _lock(self, connection: Connection) -> Row[Any, Any, Any, Any]:
        """The study's row; nobody else writes to this study until the transaction ends."""
        row = connection.execute(sql.LOCK_STUDY, {"of_study": self._id}).first()
        if row is None:
            raise self._deleted()
        for column, kind in _STUDY_COLUMNS.items():
            cell(row, column, kind, self._place)
        return row

    def _find(self, connection: Connection, study: Row[Any, Any, Any, Any], number: int) -> Trial | None:
        """The trial of this number, None if there is none."""
        known = 0 <= number < study.trial_count
        return next(iter(self._select(connection, sql.TRIAL, of_number=number)), None) if known else None

    def _record(self, connection: Connection, *changes: Change) -> None:
        first = connection.execute(sql.CHANGE_COUNT, {"of_study": self._id}).scalar_one()
        rows = [asdict(change) | {"study_id": self._id, "number": n} for n, change in enumerate(changes, first)]
        connection.execute(sql.ADD_CHANGE, rows)

    def _select(self, connection: Connection, statement: Any, **values: int) -> Sequence[Trial]:
        rows = connection.execute(statement, {"of_study": self._id, **values})
        return [trial_of(row, self.definition, self._place) for row in rows]

    def _save(self, connection: Connection, study: Row[Any, Any, Any, Any], trial: Trial) -> Trial:
        version = study.version + 1
        columns = life_columns(trial) | {"version": version}
        connection.execute(sql.UPDATE_TRIAL.values(columns), {"of_study": self._id, "of_number": trial.number})
        self._update(connection, version=version)
        return trial

    def _update(self, connection: Connection, **columns: Any) -> None:
        connection.execute(sql.UPDATE_STUDY.values(columns), {"of_study": self._id})

    def _deleted(self) -> StorageError:
        return StorageError(f"study {self.definition.stored_name!r} was deleted; create it again")


class SqlStorage:
    """Studies by name, in an SQLite file or on a PostgreSQL server.

    The first `create` makes the SQLite file and the tables; looking for a study creates nothing.

    Args:
        url: `sqlite:///file.db` or `postgresql+psycopg://user:password@host/database`.
        clock: seconds since 1970; None for the server's clock, or this machine's for SQLite.
        pause: waits before a retry.

    Raises:
        StorageError: if the database cannot be opened, or its schema version differs.
    """

    def __init__(self, url: str, clock: Clock | None = None, pause: Callable[[float], None] = time.sleep) -> None:
        self._address = parse_address(url)
        _check_folder(self._address)
        self._database = Database(self._address, clock, pause)
        self._has_tables = False
        self._look_for_tables()

    def create(self, definition: StudyDefinition) -> SqlStudy:
        name = checked_name(definition.stored_name)
        columns = {"name": name, "record": definition_text(definition)}
        columns |= {"version": 0, "trial_count": 0, "turn_until": 0.0}
        if self._row(name) is not None:  # also where nothing can be written
            raise _taken(name)

        def work(connection: Connection) -> int:
            lock_catalogue(connection)
            if not self._has_tables:
                check_version(make_tables(connection), self._address)
            if connection.execute(sql.FIND_STUDY, {"called": name}).first() is not None:
                raise _taken(name)
            connection.execute(sql.CREATE_STUDY, columns)
            return connection.execute(sql.FIND_STUDY, {"called": name}).one().id

        study_id = self._database.write(work)
        self._has_tables = True
        return SqlStudy(self._database, study_id, definition)

    def open(self, name: str) -> SqlStudy:
        row = self._found(name)
        return SqlStudy(self._database, row[0], stored_definition(name, row[1], str(self._address)))

    def names(self) -> tuple[str, ...]:
        if not self._look_for_tables():
            return ()
        rows = self._database.read(lambda connection: connection.execute(sql.NAMES).all())
        return tuple(cell(row, "name", NAME, f"a study in {self._address}") for row in rows)

    def delete(self, name: str) -> None:
        study_id, _ = self._found(name)

        def work(connection: Connection) -> bool:
            return connection.execute(sql.DELETE_STUDY, {"of_study": study_id}).rowcount > 0

        if not self._database.write(work):
            raise unknown_study(name, self.names())

    def close(self) -> None:
        self._database.close()

    def _found(self, name: str) -> tuple[int, str]:
        """Key and definition of the study of this name."""
        row = self._row(name) if _is_name(name) else None
        if row is None:
            raise unknown_study(name, self.names())
        return row.id, row.record

    def _row(self, name: str) -> Row[int, str] | None:
        if not self._look_for_tables():
            return None
        return self._database.read(lambda connection: connection.execute(sql.FIND_STUDY, {"called": name}).first())

    def _look_for_tables(self) -> bool:
        """Whether there are tables, of the current version; another process may have created them since."""
        if not self._has_tables and not self._address.is_missing:
            version = self._database.read(version_in)
            if version:
                check_version(version, self._address)
                self._has_tables = True
        return self._has_tables


def _taken(name: str) -> StudyExistsError:
    return StudyExistsError(f"study {name!r} exists already; open it, or choose another name")


def _is_name(name: str) -> bool:
    try:
        return bool(checked_name(name))
    except StorageError:
        return False


def _check_folder(address: Address) -> None:
    if address.file is None:
        return
    if not os.path.isdir(address.file.parent):  # unlike Path.is_dir, no error for a name that is too long
        raise StorageError(f"storage {address}: there is no folder {str(address.file.parent)!r}; create it first")
    if os.path.isdir(address.file):
        raise StorageError(f"storage {address}: this is a folder; pass the name of a file")
