"""The contract of a storage: where studies and their trials are kept, and what can be relied on.

A `Storage` holds studies by name; a `StudyStore` holds the trials of one. Any number of threads, processes and, where
the storage allows it, machines may use the same study at the same time, each through its own storage object.

**Numbers.** Trials are numbered 0, 1, 2, ... without gaps, and deleted only with their study. An object that refers to
a deleted study raises `StorageError`, even if there is a new study of the same name. The parameters and the fidelity of
a trial never change, nor does its cost: what the study was charged when it was added. Where the definition says that
costs are measured, that is what is expected of it, and its end replaces it, in the same transaction, by what was
measured in all its attempts (`finish`, `requeue`, `amend`); if nothing was measured, it stays.

**What people change.** A person may add trials to the queue (`enqueue`), exclude a finished trial and restore it,
queue one again, enter the value of one that failed (`amend`), give it a note, tags or another priority (`annotate`),
and change the definition of the study (`redefine`). Each of them is recorded in the same transaction, with who, when
and why (`changes`), and the record is deleted only with the study. An object keeps the
definition that the study had when it was opened, or that was given to its own `redefine`, and its trials have the
fidelities and constraints of this definition; other objects that are open continue with theirs. (In memory all share
one object.)

**What is stored.** Parameter values come back as the same bits and the same type, outcomes as the same bits. Reasons
are text for people: characters that no database accepts (NUL, lone surrogates) are escaped, and the middle of a very
long one is cut. Names of studies, workers and holders of a turn have at most 255 characters and none of these
(`StorageError`).

**Who owns a trial.** A running trial is owned by the worker that started it, for one attempt: the pair of its number
and `attempt`. Only the last attempt can be finished, given back or failed, so a worker that counted as dead and returns
after somebody else has started its trial is refused (`TrialError`), and no result is recorded twice. As long as the
trial is only queued again, the worker's result is taken: nothing need be run twice. A trial without a heartbeat belongs
to a person or a script, for as long as they like.

**What is atomic.** Every method succeeds or changes nothing, and all of them happen one after another: two calls of
`claim` never return the same trial, two of `add` never use the same number, and what `trials` returns is the state at
one moment, never older than what the same object returned before. The budget holds by construction: a trial that does
not fit is refused by the `add` itself. A queued trial that was never started reserves its cost, if the budget pays for
it after those that are started before it; else it waits for a larger budget, and reserves nothing.

**What is durable.** When `create`, `add`, `enqueue`, `claim`, `finish`, `requeue`, `recover`, `amend`, `annotate`,
`note_stop` or `redefine` returns, its effect is on disk (or with the database server) and survives the end of the
process or of the machine. Heartbeats and turns need not. An error means that nothing has changed; the one exception is
a server lost while it writes (`UnsureError`). The storage in memory lives as long as its process.

**Times** are seconds since 1970 by the storage's clock: the server's for a database server, this machine's otherwise.
The clock may be set back: a turn or a heartbeat that then lies in the future does not outlast its length.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from fidelium.constraints import check_outcome_name
from fidelium.definition import StudyDefinition
from fidelium.errors import ObservationError, SettingError
from fidelium.history import Change, Trial, TrialState
from fidelium.numbers import as_number


@dataclass(frozen=True)
class Result:
    """How an evaluation ended.

    Args:
        state: done or failed.
        value: the finite value of a done trial, in the user's units.
        reason: why it failed.
        measured_cost: the actual cost, finite: what a trial costs where the study counts measured costs, else recorded
            only.
        outcomes: what else a done trial gave, finite numbers by name.
        std: standard error of a done trial's value, if the simulator says it.

    Raises:
        ObservationError: if the state is another one, a done trial has no finite value, a failed one has a value, a
            standard error or outcomes, the error is not a finite number >= 0, or an outcome is not a finite number with
            a valid name.
    """

    state: TrialState
    value: float | None = None
    reason: str | None = None
    measured_cost: float | None = None
    outcomes: Mapping[str, float] = field(default_factory=dict)
    std: float | None = None

    def __post_init__(self) -> None:
        if self.state not in (TrialState.DONE, TrialState.FAILED):
            raise ObservationError(f"the state of a result is done or failed, got {self.state!r}")
        if self.state is TrialState.DONE and (self.value is None or not math.isfinite(self.value)):
            raise ObservationError(f"a done trial has a finite value, got {self.value!r}; record a failure instead")
        if self.state is TrialState.FAILED and self.value is not None:
            raise ObservationError(f"a failed trial has a reason and no value, got {self.value!r}")
        if self.measured_cost is not None and not math.isfinite(self.measured_cost):
            raise ObservationError(f"a measured cost is a finite number or None, got {self.measured_cost!r}")
        if self.state is TrialState.FAILED and self.outcomes:
            raise ObservationError(f"a failed trial has no outcomes, got {dict(self.outcomes)!r}")
        if self.std is not None and (self.state is TrialState.FAILED or not 0 <= self.std < math.inf):
            raise ObservationError(f"the standard error of a done trial is a finite number >= 0, got {self.std!r}")
        for name, value in self.outcomes.items():
            _check_outcome(name, value)


def _check_outcome(name: object, value: object) -> None:
    """Refuse an outcome that is not a finite number with a valid name.

    Raises:
        ObservationError: if it is not.
    """
    try:
        check_outcome_name(name)
    except SettingError as error:
        raise ObservationError(str(error)) from None
    number = as_number(value)
    if number is None or not math.isfinite(number):
        raise ObservationError(f"the outcome {name!r} must be a finite number, got {value!r}")


def never(worker: str) -> bool:
    """No worker is known to be dead."""
    del worker
    return False


def always(trial: Trial) -> bool:
    """Any trial will do."""
    del trial
    return True


class Action(StrEnum):
    """What a person can do to a trial afterwards."""

    EXCLUDE = "exclude"
    RESTORE = "restore"
    RETRY = "retry"
    CORRECT = "correct"


class Annotation(StrEnum):
    """What a person can write on a trial."""

    NOTE = "note"
    TAG = "tag"
    UNTAG = "untag"
    PRIORITISE = "prioritise"


@runtime_checkable
class StudyStore(Protocol):
    """The trials of one study."""

    @property
    @abstractmethod
    def definition(self) -> StudyDefinition:
        """What the study is made from."""
        ...

    @property
    @abstractmethod
    def is_shared(self) -> bool:
        """Whether other processes can use the study: one that dies there must not hold a turn for ever."""
        ...

    @abstractmethod
    def trials(self) -> tuple[Trial, ...]:
        """All trials by number, as they are now. Only what changed since the last call is read."""
        ...

    @abstractmethod
    def add(self, trial: Trial, *, alive: bool = False, budget: float = math.inf) -> Trial | None:
        """Add a trial, if its number is the next one and the budget pays for it.

        Args:
            trial: queued, or running and owned by `trial.worker` in its first attempt, or finished (data that was
                given). Its times are set by the storage, and the attempt of a queued one is 0.
            alive: whether its worker, who must have a name, sends heartbeats from now on.
            budget: what all trials together, this one included, may cost.

        Returns:
            The trial as stored, or None, and nothing has changed, if its number is taken: another worker was faster.

        Raises:
            TrialError: if its number is beyond the next one.
            BudgetError: if its number is the next one, and its cost exceeds what is left of the budget.
            StorageError: if a parameter's value cannot be stored.
        """
        ...

    @abstractmethod
    def enqueue(self, trials: Sequence[Trial], who: str, budget: float = math.inf) -> tuple[Trial, ...]:
        """Add queued trials, all or none, and record who did it.

        Args:
            trials: in the order in which they are added; the storage gives them the next numbers.
            who: who does it, at most 255 characters.
            budget: what all trials together, these included, may cost.

        Returns:
            The trials as stored.

        Raises:
            BudgetError: if they cost more than what is left of the budget; nothing changes.
            SettingError: if a priority, a note or a tag is not valid.
            StorageError: if a parameter's value cannot be stored.
        """
        ...

    @abstractmethod
    def claim(
        self, worker: str | None, budget: float = math.inf, accepts: Callable[[Trial], bool] = always
    ) -> Trial | None:
        """Start the queued trial of the highest priority, the first of several, as this worker's next attempt.

        Args:
            worker: the worker, which sends heartbeats from now on; None for a person or a script, who sends none.
            budget: what all trials together may cost. One that was never started and waits for a larger budget is
                passed over; one that was started before is paid for.
            accepts: which trials may be started; it may be called more than once.

        Returns:
            The trial, or None if no such trial is queued.
        """
        ...

    @abstractmethod
    def finish(self, number: int, attempt: int, result: Result) -> Trial:
        """Finish a running trial, or one that was queued again and not started since.

        Returns:
            The trial as stored.

        Raises:
            TrialError: if there is no such trial, it is finished, or this is not its last attempt; nothing changes.
        """
        ...

    @abstractmethod
    def requeue(
        self, number: int, attempt: int, reason: str | None = None, measured_cost: float | None = None
    ) -> Trial:
        """Queue a running trial again.

        Args:
            number: the trial's number.
            attempt: the attempt that is given up.
            reason: why; kept until the trial is restarted.
            measured_cost: what the attempt took, if the study shall pay for it; it does where costs are measured, in
                addition to the attempts to come.

        Raises:
            TrialError: as `finish`.
        """
        ...

    @abstractmethod
    def amend(
        self, number: int, action: Action, who: str, reason: str | None = None, result: Result | None = None
    ) -> Trial:
        """Change a trial that is not running, and record who did it and why.

        - exclude: a finished trial no longer counts as an observation.
        - restore: an excluded trial counts again.
        - retry: a failed, lost or excluded trial is queued again; its value and its outcomes are forgotten. It costs
          nothing further, except where costs are measured: then it costs what all its attempts take.
        - correct: a failed or lost trial, or a queued one that was started before, is done with the given value. Where
          costs are measured it costs what the result says, or else what was measured before.

        Args:
            number: the trial's number.
            action: what to do.
            who: who does it, at most 255 characters.
            reason: why.
            result: the value of a trial that is corrected; None for all other actions.

        Returns:
            The trial as stored.

        Raises:
            TrialError: if there is no such trial, or it is in a state in which this cannot be done; nothing changes.
            ObservationError: if the result is missing, or not a done one.
        """
        ...

    @abstractmethod
    def annotate(self, number: int, annotation: Annotation, text: str, who: str) -> Trial:
        """Write on a trial, in whatever state it is, and record who did it.

        - note: the text replaces the trial's note; an empty one removes it.
        - tag: the trial gets this tag.
        - untag: it loses this tag.
        - prioritise: the queued trial gets this priority, a whole number.

        Nothing is recorded if nothing changes: the trial has this note, this tag or this priority already.

        Args:
            number: the trial's number.
            annotation: what to write.
            text: the note, the tag, or the priority in digits.
            who: who does it, at most 255 characters.

        Returns:
            The trial as stored.

        Raises:
            TrialError: if there is no such trial, it has no such tag, or is to get a priority and is not queued.
            SettingError: if the text is not a valid note, tag or priority.
        """
        ...

    @abstractmethod
    def redefine(self, definition: StudyDefinition, who: str, reason: str | None = None) -> None:
        """Replace the definition of the study, and record who did it and why; trials keep the cost they were charged.

        Nothing happens if it is the stored definition already.

        Args:
            definition: the new one, of the same name, with the same names of parameters and fidelities in this order.
            who: who does it, at most 255 characters.
            reason: why, or what is different.

        Raises:
            SettingError: if a name differs; nothing changes.
            StorageError: as `Storage.create`.
        """
        ...

    @abstractmethod
    def note_stop(self, who: str, reason: str) -> None:
        """Record in `changes` that a rule has stopped the study before its budget was spent.

        Args:
            who: the worker that stopped, at most 255 characters.
            reason: the rule that stopped it.
        """
        ...

    @abstractmethod
    def changes(self) -> tuple[Change, ...]:
        """Everything that people have changed afterwards, and the stops that were noted, oldest first."""
        ...

    @abstractmethod
    def beat(self, worker: str) -> None:
        """Renew the heartbeat of a worker's running trials that have one."""
        ...

    @abstractmethod
    def recover(self, silent_for: float, dead: Collection[str], retries: int) -> tuple[Trial, ...]:
        """Queue the running trials of dead workers again.

        A trial is concerned if its worker is among the dead, or if its last heartbeat is older than `silent_for`
        seconds. It is queued again, unless it was started more than `retries` times: then it is lost. A heartbeat in
        the future, because the clock was set back, becomes one of this moment.

        Args:
            silent_for: seconds without a heartbeat after which a worker counts as dead.
            dead: workers that are known to have ended.
            retries: how many times a trial is restarted at most.

        Returns:
            These trials as they are now, queued or lost.
        """
        ...

    @abstractmethod
    def take_turn(self, holder: str, seconds: float, has_ended: Callable[[str], bool] = never) -> bool:
        """Try to take or renew the exclusive right to choose the next trial, for this many seconds.

        Choosing takes seconds of fitting, and two that choose at the same time would choose the same. A turn only saves
        work: `add` decides. It expires, so nobody waits for a process that died.

        Args:
            holder: who wants it.
            seconds: how long; the same for all. A turn with more than that left (and a second) was taken before the
                clock was set back, and counts as expired.
            has_ended: whether the present holder is known to be dead: then nobody waits for the end of its turn. It may
                be called more than once.
        """
        ...

    @abstractmethod
    def end_turn(self, holder: str) -> None:
        """Release the turn; nothing happens if the holder does not have it."""
        ...


@runtime_checkable
class Storage(Protocol):
    """Studies by name."""

    @abstractmethod
    def create(self, definition: StudyDefinition) -> StudyStore:
        """A new study.

        Raises:
            StudyExistsError: if there is one of this name.
            StorageError: if its name cannot be stored, or, in a database, one of its choices: anything but a string,
                number, boolean or None.
        """
        ...

    @abstractmethod
    def open(self, name: str) -> StudyStore:
        """The study of this name.

        Raises:
            UnknownNameError: if there is none; the message lists the existing names.
        """
        ...

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of all studies, oldest first."""
        ...

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a study with all its trials.

        Raises:
            UnknownNameError: if there is none.
        """
        ...

    @abstractmethod
    def close(self) -> None:
        """Close all connections; the storage cannot be used afterwards."""
        ...
