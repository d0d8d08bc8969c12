"""Studies in memory: the contract without a disk, for as long as the process lives."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from fidelium.definition import StudyDefinition
from fidelium.errors import StorageError, StudyExistsError
from fidelium.history import Change, Trial, TrialState
from fidelium.storage import transitions
from fidelium.storage.base import Action, Annotation, Result, always, never
from fidelium.storage.serialise import bounded_reason, checked_name, unknown_study

Clock = Callable[[], float]
"""Seconds since 1970."""


class MemoryStudy:
    """The trials of one study, in a list.

    Args:
        definition: what the study is made from.
        clock: the storage's clock.
    """

    def __init__(self, definition: StudyDefinition, clock: Clock) -> None:
        self._definition = definition
        self._clock = clock
        self._lock = threading.Lock()  # held by every method: they happen one after another
        self._trials: list[Trial] = []
        self._changes: list[Change] = []
        self._turn: tuple[str, float] | None = None
        self._deleted = False

    @property
    def definition(self) -> StudyDefinition:
        return self._definition

    @property
    def is_shared(self) -> bool:
        return False

    def trials(self) -> tuple[Trial, ...]:
        with self._lock:
            self._check_is_there()
            return tuple(self._trials)

    def add(self, trial: Trial, *, alive: bool = False, budget: float = math.inf) -> Trial | None:
        with self._lock:
            self._check_is_there()
            if not transitions.is_next(trial, len(self._trials)):
                return None
            transitions.check_budget(trial, self._committed(budget), budget)
            self._trials.append(transitions.entered(trial, self._definition, alive, self._clock()))
            return self._trials[-1]

    def enqueue(self, trials: Sequence[Trial], who: str, budget: float = math.inf) -> tuple[Trial, ...]:
        checked_name(who, "the name of who adds a trial")
        with self._lock:
            self._check_is_there()
            count, now = len(self._trials), self._clock()
            added = transitions.enqueued(trials, count, self._committed(budget), budget, self._definition)
            self._trials += added
            self._changes += [transitions.enqueue_record(trial, who, now) for trial in added]
            return tuple(added)

    def claim(
        self, worker: str | None, budget: float = math.inf, accepts: Callable[[Trial], bool] = always
    ) -> Trial | None:
        if worker is not None:
            checked_name(worker, "a worker's name")
        with self._lock:
            self._check_is_there()
            queued = [trial for trial in self._trials if trial.state is TrialState.QUEUED]
            first = transitions.first_to_start(queued, self._started_costs(), budget, accepts) if queued else None
            return None if first is None else self._save(transitions.claimed(first, worker, self._clock()))

    def finish(self, number: int, attempt: int, result: Result) -> Trial:
        with self._lock:
            measured = self._definition.measures_costs
            return self._save(transitions.ended(self._owned(number, attempt), result, self._clock(), measured=measured))

    def requeue(
        self, number: int, attempt: int, reason: str | None = None, measured_cost: float | None = None
    ) -> Trial:
        with self._lock:
            cost = measured_cost if self._definition.measures_costs else None
            return self._save(transitions.given_back(self._owned(number, attempt), reason, cost))

    def amend(
        self, number: int, action: Action, who: str, reason: str | None = None, result: Result | None = None
    ) -> Trial:
        checked_name(who, "the name of who changes a trial")
        with self._lock:
            self._check_is_there()
            trial, now = transitions.known(self._found(number), number, len(self._trials)), self._clock()
            measured = self._definition.measures_costs
            amended = transitions.amended(trial, action, reason, result, now, measured=measured)
            self._changes.append(transitions.change_record(trial, action, who, reason, now))
            return self._save(amended)

    def annotate(self, number: int, annotation: Annotation, text: str, who: str) -> Trial:
        checked_name(who, "the name of who writes on a trial")
        with self._lock:
            self._check_is_there()
            trial = transitions.known(self._found(number), number, len(self._trials))
            written = transitions.annotated(trial, annotation, text)
            if written != trial:
                record = transitions.annotation_record(trial, written, annotation, who, text, self._clock())
                self._changes.append(record)
            return self._save(written)

    def redefine(self, definition: StudyDefinition, who: str, reason: str | None = None) -> None:
        checked_name(who, "the name of who changes a study")
        with self._lock:
            self._check_is_there()
            transitions.check_redefinition(self._definition, definition)
            if definition == self._definition:
                return
            self._trials = [transitions.redefined(each, definition) for each in self._trials]
            self._definition = definition
            self._changes.append(Change(self._clock(), who, "redefine", None, bounded_reason(reason) or ""))

    def note_stop(self, who: str, reason: str) -> None:
        checked_name(who, "a worker's name")
        with self._lock:
            self._check_is_there()
            self._changes.append(transitions.stop_record(who, reason, self._clock()))

    def changes(self) -> tuple[Change, ...]:
        with self._lock:
            self._check_is_there()
            return tuple(self._changes)

    def beat(self, worker: str) -> None:
        with self._lock:
            self._check_is_there()
            for trial in self._trials:
                if transitions.is_beating(trial, worker):
                    self._save(transitions.alive(trial, self._clock()))

    def recover(self, silent_for: float, dead: Collection[str], retries: int) -> tuple[Trial, ...]:
        with self._lock:
            self._check_is_there()
            now = self._clock()
            abandoned = [trial for trial in self._trials if transitions.is_abandoned(trial, silent_for, dead, now)]
            for trial in self._trials:
                if transitions.is_ahead(trial, now):
                    self._save(transitions.alive(trial, now))
            return tuple(self._save(transitions.taken_away(trial, dead, retries, now)) for trial in abandoned)

    def take_turn(self, holder: str, seconds: float, has_ended: Callable[[str], bool] = never) -> bool:
        checked_name(holder, "the name of a turn's holder")
        with self._lock:
            self._check_is_there()
            now = self._clock()
            held = self._turn or (None, 0.0)
            if not transitions.may_take_turn(holder, *held, now, seconds, has_ended):
                return False
            self._turn = (holder, now + seconds)
            return True

    def end_turn(self, holder: str) -> None:
        with self._lock:
            self._check_is_there()
            if self._turn is not None and self._turn[0] == holder:
                self._turn = None

    def mark_deleted(self) -> None:
        """Mark the study as deleted: every further call raises."""
        with self._lock:
            self._deleted = True

    def _started_costs(self) -> Counter[float]:
        return Counter(each.cost for each in self._trials if not each.is_unstarted)

    def _committed(self, budget: float) -> Mapping[float, int]:
        unstarted = [each for each in self._trials if each.is_unstarted]
        return transitions.committed(self._started_costs(), unstarted, budget)

    def _owned(self, number: int, attempt: int) -> Trial:
        self._check_is_there()
        return transitions.owned(self._found(number), number, attempt, len(self._trials))

    def _found(self, number: int) -> Trial | None:
        return self._trials[number] if 0 <= number < len(self._trials) else None

    def _save(self, trial: Trial) -> Trial:
        self._trials[trial.number] = trial
        return trial

    def _check_is_there(self) -> None:
        if self._deleted:
            raise StorageError(f"study {self._definition.stored_name!r} was deleted; create it again")


class MemoryStorage:
    """Studies by name, in a dictionary.

    Args:
        clock: seconds since 1970; tests pass their own to avoid waiting.
    """

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._studies: dict[str, MemoryStudy] = {}

    def create(self, definition: StudyDefinition) -> MemoryStudy:
        name = checked_name(definition.stored_name)
        with self._lock:
            if name in self._studies:
                raise StudyExistsError(f"study {name!r} exists already; open it, or choose another name")
            self._studies[name] = MemoryStudy(definition, self._clock)
            return self._studies[name]

    def open(self, name: str) -> MemoryStudy:
        with self._lock:
            if name not in self._studies:
                raise unknown_study(name, self._studies)
            return self._studies[name]

    def names(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._studies)

    def delete(self, name: str) -> None:
        with self._lock:
            if name not in self._studies:
                raise unknown_study(name, self._studies)
            self._studies.pop(name).mark_deleted()

    def close(self) -> None:
        """Nothing to close."""
