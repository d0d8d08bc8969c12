"""The trials of one study in a database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from fidelium.errors import StorageError
from fidelium.history import Trial
from fidelium.storage import life
from fidelium.storage.base import Outcome, StudyRecord
from fidelium.storage.sql import statements as sql
from fidelium.storage.sql.database import Database
from fidelium.storage.sql.statements import fixed_columns, life_columns, trial_of
from fidelium.storage.text import checked_name


class SqlStudy:
    """One study's rows. Every write first locks the study's own row, so writers happen one after another.

    Args:
        database: where it is.
        study_id: its key there.
        record: what it is made from.
    """

    def __init__(self, database: Database, study_id: int, record: StudyRecord) -> None:
        self._database = database
        self._id = study_id
        self._record = record
        self._trials: list[Trial] = []  # what was read before, up to version _seen; touched inside `read` only
        self._seen = 0

    @property
    def record(self) -> StudyRecord:
        return self._record

    def trials(self) -> tuple[Trial, ...]:
        return self._database.read(self._refreshed)

    def add(self, trial: Trial, *, alive: bool = False) -> Trial | None:
        fixed = fixed_columns(trial, self._record.ladder)

        def work(connection: Connection) -> Trial | None:
            study = self._lock(connection)
            if not life.is_next(trial, study.trial_count):
                return None
            added = life.entered(trial, alive, self._database.now(connection))
            version = study.version + 1
            connection.execute(sql.ADD_TRIAL, fixed | life_columns(added) | {"study_id": self._id, "version": version})
            self._update(connection, version=version, trial_count=study.trial_count + 1)
            return added

        return self._database.write(work)

    def claim(self, worker: str | None) -> Trial | None:
        if worker is not None:
            checked_name(worker, "a worker's name")

        def work(connection: Connection) -> Trial | None:
            study = self._lock(connection)
            queued = self._select(connection, sql.FIRST_QUEUED)
            if not queued:
                return None
            return self._save(connection, study, life.claimed(queued[0], worker, self._database.now(connection)))

        return self._database.write(work)

    def finish(self, number: int, attempt: int, outcome: Outcome) -> Trial:
        return self._change(number, attempt, lambda trial, now: life.ended(trial, outcome, now))

    def requeue(self, number: int, attempt: int, reason: str | None = None) -> Trial:
        return self._change(number, attempt, lambda trial, now: life.given_back(trial, reason))

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
            abandoned = [trial for trial in running if life.is_abandoned(trial, silent_for, dead, now)]
            return tuple(
                self._save(connection, study, life.taken_away(trial, dead, retries, now)) for trial in abandoned
            )

        return self._database.write(work)

    def take_turn(self, holder: str, seconds: float) -> bool:
        checked_name(holder, "the name of a turn's holder")

        def work(connection: Connection) -> bool:
            study, now = self._lock(connection), self._database.now(connection)
            if not life.may_take_turn(holder, study.turn_holder, study.turn_until, now):
                return False
            self._update(connection, turn_holder=holder, turn_until=now + seconds)
            return True

        return self._database.write(work)

    def end_turn(self, holder: str) -> None:
        def work(connection: Connection) -> None:
            if self._lock(connection).turn_holder == holder:
                self._update(connection, turn_holder=None)

        self._database.write(work)

    def _refreshed(self, connection: Connection) -> tuple[Trial, ...]:
        """All trials, after reading what changed; writers take turns, so a version is complete when it is seen."""
        if connection.execute(sql.STUDY_EXISTS, {"of_study": self._id}).first() is None:
            raise self._deleted()
        rows = connection.execute(sql.CHANGES, {"of_study": self._id, "seen": self._seen}).all()
        for row in rows:
            self._trials[row.number : row.number + 1] = [trial_of(row, self._record.ladder)]
        self._seen = max([self._seen, *(row.version for row in rows)])
        return tuple(self._trials)

    def _change(self, number: int, attempt: int, change: Callable[[Trial, float], Trial]) -> Trial:
        def work(connection: Connection) -> Trial:
            study = self._lock(connection)
            known = 0 <= number < study.trial_count
            found = self._select(connection, sql.TRIAL, of_number=number) if known else []
            trial = life.owned(found[0] if found else None, number, attempt, study.trial_count)
            return self._save(connection, study, change(trial, self._database.now(connection)))

        return self._database.write(work)

    def _lock(self, connection: Connection) -> Row[Any, Any, Any, Any]:
        """The study's row; nobody else writes to this study until the transaction ends."""
        row = connection.execute(sql.LOCK_STUDY, {"of_study": self._id}).first()
        if row is None:
            raise self._deleted()
        return row

    def _select(self, connection: Connection, statement: Any, **values: int) -> Sequence[Trial]:
        rows = connection.execute(statement, {"of_study": self._id, **values})
        return [trial_of(row, self._record.ladder) for row in rows]

    def _save(self, connection: Connection, study: Row[Any, Any, Any, Any], trial: Trial) -> Trial:
        version = study.version + 1
        columns = life_columns(trial) | {"version": version}
        connection.execute(sql.UPDATE_TRIAL.values(columns), {"of_study": self._id, "of_number": trial.number})
        self._update(connection, version=version)
        return trial

    def _update(self, connection: Connection, **columns: Any) -> None:
        connection.execute(sql.UPDATE_STUDY.values(columns), {"of_study": self._id})

    def _deleted(self) -> StorageError:
        return StorageError(f"study {self._record.name!r} was deleted; create it again")
