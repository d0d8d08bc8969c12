"""Conformance tests for storages: queued trials that people add, notes, tags and priorities. Run by `storages`."""

from __future__ import annotations

from dataclasses import replace

from fidelium.errors import BudgetError, SettingError, StorageError, TrialError
from fidelium.history import TrialState
from fidelium.storage.base import Annotation
from fidelium.testing.storage_cases import (
    DONE,
    StorageCase,
    add,
    claim,
    make_trial,
    refused,
    require,
    require_same,
)


def people_may_enqueue(case: StorageCase) -> None:
    """All trials or none get the next numbers, each with a line in `changes`; the budget is kept."""
    with case.stores(2) as (store, other):
        add(store, 0, TrialState.RUNNING)  # costs 1; the next ones 10.5 and 1
        wanted = [replace(make_trial(n + 40), priority=n, note="by\0 hand", tags=("a", "b", "a")) for n in (1, 2)]
        error = refused(BudgetError, "beyond the budget", lambda: other.enqueue(wanted, "ada", budget=12.4))
        require("12.4" in str(error), "a message that names the budget", error)
        for bad in (replace(wanted[1], priority=10**7), replace(wanted[1], tags=("a,b",)), replace(wanted[1], note=5)):
            refused(SettingError, f"{bad.priority} {bad.tags}", lambda bad=bad: other.enqueue([wanted[0], bad], "ada"))
        refused(StorageError, "no name", lambda: other.enqueue(wanted, ""))
        require_same("trials after refusals", len(store.trials()), 1)
        require_same("changes after refusals", store.changes(), ())
        require_same("none", store.enqueue([], "ada"), ())
        added = other.enqueue(wanted, "ada", budget=12.5)
        require_same("what another sees", store.trials()[1:], added)
        require_same(
            "the trials",
            [(t.number, t.params, t.fidelity, t.state, t.attempt, t.priority, t.tags) for t in added],
            [(n, w.params, w.fidelity, TrialState.QUEUED, 0, w.priority, ("a", "b")) for n, w in enumerate(wanted, 1)],
        )
        require(all(t.note is not None and "hand" in t.note and "\0" not in t.note for t in added), "notes", added)
        found = store.changes()
        require_same(
            "changes", [(c.who, c.action, c.trial) for c in found], [("ada", "enqueue", 1), ("ada", "enqueue", 2)]
        )
        require("hand" in found[0].reason, "the note", found)
        require_same("the first to start", claim(store, "w").number, 2)
        require_same("the next number", add(store, 3).number, 3)


def what_a_budget_does_not_pay_for_waits(case: StorageCase) -> None:
    """A trial that was never started reserves its cost or waits; one that was started before is paid for."""
    with case.stores(2) as (store, other):
        add(store, 0, TrialState.RUNNING)  # 1
        store.requeue(0, 1)
        store.enqueue([make_trial(1), make_trial(2), replace(make_trial(4), priority=-1)], "ada")  # 10.5, 1 and 1
        refused(BudgetError, "what is reserved", lambda: other.add(make_trial(4), budget=12.5))
        require_same("paid for already", (claim(store, "w").number, store.claim("w", 0.5)), (0, None))
        require_same("the one that fits", getattr(other.claim("w", 2.5), "number", None), 2)
        require_same("no other", store.claim("w", 2.5), None)
        added = other.add(make_trial(4), budget=4.0)  # 1 + 1 + 1 reserved: the waiting one reserves nothing
        require(added is not None, "a trial that fits beside one that waits", added)
        require_same("the order within a larger budget", getattr(store.claim("w", 14.5), "number", None), 1)
        require_same("the last but one", getattr(store.claim("w", 14.5), "number", None), 4)
        require_same("which is accepted", store.claim("w", 14.5, lambda trial: trial.number > 3), None)
        require_same("the last", getattr(store.claim("w", 14.5, lambda trial: trial.number == 3), "number", None), 3)


def people_may_write_on_trials(case: StorageCase) -> None:
    """Notes and tags in every state, priorities of queued trials; each a line in `changes`, if it changes something."""
    with case.stores(2) as (store, other):
        for number in range(3):
            add(store, number)
        claim(store, "w")
        store.finish(0, 1, DONE)
        claim(store, "w")
        for number in range(3):
            before = store.trials()[number]
            noted = store.annotate(number, Annotation.NOTE, " checked\0 by hand ", "ada")
            require(noted.note is not None and noted.note.startswith("checked"), "the note", noted)
            require_same("all else", replace(noted, note=None), before)
            other.annotate(number, Annotation.TAG, "suspicious", "bob")
            tagged = store.annotate(number, Annotation.TAG, "ä-2", "ada")
            require_same("the tags", tagged.tags, ("suspicious", "ä-2"))
            require_same("what another sees", other.trials()[number], tagged)
            require_same("a tag twice", other.annotate(number, Annotation.TAG, "suspicious", "bob"), tagged)
            require_same("a tag less", store.annotate(number, Annotation.UNTAG, "suspicious", "ada").tags, ("ä-2",))
            refused(
                TrialError, "no such tag", lambda n=number: store.annotate(n, Annotation.UNTAG, "suspicious", "ada")
            )
            require_same("no note", other.annotate(number, Annotation.NOTE, " ", "bob").note, None)
        for number in range(2):
            refused(TrialError, "priority", lambda n=number: store.annotate(n, Annotation.PRIORITISE, "1", "ada"))
        add(store, 3)
        require_same("the priority", store.annotate(3, Annotation.PRIORITISE, "-5", "ada").priority, -5)
        require_same("the priority", store.annotate(3, Annotation.PRIORITISE, " 7 ", "ada").priority, 7)
        require_same("the first to start", claim(other, "w").number, 3)
        require_same("after it is given back", other.requeue(3, 1).priority, 7)
        expected = ["note", "tag", "tag", "untag", "note"] * 3 + ["prioritise"] * 2
        require_same("changes", [c.action for c in other.changes()], expected)
        who = ["ada", "bob", "ada", "ada", "bob"] * 3 + ["ada"] * 2
        require_same("who", [c.who for c in other.changes()], who)
        for bad in ("", "two words", "a,b", "x" * 41, "a\0"):
            refused(SettingError, f"the tag {bad[:9]!r}", lambda bad=bad: store.annotate(0, Annotation.TAG, bad, "a"))
        for bad in ("", "1.5", "x", "1000001", "9" * 30):
            refused(SettingError, f"priority {bad}", lambda bad=bad: store.annotate(2, Annotation.PRIORITISE, bad, "a"))
        refused(SettingError, "a long note", lambda: store.annotate(0, Annotation.NOTE, "x" * 10_001, "ada"))
        refused(TrialError, "no such trial", lambda: store.annotate(9, Annotation.NOTE, "x", "ada"))
        refused(StorageError, "no name", lambda: store.annotate(0, Annotation.NOTE, "x", ""))
        require_same("changes after refusals", len(store.changes()), len(expected))


def stops_are_recorded(case: StorageCase) -> None:
    """With who and why, among the changes."""
    with case.stores(2) as (store, other):
        store.note_stop("w", "goal: 0.7 is reached\0")
        (found,) = other.changes()
        require_same("the stop", (found.who, found.action, found.trial), ("w", "stop", None))
        require("0.7" in found.reason and "\0" not in found.reason, "the reason, escaped", found)
