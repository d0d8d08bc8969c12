"""Conformance tests for storages: the outcomes of trials, and the constraints that judge them. Run by `storages`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from fidelium.constraints import OutcomeConstraint
from fidelium.errors import ObservationError
from fidelium.history import TrialState
from fidelium.storage.base import Action, Result
from fidelium.testing.storage_cases import (
    FAILED,
    StorageCase,
    add,
    claim,
    make_definition,
    make_trial,
    refused,
    require,
    require_same,
)

OUTCOMES = {"stress": 0.1 + 0.2, "Spannung_ä": -5e-324, "u.max-2": 1.7976931348623157e308, "zero": 0.0}
"""Outcomes that come back as the same bits, in this order."""

LIMITS = (OutcomeConstraint("stress", upper=0.3), OutcomeConstraint("zero", -1 / 3, 1e300))


def outcomes_come_back_bit_by_bit(case: StorageCase) -> None:
    """Of finished trials and of data that was given; an outcome that is not a finite number is refused."""
    with case.stores(2) as (store, other):
        given = replace(make_trial(0, TrialState.DONE), value=1.0, given=True, outcomes=OUTCOMES)
        added = store.add(given)
        add(store, 1)
        claim(store, "w")
        ended = store.finish(1, 1, Result(TrialState.DONE, 2.0, outcomes=OUTCOMES))
        require_same("what another sees", other.trials(), (added, ended))
        for trial in other.trials():
            require_same("the outcomes", list(trial.outcomes.items()), list(OUTCOMES.items()))
        for state in (TrialState.QUEUED, TrialState.RUNNING):
            found = store.add(replace(given, number=len(store.trials()), state=state, value=None, given=False))
            require(found is not None and not found.outcomes, "no outcomes before the end", found)
        damaged: list[dict[Any, Any]] = [
            *({"stress": bad} for bad in (math.nan, math.inf, -math.inf, "1", None, True)),
            *({name: 1.0} for name in ("value", "", "1st", "a b", "x" * 81)),
        ]
        for bad in damaged:
            refused(
                ObservationError,
                f"the outcomes {bad!r}",
                lambda bad=bad: store.finish(3, 1, Result(TrialState.DONE, 1.0, outcomes=bad)),
            )
        failed = {"stress": 1.0}
        refused(ObservationError, "outcomes of a failure", lambda: Result(TrialState.FAILED, outcomes=failed))


def standard_errors_come_back_bit_by_bit(case: StorageCase) -> None:
    """Of finished, given and corrected trials; one that is not a finite number >= 0 is refused; retrying forgets it."""
    with case.stores(2) as (store, other):
        given = replace(make_trial(0, TrialState.DONE), value=1.0, given=True, std=0.1 + 0.2)
        store.add(given)
        for number, std in ((1, 0.0), (2, 5e-324), (3, None)):
            add(store, number)
            claim(store, "w")
            store.finish(number, 1, Result(TrialState.DONE, 2.0, std=std))
        require_same("the errors", [trial.std for trial in other.trials()], [0.1 + 0.2, 0.0, 5e-324, None])
        store.amend(2, Action.EXCLUDE, "ada")
        require_same("the error of a trial queued again", store.amend(2, Action.RETRY, "ada").std, None)
        require("standard error 5e-324" in store.changes()[-1].reason, "what was overwritten", store.changes()[-1])
        store.amend(2, Action.CORRECT, "ada", "read again", Result(TrialState.DONE, 3.0, std=0.5))
        require_same("the corrected error", other.trials()[2].std, 0.5)
        for bad in (-1e-300, math.nan, math.inf):
            refused(ObservationError, f"std {bad}", lambda bad=bad: Result(TrialState.DONE, 1.0, std=bad))
        refused(ObservationError, "std of a failure", lambda: Result(TrialState.FAILED, std=1.0))


def a_retried_trial_forgets_its_outcomes(case: StorageCase) -> None:
    """It gets those of its next result, or of a correction; the record of the change keeps the old ones."""
    with case.stores(2) as (store, other):
        for number in range(2):
            add(store, number)
            claim(store, "w")
        store.finish(0, 1, Result(TrialState.DONE, 2.0, outcomes={"stress": 0.5}))
        store.finish(1, 1, FAILED)
        store.amend(0, Action.EXCLUDE, "ada")
        require_same("the outcomes of a trial queued again", store.amend(0, Action.RETRY, "ada").outcomes, {})
        require("stress 0.5" in store.changes()[-1].reason, "what was overwritten", store.changes()[-1])
        corrected = Result(TrialState.DONE, 3.0, outcomes=OUTCOMES)
        for number in range(2):
            store.amend(number, Action.CORRECT, "ada", "read again", corrected)
            require_same("the corrected outcomes", dict(other.trials()[number].outcomes), OUTCOMES)


def trials_are_judged_by_the_definitions_constraints(case: StorageCase) -> None:
    """Constraints and what failures teach come back; each trial has the constraints of its object's definition."""
    storage = case.open()
    definition = replace(make_definition(), constraints=LIMITS, failures_teach=False, timeouts_teach=False)
    store = storage.create(definition)
    again = case.open()
    require_same("the stored definition", again.open(definition.stored_name).definition, definition)
    for number, stress in enumerate((0.3, 0.1 + 0.2)):
        given = replace(make_trial(number, TrialState.DONE), value=1.0, given=True)
        added = store.add(replace(given, outcomes={"stress": stress, "zero": 0.0}))
        require(added is not None and added.constraints == LIMITS, "the constraints in what is added", added)
    add(store, 2)
    require_same("the constraints of a claimed trial", claim(store, "w").constraints, LIMITS)
    for trials in (store.trials(), again.open(definition.stored_name).trials()):
        require_same("feasible", [trial.feasible for trial in trials], [True, False, None])
    looser = replace(definition, constraints=(OutcomeConstraint("stress", upper=1.0),), failures_teach=True)
    store.redefine(looser, "ada", "looser")
    fresh = case.open()
    for each in (store, fresh.open(definition.stored_name)):
        require_same("the new definition", each.definition, looser)
        require_same("feasible now", [trial.feasible for trial in each.trials()], [True, True, None])
    storage.delete(definition.stored_name)
    for opened in (storage, again, fresh):
        opened.close()
