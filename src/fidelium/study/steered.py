"""What people change in a study: designs to run, notes and tags, repairs. All are recorded, with who and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fidelium.errors import ObservationError
from fidelium.fidelity import Fidelity
from fidelium.history import Trial
from fidelium.storage.annotations import checked_note, checked_priority, checked_tag
from fidelium.storage.base import Action, Annotation
from fidelium.study.repair import amend
from fidelium.study.steering import Wish, annotate, enqueue_all
from fidelium.study.stored import StoredStudy
from fidelium.study.trial import LiveTrial, result_of


class SteeredStudy(StoredStudy):
    """The part of a `Study` by which people change it."""

    # --- steering ---

    def enqueue(
        self,
        params: Mapping[str, Any],
        fidelity: str | Fidelity | None = None,
        priority: int = 0,
        note: str | None = None,
        *,
        tags: Sequence[str] = (),
        budget: float = math.inf,
        who: str | None = None,
    ) -> Trial:
        """Queue a design that you believe in: `ask` and `optimize` run it next, like any other trial.

        It reserves its cost. In a run whose budget does not pay for it, it waits for a larger one, and the others go
        on. At its fidelity it counts as one of the runs of the initial design.

        Args:
            params: values of all parameters, within the bounds and the parameter constraints.
            fidelity: a fidelity or its name; the target if None.
            priority: queued trials of a higher one are started first; those of the same one in their order.
            note: what to remember about it.
            tags: short labels.
            budget: what the study may spend in total: a design that does not fit into what is left is refused.
            who: who does it, for `changes`; this login and host if None.

        Returns:
            The queued trial's record.

        Raises:
            SpaceError: if the design is not valid.
            FidelityError: if the fidelity is unknown.
            BudgetError: if the design does not fit into the rest of the budget; nothing changes.
            SettingError: if the priority, the note or a tag is not valid.
        """
        wish = Wish(params, fidelity, priority, note, tags)
        return enqueue_all(self._store, self._definition, [wish], budget, who)[0]

    def prioritise(self, trial: LiveTrial | Trial | int, priority: int, *, who: str | None = None) -> Trial:
        """Give a queued trial another priority: those of a higher one are started first.

        Raises:
            TrialError: if the trial is not one of this study, or not queued; nothing changes.
            SettingError: if the priority is not a whole number.
        """
        return annotate(self._store, trial, Annotation.PRIORITISE, str(checked_priority(priority)), who)

    def note(self, trial: LiveTrial | Trial | int, text: str, *, who: str | None = None) -> Trial:
        """Write a note on a trial in any state; it replaces the one before, and an empty one removes it.

        Raises:
            TrialError: if the trial is not one of this study.
            SettingError: if the note is not a text, or too long.
        """
        return annotate(self._store, trial, Annotation.NOTE, checked_note(text) or "", who)

    def tag(self, trial: LiveTrial | Trial | int, tag: str, *, who: str | None = None) -> Trial:
        """Give a trial in any state a tag: one word.

        Raises:
            TrialError: if the trial is not one of this study.
            SettingError: if the tag is not one word.
        """
        return annotate(self._store, trial, Annotation.TAG, checked_tag(tag), who)

    def untag(self, trial: LiveTrial | Trial | int, tag: str, *, who: str | None = None) -> Trial:
        """Remove a tag from a trial.

        Raises:
            TrialError: if the trial is not one of this study, or has no such tag.
        """
        return annotate(self._store, trial, Annotation.UNTAG, checked_tag(tag), who)

    # --- repair ---

    def exclude(self, trial: LiveTrial | Trial | int, reason: str = "", *, who: str | None = None) -> Trial:
        """Exclude a finished trial: the model forgets it and it is never the best; its record and its cost stay.

        Args:
            trial: the trial, its record, or its number.
            reason: why; kept in `changes`.
            who: who does it; this login and host if None.

        Returns:
            The trial's record.

        Raises:
            TrialError: if the trial is not one of this study, is not finished, or is excluded already; nothing changes.
        """
        return amend(self._store, trial, Action.EXCLUDE, reason, who)

    def restore(self, trial: LiveTrial | Trial | int, reason: str = "", *, who: str | None = None) -> Trial:
        """Undo `exclude`. The arguments are the same.

        Raises:
            TrialError: if the trial is not one of this study, or not excluded; nothing changes.
        """
        return amend(self._store, trial, Action.RESTORE, reason, who)

    def retry(self, trial: LiveTrial | Trial | int, reason: str = "", *, who: str | None = None) -> Trial:
        """Queue a failed, lost or excluded trial again: the next `ask` returns it.

        It is charged once only, except where costs are measured: then it costs what all its attempts take.

        The arguments are those of `exclude`.

        Raises:
            TrialError: if the trial is not one of this study, is running, queued, done and not excluded, or data that
                was given; nothing changes.
        """
        return amend(self._store, trial, Action.RETRY, reason, who)

    def correct(
        self,
        trial: LiveTrial | Trial | int,
        value: float,
        measured_cost: float | None = None,
        reason: str = "",
        *,
        outcomes: Mapping[str, float] | None = None,
        std: float | None = None,
        who: str | None = None,
    ) -> Trial:
        """Record the value of a trial that failed, or was queued again, although its evaluation did give one.

        Args:
            trial: the trial, its record, or its number.
            value: what was observed, in the user's units.
            measured_cost: what the evaluation really cost.
            reason: why; kept in `changes`.
            outcomes: named results beside the value; all that constraints name.
            std: standard error of the value, as in `tell`.
            who: who does it; this login and host if None.

        Returns:
            The trial's record, done.

        Raises:
            TrialError: if the trial is not one of this study, is running, done, or was never started; nothing changes.
            ObservationError: if the value is not a finite number, `std` is not one >= 0, or an outcome that a
                constraint names is missing or not finite; nothing changes.
        """
        result = result_of(self._definition, value, None, measured_cost, outcomes, std)
        if result.reason is not None:
            raise ObservationError(f"a trial is corrected with a finite value and all outcomes: {result.reason}")
        return amend(self._store, trial, Action.CORRECT, reason, who, result)
