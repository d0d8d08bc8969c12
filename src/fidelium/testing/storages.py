"""Conformance tests for storages: the contract of `fidelium.storage.base`, a law per sentence. For a new storage run

    check_storage(lambda: MyStorage("place"))

or one law per test, `@pytest.mark.parametrize("law", LAWS)` with `law(StorageCase(open_again))`. A law that does not
hold raises an AssertionError with the expected and the actual value. Every law creates its own study, so all of them
can use the same place.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from fidelium.errors import (
    BudgetError,
    StorageError,
    StudyExistsError,
    TrialError,
    UnknownNameError,
)
from fidelium.history import TrialState
from fidelium.storage.base import Result, Storage, StudyStore
from fidelium.testing.storage_cases import (
    DONE,
    FOREVER,
    HOSTILE,
    StorageCase,
    add,
    claim,
    known_time,
    make_definition,
    make_trial,
    random_step,
    refused,
    require,
    require_same,
    types_of,
    work,
)
from fidelium.testing.storage_changes import (
    a_definition_is_replaced_once,
    changes_say_who_when_and_why,
    charged_costs_stay,
    people_may_correct,
    people_may_exclude_and_restore,
    people_may_retry,
)
from fidelium.testing.storage_costs import (
    a_corrected_trial_costs_what_was_measured,
    declared_costs_are_not_measured,
    every_measured_attempt_is_paid,
    measured_costs_replace_expected_ones,
)
from fidelium.testing.storage_outcomes import (
    a_retried_trial_forgets_its_outcomes,
    outcomes_come_back_bit_by_bit,
    standard_errors_come_back_bit_by_bit,
    trials_are_judged_by_the_definitions_constraints,
)
from fidelium.testing.storage_steering import (
    people_may_enqueue,
    people_may_write_on_trials,
    stops_are_recorded,
    what_a_budget_does_not_pay_for_waits,
)

Law = Callable[[StorageCase], None]


def check_storage(open_again: Callable[[], Storage], wait: Callable[[float], None] = time.sleep) -> None:
    """Check every law on a storage.

    Args:
        open_again: returns a new storage object for the same studies on each call.
        wait: advances the storage's clock by this many seconds.

    Raises:
        AssertionError: if a law does not hold.
    """
    for law in LAWS:
        law(StorageCase(open_again, wait))


def a_study_comes_back_as_it_was_created(case: StorageCase) -> None:
    """`definition` is what was given to `create`, to the last bit and type."""
    storage = case.open()
    definition = make_definition()
    created = storage.create(definition)
    for store in (created, storage.open(definition.stored_name), case.open().open(definition.stored_name)):
        require(isinstance(store, StudyStore), "a StudyStore", type(store))
        require_same("the definition", store.definition, definition)
        choices = store.definition.space.parameters["choice"]
        require_same("the types of the choices", types_of(getattr(choices, "choices", ())), types_of(HOSTILE))
    require_same("trials of a new study", created.trials(), ())
    storage.delete(definition.stored_name)


def names_are_unique_and_in_order(case: StorageCase) -> None:
    """`names` lists the oldest first; names are unique; hostile names work, names that cannot be stored are refused."""
    storage = case.open()
    prefix = str(uuid.uuid4())
    names = [f"{prefix} {end}" for end in ("z", "a", "'; DROP TABLE x; --", "漢字\U0001f600", "%s", "x" * 200)]
    for name in names:
        storage.create(make_definition(name))
    require_same("names, oldest first", [name for name in case.open().names() if name in names], names)
    for name in names:
        refused(StudyExistsError, f"a second study {name!r}", lambda name=name: storage.create(make_definition(name)))
        storage.delete(name)
    for name in ("a\0b", "\ud800", "x" * 256):
        refused(StorageError, f"the name {name[:9]!r}", lambda name=name: storage.create(make_definition(name)))
    for name in ("", " ", "a\0b", "\ud800", "x" * 256):
        refused(UnknownNameError, f"opening {name[:9]!r}", lambda name=name: storage.open(name))


def an_unknown_study_is_refused(case: StorageCase) -> None:
    """`open` and `delete` list the existing studies in their error."""
    with case.stores() as (store,):
        for method in (case.open().open, case.open().delete):
            error = refused(UnknownNameError, "an unknown study", lambda method=method: method("no such study"))
            require(store.definition.stored_name in str(error), "a message that lists the names", error)


def a_deleted_study_is_gone(case: StorageCase) -> None:
    """Objects that still refer to it raise an error, and a new study of its name starts empty."""
    with case.stores(2) as (store, other):
        add(store, 0)
        other.trials()
        case.open().delete(store.definition.stored_name)
        again = case.open().create(store.definition)
        require_same("trials of the new study", again.trials(), ())
        for held in (store, other):
            refused(StorageError, "reading a deleted study", held.trials)
            refused(StorageError, "adding to a deleted study", lambda held=held: held.add(make_trial(0)))
            refused(StorageError, "claiming from a deleted study", lambda held=held: held.claim("w"))
        require_same("trials of the new study", again.trials(), ())


def numbers_have_no_gaps(case: StorageCase) -> None:
    """If two add the same number one succeeds, the other gets None, and no number is skipped."""
    with case.stores(2) as (store, other):
        require_same("the first trial's number", add(store, 0).number, 0)
        require_same("adding a taken number", other.add(replace(make_trial(0), params=make_trial(1).params)), None)
        require_same("the next one", add(other, 1).number, 1)
        refused(TrialError, "a number beyond the next", lambda: store.add(make_trial(3)))
        refused(TrialError, "a number below zero", lambda: store.add(make_trial(-1)))
        require_same("numbers", [trial.number for trial in store.trials()], [0, 1])
        require_same("parameters of the first", store.trials()[0].params, make_trial(0).params)


def the_budget_holds(case: StorageCase) -> None:
    """`add` refuses what the rest of the budget does not pay for; given data is free, and the sum is exact."""
    with case.stores(2) as (store, other):
        # trials cost 1 and 10.5 in turn
        for number in range(3):
            other.add(make_trial(number), budget=12.5)
        error = refused(BudgetError, "a trial beyond the budget", lambda: store.add(make_trial(3), budget=12.5))
        require("12.5" in str(error), "a message that names the budget", error)
        require_same("trials after the refusal", len(store.trials()), 3)
        given = replace(make_trial(3, TrialState.DONE), value=1.0, given=True)
        require(store.add(given, budget=12.5) is not None, "given data is free", None)
        require_same("a taken number, whatever the budget", store.add(make_trial(0), budget=1.0), None)
        require(store.add(make_trial(4), budget=13.5) is not None, "a trial that just fits is added", None)


def trials_come_back_as_they_were_added(case: StorageCase) -> None:
    """Parameters to the last bit and type, the fidelity, and whether the value was given."""
    with case.stores(2) as (store, other):
        for number in range(len(HOSTILE)):
            given = replace(make_trial(number, TrialState.DONE), value=number / 7, given=True)
            added = store.add(given if number % 2 else make_trial(number))
            found = other.trials()[number]
            require_same("what add returns, against what trials shows", added, found)
            require_same("the parameters", found.params, make_trial(number).params)
            require_same("their types", types_of(found.params.values()), types_of(make_trial(number).params.values()))
            require_same("their order", list(found.params), list(make_trial(number).params))
            require_same("the fidelity", found.fidelity, make_trial(number).fidelity)
            require_same("given", found.given, bool(number % 2))
            require_same("the value", found.value, number / 7 if number % 2 else None)


def what_is_returned_is_the_callers_own(case: StorageCase) -> None:
    """Changing a dictionary that was passed in does not change what is stored."""
    with case.stores() as (store,):
        trial = make_trial(0)
        store.add(trial)
        trial.params["x"] = -1.0
        require_same("the stored parameters", store.trials()[0].params, make_trial(0).params)


def queued_trials_of_a_higher_priority_are_claimed_first(case: StorageCase) -> None:
    """Of equal ones the lowest number; the priority stays when a trial is queued again."""
    with case.stores(2) as (store, other):
        for number, priority in enumerate((0, 2, -1, 2)):
            store.add(replace(make_trial(number, TrialState.QUEUED), priority=priority))
        require_same("priorities", [trial.priority for trial in other.trials()], [0, 2, -1, 2])
        require_same("claimed", [claim(other, "w").number for _ in range(2)], [1, 3])
        store.requeue(1, 1, "interrupted")
        require_same("claimed", [claim(other, "w").number for _ in range(3)], [1, 0, 2])


def queued_trials_are_claimed_in_order(case: StorageCase) -> None:
    """The lowest number first, once each, owned by the claimer, alive, one attempt later."""
    with case.stores(2) as (store, other):
        require_same("a claim when nothing is queued", store.claim("w"), None)
        queued = [add(store, number) for number in range(3)]
        require_same("attempts of queued trials", [trial.attempt for trial in queued], [0, 0, 0])
        claimed = [claim(who, worker) for who, worker in ((store, "a"), (other, "b"), (store, "a"))]
        require_same("numbers claimed", [trial.number for trial in claimed], [0, 1, 2])
        require_same("states", {trial.state for trial in claimed}, {TrialState.RUNNING})
        require_same("owners", [trial.worker for trial in claimed], ["a", "b", "a"])
        require_same("attempts", [trial.attempt for trial in claimed], [1, 1, 1])
        require(all(trial.heartbeat is not None for trial in claimed), "heartbeats", claimed)
        require_same("a claim when all are running", other.claim("b"), None)
        require_same("trials, against what claim returned", list(store.trials()), claimed)


def finished_trials_stay_finished(case: StorageCase) -> None:
    """Value, reason and measured cost are kept; a second finish is refused and changes nothing."""
    failed = Result(TrialState.FAILED, reason="mesher: 'x' < 0\nline 2", measured_cost=2.5)
    with case.stores(2) as (store, other):
        for number, result in enumerate((DONE, failed)):
            add(store, number)
            trial = claim(other, "w")
            ended = store.finish(number, 1, result)
            wanted = replace(trial, state=result.state, value=result.value, reason=result.reason)
            wanted = replace(wanted, measured_cost=result.measured_cost, finished=ended.finished)
            require_same("the finished trial", ended, wanted)
            require_same("what another sees", other.trials()[number], ended)
        before = store.trials()
        for number, attempt in ((0, 1), (1, 1), (0, 2), (2, 1), (-1, 1), (10**30, 1)):
            for method in (
                lambda n=number, a=attempt: store.finish(n, a, DONE),
                lambda n=number, a=attempt: other.requeue(n, a),
            ):
                refused(TrialError, f"ending trial {number} in attempt {attempt}", method)
        require_same("trials after refused calls", other.trials(), before)


def a_late_worker_is_refused(case: StorageCase) -> None:
    """Only the last attempt can be finished: no result is recorded twice."""
    with case.stores(2) as (late, other):
        add(late, 0)
        refused(TrialError, "finishing a trial that was never started", lambda: late.finish(0, 0, DONE))
        claim(late, "late")
        other.recover(FOREVER, ["late"], retries=5)
        require_same("the second attempt", claim(other, "new").attempt, 2)
        before = other.trials()
        refused(TrialError, "finishing an old attempt", lambda: late.finish(0, 1, DONE))
        refused(TrialError, "giving back an old attempt", lambda: late.requeue(0, 1))
        refused(TrialError, "finishing an attempt to come", lambda: late.finish(0, 3, DONE))
        require_same("trials after refused calls", late.trials(), before)
        require_same("the owner's value", other.finish(0, 2, DONE).value, DONE.value)


def a_late_result_is_taken_while_nobody_runs_the_trial(case: StorageCase) -> None:
    """A trial that is queued again, and not started since, is finished by its last attempt; nobody starts it then."""
    with case.stores(2) as (late, other):
        add(late, 0)
        claim(late, "late")
        other.recover(FOREVER, ["late"], retries=5)
        refused(TrialError, "finishing an attempt to come", lambda: late.finish(0, 2, DONE))
        ended = late.finish(0, 1, DONE)
        found = (ended.state, ended.value, ended.attempt, ended.reason)
        require_same("the finished trial", found, (TrialState.DONE, DONE.value, 1, None))
        require_same("a claim afterwards", other.claim("new"), None)
        refused(TrialError, "finishing it twice", lambda: other.finish(0, 1, DONE))


def a_trial_given_back_is_started_again(case: StorageCase) -> None:
    """It keeps its number and design, and the reason until it is started again."""
    with case.stores() as (store,):
        add(store, 0)
        add(store, 1)
        first = claim(store, "a")
        back = store.requeue(0, 1, "interrupted")
        require_same("state and reason", (back.state, back.reason, back.attempt), (TrialState.QUEUED, "interrupted", 1))
        again = claim(store, "b")
        require_same("claimed before trial 1", (again.number, again.attempt, again.worker), (0, 2, "b"))
        require_same("reason of a running trial", again.reason, None)
        require_same("design", (again.params, again.fidelity), (first.params, first.fidelity))


def reasons_may_hold_anything(case: StorageCase) -> None:
    """Characters that databases refuse are escaped, and a very long reason keeps its head and tail."""
    with case.stores(2) as (store, other):
        reasons = ["a\0b", "\ud800", "ä漢\U0001f600\n'\"%", "head" + "x" * 3_000_000 + "tail"]
        for number, reason in enumerate(reasons):
            add(store, number)
            claim(store, "w")
            given_back = store.requeue(number, 1, reason).reason
            claim(store, "w")
            kept = store.finish(number, 2, Result(TrialState.FAILED, reason=reason)).reason or ""
            require_same("the reason of a trial given back, against that of a failed one", given_back, kept)
            require_same("what another sees", other.trials()[number].reason, kept)
            kept.encode()  # halves of surrogate pairs would be refused here
            require("\0" not in kept and len(kept) < 20_000, "a reason without NUL, of less than 20,000 letters", kept)
        require_same("a harmless reason", store.trials()[2].reason, reasons[2])
        cut = store.trials()[3].reason or ""
        require(cut.startswith("head") and cut.endswith("tail"), "head and tail of a long reason", cut[:20])


def silent_workers_lose_their_trials(case: StorageCase) -> None:
    """By their heartbeat; a trial without one belongs to a person and is never taken back."""
    with case.stores(2) as (store, other):
        add(store, 0, TrialState.RUNNING, "person")
        add(store, 1, TrialState.RUNNING, None)
        add(store, 2, TrialState.RUNNING, "silent", alive=True)
        add(store, 3)
        claim(store, "lively")
        add(store, 4)
        require_same("the heartbeat of a claim without a worker", claim(store, None).heartbeat, None)
        require_same("trials taken before anyone is silent", other.recover(FOREVER, [], retries=1), ())
        case.wait(1.2)
        other.beat("lively")
        taken = other.recover(0.8, [], retries=1)
        require_same("trials taken", [(trial.number, trial.state) for trial in taken], [(2, TrialState.QUEUED)])
        require("silent" in (taken[0].reason or ""), "a reason that names the worker", taken[0].reason)
        running = [trial.number for trial in store.trials() if trial.state is TrialState.RUNNING]
        require_same("trials still running", running, [0, 1, 3, 4])


def dead_workers_lose_their_trials_until_they_are_lost(case: StorageCase) -> None:
    """Queued again at most `retries` times, then lost permanently."""
    with case.stores() as (store,):
        add(store, 0)
        for attempt in (1, 2, 3):
            require_same("attempt", claim(store, "fragile").attempt, attempt)
            (taken,) = store.recover(FOREVER, ["fragile", "unknown"], retries=2)
            require_same(f"state after {attempt}", taken.state, TrialState.LOST if attempt > 2 else TrialState.QUEUED)
        require_same("a claim when all are lost", store.claim("w"), None)
        refused(TrialError, "finishing a lost trial", lambda: store.finish(0, 3, DONE))
        require_same("nothing is taken twice", store.recover(0.0, ["fragile"], retries=9), ())
        require(store.trials()[0].finished is not None, "the time when it was lost", store.trials()[0])
        add(store, 1, TrialState.RUNNING, "asker")
        (taken,) = store.recover(FOREVER, ["asker"], retries=1)
        require_same("a dead asker's trial", taken.state, TrialState.QUEUED)


def heartbeats_are_seen_by_all(case: StorageCase) -> None:
    """`beat` renews only the running trials of its worker."""
    with case.stores(2) as (store, other):
        for number in range(3):
            add(store, number)
        claim(store, "a")
        claim(store, "b")
        claim(store, "a")
        store.finish(0, 1, DONE)
        before = other.trials()
        case.wait(1.0)
        store.beat("a")
        store.beat("nobody")
        after = other.trials()
        require_same("trials of others, and finished ones", after[:2], before[:2])
        require(known_time(after[2].heartbeat) > known_time(before[2].heartbeat), "a later heartbeat", after[2])
        require_same("all else", replace(after[2], heartbeat=None), replace(before[2], heartbeat=None))


def times_are_the_storages_own(case: StorageCase) -> None:
    """Times passed in are ignored: the storage's clock sets them, and they increase."""
    with case.stores() as (store,):
        odd = replace(make_trial(0, TrialState.RUNNING, "w"), started=5.0, heartbeat=6.0, finished=7.0)
        running = store.add(odd, alive=True)
        assert running is not None
        require(known_time(running.started) > 7.0 and running.finished is None, "times of the storage", running)
        require_same("heartbeat at the start", running.heartbeat, running.started)
        case.wait(0.5)
        require(known_time(store.finish(0, 1, DONE).finished) > known_time(running.started), "a later time", running)
        given = store.add(replace(make_trial(1, TrialState.DONE), value=1.0, given=True, started=5.0))
        assert given is not None
        require(
            given.started is None and known_time(given.finished) >= known_time(running.started), "times of data", given
        )


def turns_are_exclusive_and_end(case: StorageCase) -> None:
    """One holder at a time, who may renew it; it expires or its holder ends it, nobody else can."""
    with case.stores(2) as (store, other):
        require_same("a free turn", store.take_turn("a", 60.0), True)
        require_same("a taken turn", other.take_turn("b", 60.0), False)
        require_same("renewing", other.take_turn("a", 60.0), True)
        other.end_turn("b")
        require_same("a turn that another ended", other.take_turn("b", 60.0), False)
        store.end_turn("a")
        store.end_turn("a")
        require_same("a turn that its holder ended", other.take_turn("b", 0.5), True)
        case.wait(0.8)
        require_same("a turn that is over", store.take_turn("a", 60.0), True)


def a_dead_holders_turn_is_free(case: StorageCase) -> None:
    """Whoever knows that the holder has ended does not wait for the end of its turn."""
    with case.stores(2) as (store, other):
        require_same("a free turn", store.take_turn("a", 60.0), True)
        require_same("a living holder's turn", other.take_turn("b", 60.0, lambda name: name != "a"), False)
        require_same("a dead holder's turn", other.take_turn("b", 60.0, lambda name: name == "a"), True)
        require_same("the dead one's renewal", store.take_turn("a", 60.0), False)


def all_objects_see_the_same(case: StorageCase) -> None:
    """After each of many random calls through two objects, both and a new one show the same trials."""
    generator = random.Random(0)
    with case.stores(3) as (store, other, third):
        for step in range(60):
            changed = random_step(generator.choice((store, other)), generator)
            seen = store.trials()
            require_same("trials, against what was returned", [seen[trial.number] for trial in changed], changed)
            require_same("what another object sees", other.trials(), seen)
            if step % 20 == 19:
                require_same("what a third object sees, which reads rarely", third.trials(), seen)
                storage = case.open()
                require_same("what a new object sees", storage.open(store.definition.stored_name).trials(), seen)
                storage.close()
        require_same("numbers", [trial.number for trial in store.trials()], list(range(len(store.trials()))))


def many_threads_lose_and_double_nothing(case: StorageCase) -> None:
    """Threads add, claim and finish through shared objects: numbers are unique, each trial is done by its claimer."""
    total = 40
    with case.stores(2) as stores, ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda worker: work(stores[worker % 2], f"w{worker}", total), range(4)))
        finished = sorted(number for numbers in ended for number in numbers)
        trials = stores[1].trials()
    require_same("numbers finished", finished, list(range(total)))
    require_same("numbers stored", [trial.number for trial in trials], list(range(total)))
    require_same("states", {trial.state for trial in trials}, {TrialState.DONE})
    require_same("attempts", {trial.attempt for trial in trials}, {1})
    owners = {number: f"w{worker}" for worker, numbers in enumerate(ended) for number in numbers}
    require_same("owners", {trial.number: trial.worker for trial in trials}, owners)


def what_was_stored_is_there_after_reopening(case: StorageCase) -> None:
    """All trials, and the next number, after every object was closed."""
    storage = case.open()
    store = storage.create(make_definition())
    generator = random.Random(1)
    for _ in range(30):
        random_step(store, generator)
    before = store.trials()
    storage.close()
    reopened = case.open()
    store = reopened.open(store.definition.stored_name)
    require_same("trials after reopening", store.trials(), before)
    add(store, len(before))
    reopened.delete(store.definition.stored_name)
    reopened.close()


LAWS: tuple[Law, ...] = (
    a_study_comes_back_as_it_was_created,
    names_are_unique_and_in_order,
    an_unknown_study_is_refused,
    a_deleted_study_is_gone,
    numbers_have_no_gaps,
    the_budget_holds,
    trials_come_back_as_they_were_added,
    what_is_returned_is_the_callers_own,
    queued_trials_are_claimed_in_order,
    queued_trials_of_a_higher_priority_are_claimed_first,
    finished_trials_stay_finished,
    a_late_worker_is_refused,
    a_late_result_is_taken_while_nobody_runs_the_trial,
    a_trial_given_back_is_started_again,
    charged_costs_stay,
    measured_costs_replace_expected_ones,
    every_measured_attempt_is_paid,
    a_corrected_trial_costs_what_was_measured,
    declared_costs_are_not_measured,
    a_definition_is_replaced_once,
    people_may_exclude_and_restore,
    people_may_retry,
    people_may_correct,
    changes_say_who_when_and_why,
    people_may_enqueue,
    what_a_budget_does_not_pay_for_waits,
    people_may_write_on_trials,
    stops_are_recorded,
    outcomes_come_back_bit_by_bit,
    standard_errors_come_back_bit_by_bit,
    a_retried_trial_forgets_its_outcomes,
    trials_are_judged_by_the_definitions_constraints,
    reasons_may_hold_anything,
    silent_workers_lose_their_trials,
    dead_workers_lose_their_trials_until_they_are_lost,
    heartbeats_are_seen_by_all,
    times_are_the_storages_own,
    turns_are_exclusive_and_end,
    a_dead_holders_turn_is_free,
    all_objects_see_the_same,
    many_threads_lose_and_double_nothing,
    what_was_stored_is_there_after_reopening,
)
"""Every law, a function of a `StorageCase`."""
