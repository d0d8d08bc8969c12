"""Conformance tests for storages: what trials cost where the definition says that costs are measured."""

from __future__ import annotations

from dataclasses import replace

from fidelium.definition import MEASURED
from fidelium.errors import BudgetError
from fidelium.history import TrialState
from fidelium.storage.base import Action, Result, StudyStore
from fidelium.testing.storage_cases import DONE, StorageCase, add, claim, make_trial, refused, require, require_same


def measured_costs_replace_expected_ones(case: StorageCase) -> None:
    """The end of a trial replaces what was expected of it by what was measured; nothing does if nothing was."""
    with case.stores(2) as (store, other):
        require_same("the definition", _measured(store).definition.cost, MEASURED)
        expected = replace(make_trial(0, TrialState.RUNNING, "w"), charged=7.25)
        added = store.add(expected)
        require(added is not None and added.cost == 7.25, "the expected cost, 7.25", added)
        again = case.open()
        fresh = again.open(store.definition.stored_name)  # one that knows the definition
        ended = fresh.finish(0, 1, Result(TrialState.DONE, 1.0, measured_cost=0.1 + 0.2))
        require_same("the measured cost", (ended.cost, ended.measured_cost), (0.1 + 0.2, 0.1 + 0.2))
        for each in (store, other, fresh):
            require_same("its cost for all", each.trials()[0].cost, 0.1 + 0.2)
        add(fresh, 1, TrialState.RUNNING, "w")
        failed = fresh.finish(1, 1, Result(TrialState.FAILED, reason="no", measured_cost=0.0))
        require_same("the cost of a failure that took nothing", failed.cost, 0.0)
        add(fresh, 2, TrialState.RUNNING, "w")
        require_same("the cost of what was not measured", fresh.finish(2, 1, DONE).cost, 1.0)
        refused(BudgetError, "a trial beyond the budget", lambda: fresh.add(make_trial(3), budget=11.7))
        fits = fresh.add(make_trial(3), budget=11.9)
        require(fits is not None, "measured costs in the budget", fits)
        again.close()


def every_measured_attempt_is_paid(case: StorageCase) -> None:
    """A trial that is run again costs what all its attempts took, and until then what is expected beside."""
    with case.stores() as (store,):
        _measured(store)
        add(store, 0)
        first = claim(store, "w")
        back = store.requeue(0, first.attempt, "crashed", 2.5)
        require_same("the first attempt and the one to come", (back.cost, back.measured_cost), (3.5, 2.5))
        second = claim(store, "w")
        free = store.requeue(0, second.attempt, "interrupted")
        require_same("an attempt that is not paid", free.cost, 3.5)
        third = claim(store, "w")
        ended = store.finish(0, third.attempt, Result(TrialState.FAILED, reason="crashed", measured_cost=4.0))
        require_same("all attempts", (ended.cost, ended.measured_cost), (6.5, 6.5))
        again = store.amend(0, Action.RETRY, "ada", "fixed")
        require_same("reserved for another one", (again.cost, again.measured_cost), (13.0, 6.5))
        fourth = claim(store, "w")
        done = store.finish(0, fourth.attempt, Result(TrialState.DONE, 1.0, measured_cost=1.0))
        require_same("all four", (done.cost, done.measured_cost), (7.5, 7.5))


def a_corrected_trial_costs_what_was_measured(case: StorageCase) -> None:
    """A correction replaces the cost if it names one."""
    with case.stores() as (store,):
        _measured(store)
        for number in range(2):
            add(store, number, TrialState.RUNNING, "w")
            store.finish(number, 1, Result(TrialState.FAILED, reason="no value", measured_cost=3.0))
        same = store.amend(0, Action.CORRECT, "ada", "it is there", DONE)
        require_same("the cost that was measured", (same.cost, same.measured_cost), (3.0, 3.0))
        other = store.amend(1, Action.CORRECT, "ada", "it is there", Result(TrialState.DONE, 1.0, measured_cost=2.0))
        require_same("the cost of the result", (other.cost, other.measured_cost), (2.0, 2.0))


def declared_costs_are_not_measured(case: StorageCase) -> None:
    """Where costs are declared, what was measured is recorded only."""
    with case.stores() as (store,):
        add(store, 0, TrialState.RUNNING, "w")
        require_same("given back", store.requeue(0, 1, "crashed", 2.5).cost, 1.0)
        running = claim(store, "w")
        ended = store.finish(0, running.attempt, Result(TrialState.DONE, 1.0, measured_cost=4.0))
        require_same("cost and measured cost", (ended.cost, ended.measured_cost), (1.0, 4.0))


def _measured(store: StudyStore) -> StudyStore:
    """The store, with measured costs."""
    store.redefine(replace(store.definition, cost=MEASURED), "ada", "measured costs")
    return store
