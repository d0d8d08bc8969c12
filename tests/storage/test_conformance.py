"""Every storage obeys the laws of `fidelium.testing.storages`; a storage that does not is caught."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from fidelium.storage.base import always, never
from fidelium.storage.memory import MemoryStorage, MemoryStudy
from fidelium.testing import storages as laws
from fidelium.testing.storage_cases import StorageCase as Case
from fidelium.testing.storages import LAWS, check_storage


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_every_storage_obeys(law, open_again, clock):
    law(Case(open_again, clock.wait))
    assert open_again().names() == ()  # and leaves nothing behind


def test_all_laws_at_once_by_the_real_clock():
    storage = MemoryStorage()
    check_storage(lambda: storage)


@pytest.mark.parametrize(
    "law", [laws.turns_are_exclusive_and_end, laws.silent_workers_lose_their_trials, laws.heartbeats_are_seen_by_all]
)
def test_times_by_the_databases_own_clock(law, url):
    from fidelium.storage.sql.storage import SqlStorage

    law(Case(lambda: SqlStorage(url)))
    storage = SqlStorage(url)
    assert storage.names() == ()
    storage.close()


class Forgetful(MemoryStudy):
    """Does not look at the attempt."""

    def finish(self, number: int, attempt: int, result: Any) -> Any:
        return MemoryStudy.finish(self, number, self.trials()[number].attempt, result)


class Generous(MemoryStudy):
    """Hands out a running trial again."""

    def claim(self, worker: str | None, budget: float = math.inf, accepts: Any = always) -> Any:
        return MemoryStudy.claim(self, worker, budget, accepts) or next(iter(self.trials()), None)


class Overwriting(MemoryStudy):
    """Takes a number that is taken for the next one."""

    def add(self, trial: Any, *, alive: bool = False, budget: float = math.inf) -> Any:
        return MemoryStudy.add(self, replace(trial, number=len(self.trials())), alive=alive, budget=budget)


class Untyped(MemoryStudy):
    """Turns truth values into numbers."""

    def add(self, trial: Any, *, alive: bool = False, budget: float = math.inf) -> Any:
        params = {name: int(value) if isinstance(value, bool) else value for name, value in trial.params.items()}
        return MemoryStudy.add(self, replace(trial, params=params), alive=alive, budget=budget)


class Stubborn(MemoryStudy):
    """Queues a trial again for ever."""

    def recover(self, silent_for: float, dead: Any, retries: int) -> Any:
        return MemoryStudy.recover(self, silent_for, dead, retries=10**9)


class Impatient(MemoryStudy):
    """Takes trials from people, too."""

    def add(self, trial: Any, *, alive: bool = False, budget: float = math.inf) -> Any:
        return MemoryStudy.add(self, trial, alive=True, budget=budget)


class Spendthrift(MemoryStudy):
    """Adds what the budget does not pay for."""

    def add(self, trial: Any, *, alive: bool = False, budget: float = math.inf) -> Any:
        return MemoryStudy.add(self, trial, alive=alive)


class Greedy(MemoryStudy):
    """Gives the turn to all."""

    def take_turn(self, holder: str, seconds: float, has_ended: Any = never) -> bool:
        return MemoryStudy.take_turn(self, holder, seconds, has_ended) or True


class Patient(MemoryStudy):
    """Waits for dead holders of a turn."""

    def take_turn(self, holder: str, seconds: float, has_ended: Any = never) -> bool:
        return MemoryStudy.take_turn(self, holder, seconds)


class Blind(MemoryStudy):
    """Shows the first trials as they were when there were six."""

    def trials(self) -> Any:
        now = MemoryStudy.trials(self)
        return self.__dict__.setdefault("first", now)[:5] + now[5:] if len(now) > 5 else now


class Deaf(MemoryStudy):
    """Takes no heartbeat."""

    def beat(self, worker: str) -> None:
        self.trials()


class Discreet(MemoryStudy):
    """Does not say who has changed what."""

    def changes(self) -> Any:
        return MemoryStudy.changes(self)[:0]


class Inflationary(MemoryStudy):
    """Charges all trials what they cost now."""

    def trials(self) -> Any:
        return tuple(replace(trial, charged=None) for trial in MemoryStudy.trials(self))


class Unforgiving(MemoryStudy):
    """Restores nothing."""

    def amend(self, number: int, action: Any, who: str, reason: Any = None, result: Any = None) -> Any:
        amended = MemoryStudy.amend(self, number, action, who, reason, result)
        return replace(amended, excluded=amended.excluded or action == "restore")


class Rounding(MemoryStudy):
    """Rounds outcomes."""

    def trials(self) -> Any:
        found = MemoryStudy.trials(self)
        return tuple(replace(t, outcomes={name: round(x, 9) for name, x in t.outcomes.items()}) for t in found)


class Nostalgic(MemoryStudy):
    """Keeps the outcomes of what is run again."""

    def amend(self, number: int, action: Any, who: str, reason: Any = None, result: Any = None) -> Any:
        before = self.trials()[number]
        return replace(MemoryStudy.amend(self, number, action, who, reason, result), outcomes=before.outcomes)


class Unjudging(MemoryStudy):
    """Does not know of constraints."""

    def trials(self) -> Any:
        return tuple(replace(trial, constraints=()) for trial in MemoryStudy.trials(self))


class Anonymous(MemoryStudy):
    """Does not say who added a trial to the queue."""

    def enqueue(self, trials: Any, who: str, budget: float = math.inf) -> Any:
        added = MemoryStudy.enqueue(self, trials, who, budget)
        del self._changes[len(self._changes) - len(added) :]
        return added


class Overdrawn(MemoryStudy):
    """Starts what the budget does not pay for."""

    def claim(self, worker: str | None, budget: float = math.inf, accepts: Any = always) -> Any:
        return MemoryStudy.claim(self, worker, math.inf, accepts)


class Hoarding(MemoryStudy):
    """Keeps every tag."""

    def annotate(self, number: int, annotation: Any, text: str, who: str) -> Any:
        before = self.trials()[number] if 0 <= number < len(self.trials()) else None
        written = MemoryStudy.annotate(self, number, annotation, text, who)
        return self._save(replace(written, tags=before.tags)) if before and annotation == "untag" else written


class Thrifty(MemoryStudy):
    """Forgets what earlier attempts took."""

    def requeue(self, number: int, attempt: int, reason: Any = None, measured_cost: Any = None) -> Any:
        return MemoryStudy.requeue(self, number, attempt, reason)


class Guessing(MemoryStudy):
    """Leaves a trial at what was expected of it."""

    def finish(self, number: int, attempt: int, result: Any) -> Any:
        return MemoryStudy.finish(self, number, attempt, replace(result, measured_cost=None))


CAUGHT_BY = {
    Anonymous: laws.people_may_enqueue,
    Overdrawn: laws.what_a_budget_does_not_pay_for_waits,
    Hoarding: laws.people_may_write_on_trials,
    Thrifty: laws.every_measured_attempt_is_paid,
    Guessing: laws.measured_costs_replace_expected_ones,
    Rounding: laws.outcomes_come_back_bit_by_bit,
    Nostalgic: laws.a_retried_trial_forgets_its_outcomes,
    Unjudging: laws.trials_are_judged_by_the_definitions_constraints,
    Patient: laws.a_dead_holders_turn_is_free,
    Discreet: laws.changes_say_who_when_and_why,
    Inflationary: laws.charged_costs_stay,
    Unforgiving: laws.people_may_exclude_and_restore,
    Forgetful: laws.a_late_worker_is_refused,
    Generous: laws.queued_trials_are_claimed_in_order,
    Overwriting: laws.numbers_have_no_gaps,
    Untyped: laws.trials_come_back_as_they_were_added,
    Stubborn: laws.dead_workers_lose_their_trials_until_they_are_lost,
    Impatient: laws.silent_workers_lose_their_trials,
    Spendthrift: laws.the_budget_holds,
    Greedy: laws.turns_are_exclusive_and_end,
    Blind: laws.all_objects_see_the_same,
    Deaf: laws.heartbeats_are_seen_by_all,
}


class Faulty(MemoryStorage):
    """A storage whose studies are of another kind; its second view of a study is a sound one."""

    def __init__(self, kind: type[MemoryStudy], clock: Any) -> None:
        MemoryStorage.__init__(self, clock)
        self._kind = kind

    def create(self, definition: Any) -> MemoryStudy:
        study = MemoryStorage.create(self, definition)
        study.__class__ = self._kind
        return study


@pytest.mark.parametrize("kind", CAUGHT_BY, ids=lambda kind: kind.__name__)
def test_a_faulty_storage_is_caught(kind, clock):
    storage = Faulty(kind, clock)
    with pytest.raises(AssertionError, match="expected"):
        CAUGHT_BY[kind](Case(lambda: storage, clock.wait))
