"""Conformance tests for storages: what people change afterwards, and what a trial was charged. Run by `storages`."""

from __future__ import annotations

from dataclasses import replace

from fidelium.errors import BudgetError, ObservationError, SettingError, StorageError, TrialError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import TrialState
from fidelium.space import SearchSpace
from fidelium.storage.base import Action, Result
from fidelium.testing.storage_cases import (
    DONE,
    FAILED,
    FOREVER,
    StorageCase,
    add,
    claim,
    make_trial,
    refused,
    require,
    require_same,
)


def charged_costs_stay(case: StorageCase) -> None:
    """A trial costs what its fidelity cost when it was added, whatever it costs later; the budget counts that."""
    with case.stores(2) as (store, other):
        for number in range(3):  # they cost 1, 10.5 and 1
            add(store, number)
        definition = store.definition
        dearer = FidelityLadder((Fidelity("coarse", 2), Fidelity("fine'; --", 30)))
        store.redefine(replace(definition, ladder=dearer), "ada", "dearer")
        fresh = case.open()
        for each in (store, fresh.open(definition.stored_name)):
            require_same("the new definition", each.definition, replace(definition, ladder=dearer))
            require_same("costs", [trial.cost for trial in each.trials()], [1.0, 10.5, 1.0])
            require_same("fidelities", [trial.fidelity for trial in each.trials()], [dearer[0], dearer[1], dearer[0]])
        fresh.close()
        require_same("costs for one that was open", [trial.cost for trial in other.trials()], [1.0, 10.5, 1.0])
        for each in (store, other):
            ladder = each.definition.ladder
            require(all(t.fidelity in ladder for t in each.trials()), "fidelities of its definition", each.trials())
        new = replace(make_trial(3), fidelity=dearer[0])
        refused(BudgetError, "a trial beyond the budget", lambda: store.add(new, budget=14.4))
        added = store.add(new, budget=14.5)
        require(added is not None and added.cost == 2.0, "a trial that just fits, at the new cost", added)
        require_same("its cost for another", other.trials()[3].cost, 2.0)


def a_definition_is_replaced_once(case: StorageCase) -> None:
    """`redefine` records a change, unless nothing is different, and refuses names that trials do not fit."""
    with case.stores(2) as (store, other):
        definition = store.definition
        store.redefine(definition, "ada", "the same")
        require_same("changes after none", store.changes(), ())
        wanted = replace(definition, seed=5, initial={"coarse": 1})
        store.redefine(wanted, "ada", "seed 5")
        other.redefine(wanted, "bob", "seed 5")
        require_same(
            "changes",
            [(c.who, c.action, c.trial, c.reason) for c in other.changes()],
            [("ada", "redefine", None, "seed 5")],
        )
        require_same("the definition, for both", (store.definition, other.definition), (wanted, wanted))
        swapped = FidelityLadder((Fidelity("fine'; --", 1), Fidelity("coarse", 2)))
        fewer = SearchSpace({"x": definition.space.parameters["x"]})
        for bad in (
            replace(wanted, name="other"),
            replace(wanted, ladder=swapped, initial={}),
            replace(wanted, space=fewer),
        ):
            refused(SettingError, "other names", lambda bad=bad: store.redefine(bad, "ada"))
        require_same("the definition after refusals", store.definition, wanted)


def people_may_exclude_and_restore(case: StorageCase) -> None:
    """A finished trial only; all else of it stays as it was."""
    with case.stores(2) as (store, other):
        for number, result in enumerate((DONE, FAILED)):
            add(store, number, TrialState.RUNNING)
            refused(TrialError, "excluding a running trial", lambda n=number: store.amend(n, Action.EXCLUDE, "ada"))
            ended = store.finish(number, 1, result)
            excluded = store.amend(number, Action.EXCLUDE, "ada", "wrong mesh")
            require_same("the excluded trial", excluded, replace(ended, excluded=True))
            require_same("what another sees", other.trials()[number], excluded)
            refused(TrialError, "excluding twice", lambda n=number: other.amend(n, Action.EXCLUDE, "bob"))
            require_same("the restored trial", other.amend(number, Action.RESTORE, "bob"), ended)
            refused(TrialError, "restoring twice", lambda n=number: store.amend(n, Action.RESTORE, "ada"))
            require_same("what another sees", store.trials()[number], ended)
        add(store, 2)
        refused(TrialError, "excluding a queued trial", lambda: store.amend(2, Action.EXCLUDE, "ada"))
        for number in (3, -1, 10**30):
            refused(TrialError, f"excluding trial {number}", lambda n=number: store.amend(n, Action.EXCLUDE, "ada"))


def people_may_retry(case: StorageCase) -> None:
    """A failed, lost or excluded trial is queued again, in a new attempt, whatever is left of the budget."""
    with case.stores(2) as (store, other):
        for number in range(5):
            add(store, number)
            claim(store, "w")
        store.finish(0, 1, FAILED)
        store.finish(1, 1, DONE)
        store.recover(FOREVER, ["w"], retries=0)  # 2, 3 and 4 are lost
        refused(TrialError, "retrying a done trial", lambda: store.amend(1, Action.RETRY, "ada"))
        store.amend(1, Action.EXCLUDE, "ada")
        for number in range(3):
            again = other.amend(number, Action.RETRY, "ada", "the licence is back")
            wanted = replace(store.trials()[number], state=TrialState.QUEUED, attempt=1, reason="the licence is back")
            require_same("the queued trial", again, wanted)
            require_same(
                "what it has of its former end",
                (again.value, again.measured_cost, again.excluded, again.finished),
                (None, None, False, None),
            )
            refused(TrialError, "retrying a queued trial", lambda n=number: store.amend(n, Action.RETRY, "ada"))
        require_same(
            "claimed again", [(t.number, t.attempt) for t in (claim(store, "v"), claim(other, "v"))], [(0, 2), (1, 2)]
        )
        refused(TrialError, "retrying a running trial", lambda: store.amend(0, Action.RETRY, "ada"))
        refused(TrialError, "a late result", lambda: store.finish(0, 1, DONE))
        require_same("its new value", other.finish(0, 2, DONE).value, DONE.value)
        require_same("the cost of all", sum(trial.cost for trial in store.trials()), 1 + 10.5 + 1 + 10.5 + 1)
        given = store.add(replace(make_trial(5, TrialState.DONE), value=1.0, given=True))
        assert given is not None
        store.amend(5, Action.EXCLUDE, "ada")
        refused(TrialError, "retrying data that was given", lambda: store.amend(5, Action.RETRY, "ada"))


def people_may_correct(case: StorageCase) -> None:
    """A trial that failed, was lost, or was started and queued again, becomes done with a value."""
    value = Result(TrialState.DONE, 0.25, measured_cost=2.0)
    with case.stores(2) as (store, other):
        for number in range(5):
            add(store, number)
        refused(TrialError, "a value for what never ran", lambda: store.amend(0, Action.CORRECT, "ada", "", value))
        for _ in range(4):
            claim(store, "w")
        store.finish(0, 1, FAILED)
        store.requeue(1, 1, "no space")
        store.finish(3, 1, DONE)
        refused(TrialError, "a value for a running trial", lambda: store.amend(2, Action.CORRECT, "ada", "", value))
        store.recover(FOREVER, ["w"], retries=0)  # 2 is lost
        refused(TrialError, "another value for a done trial", lambda: store.amend(3, Action.CORRECT, "ada", "", value))
        refused(ObservationError, "no value", lambda: store.amend(0, Action.CORRECT, "ada"))
        refused(ObservationError, "a failure", lambda: store.amend(0, Action.CORRECT, "ada", "", FAILED))
        for number in range(3):
            before = store.trials()[number]
            done = store.amend(number, Action.CORRECT, "ada", "read again", value)
            wanted = replace(before, state=TrialState.DONE, value=0.25, measured_cost=2.0, reason=None)
            require_same("the corrected trial", done, wanted)
            require_same("what another sees", other.trials()[number], done)
            require(done.finished is not None, "the time of its end", done)
        require_same("the next claim", claim(other, "v").number, 4)


def changes_say_who_when_and_why(case: StorageCase) -> None:
    """In order, for every object, with what was overwritten; what is refused leaves no trace."""
    with case.stores(2) as (store, other):
        require_same("changes of a new study", store.changes(), ())
        add(store, 0)
        claim(store, "w")
        store.finish(0, 1, Result(TrialState.DONE, 0.125))
        store.amend(0, Action.EXCLUDE, "ada@host", "wrong\0 mesh \ud800")
        case.wait(1.0)
        refused(TrialError, "excluding twice", lambda: store.amend(0, Action.EXCLUDE, "bob"))
        other.amend(0, Action.RETRY, "bob 漢", None)
        seen = other.changes()
        require_same("what the other object sees", store.changes(), seen)
        require_same(
            "who did what",
            [(c.who, c.action, c.trial) for c in seen],
            [("ada@host", "exclude", 0), ("bob 漢", "retry", 0)],
        )
        require("wrong" in seen[0].reason and "\0" not in seen[0].reason, "the reason, escaped", seen[0])
        require("0.125" in seen[1].reason, "the value that was overwritten", seen[1])
        require(seen[0].at < seen[1].at, "times in order", seen)
        for who in ("", "x" * 256, "a\0b"):
            refused(StorageError, f"the name {who[:9]!r}", lambda who=who: store.amend(0, Action.EXCLUDE, who))
