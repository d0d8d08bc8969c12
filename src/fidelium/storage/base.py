"""The contract of a storage: where studies and their trials live, and what can be relied on.

A `Storage` holds studies by name; a `StudyStore` holds the trials of one. Any number of threads, processes and, where
the storage can, machines may use the same study at once, each through its own storage object.

**Numbers.** Trials are numbered 0, 1, 2, ... without gaps, and deleted only with their study; a study that was deleted
is refused to whoever still holds it (`StorageError`), even if there is a new one of its name. The parameters and the
fidelity of a trial never change.

**What is stored.** Parameter values come back as the same bits and the same type. Reasons are kept as text that people
read: what no database takes (NUL, halves of surrogate pairs) is spelled out, and the middle of a very long one is cut.
Names of studies, workers and holders of a turn are texts of at most 255 characters without these (`StorageError`).

**Who owns a trial.** A trial that is running is owned by the worker that started it, for one attempt: the pair of its
number and `attempt`. Only who names the current attempt may finish it, give it back or fail it, so a worker that was
taken for dead and comes back late is refused (`TrialError`) and nothing is told twice. A trial without a heartbeat was
handed to a person or a script: it is theirs for as long as they like.

**What is atomic.** Every method happens wholly or not at all, and all of them happen one after another: two calls of
`claim` never return the same trial, two of `add` never give out the same number, and what `trials` returns is one
moment's truth, never older than what the same object has returned before. The budget holds by construction: what does
not fit is refused by the `add` itself.

**What is durable.** When `create`, `add`, `claim`, `finish`, `requeue` or `recover` returns, its effect is on the disk
(or with the database server) and survives the end of the process or of the machine. Heartbeats and turns need not.
An error means that nothing has changed; the one exception is a server lost while it writes, and its message says so.
The storage in memory lives as long as its process.

**Times** are seconds since 1970 by the storage's clock: the server's for a database server, this machine's otherwise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fidelium.definition import StudyDefinition
from fidelium.errors import ObservationError
from fidelium.history import Trial, TrialState


@dataclass(frozen=True)
class Outcome:
    """How an evaluation ended.

    Args:
        state: done or failed.
        value: the finite value of a done trial, in the user's units.
        reason: why it failed.
        measured_cost: what the simulator says it really cost, finite; recorded, not counted.

    Raises:
        ObservationError: if the state is another one, a done trial has no finite value, or a failed one has a value.
    """

    state: TrialState
    value: float | None = None
    reason: str | None = None
    measured_cost: float | None = None

    def __post_init__(self) -> None:
        if self.state not in (TrialState.DONE, TrialState.FAILED):
            raise ObservationError(f"an evaluation ends as done or failed, got {self.state!r}")
        if self.state is TrialState.DONE and (self.value is None or not math.isfinite(self.value)):
            raise ObservationError(f"a done trial has a finite value, got {self.value!r}; tell a failure instead")
        if self.state is TrialState.FAILED and self.value is not None:
            raise ObservationError(f"a failed trial has a reason and no value, got {self.value!r}")
        if self.measured_cost is not None and not math.isfinite(self.measured_cost):
            raise ObservationError(f"a measured cost is a finite number or None, got {self.measured_cost!r}")


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
            The trial as stored, or None, and nothing happened, if its number is taken: somebody else was faster.

        Raises:
            TrialError: if its number is beyond the next one.
            BudgetError: if its number is the next one, and its cost exceeds what is left of the budget.
            StorageError: if a parameter's value cannot be stored.
        """
        ...

    @abstractmethod
    def claim(self, worker: str | None) -> Trial | None:
        """Start the queued trial of the lowest number: it is this worker's, one attempt later.

        Args:
            worker: who sends heartbeats from now on; None for a person or a script, who sends none.

        Returns:
            The trial, or None if none is queued.
        """
        ...

    @abstractmethod
    def finish(self, number: int, attempt: int, outcome: Outcome) -> Trial:
        """Finish a running trial.

        Returns:
            The trial as stored.

        Raises:
            TrialError: if there is no such trial, or it is not running in this attempt; nothing changes.
        """
        ...

    @abstractmethod
    def requeue(self, number: int, attempt: int, reason: str | None = None) -> Trial:
        """Give a running trial back, to be started again.

        Args:
            number: the trial's number.
            attempt: the attempt that is given up.
            reason: why; kept until the trial is started again.

        Raises:
            TrialError: as `finish`.
        """
        ...

    @abstractmethod
    def beat(self, worker: str) -> None:
        """Say that a worker is alive: its running trials that have a heartbeat get a new one."""
        ...

    @abstractmethod
    def recover(self, silent_for: float, dead: Collection[str], retries: int) -> tuple[Trial, ...]:
        """Take running trials away from workers that vanished.

        A trial is taken if its worker is among the dead, or if its last heartbeat is older than `silent_for` seconds.
        It is queued again, unless it was started more than `retries` times before: then it is lost, for good.

        Args:
            silent_for: seconds without a heartbeat after which a worker is taken for dead.
            dead: workers that are known to have ended.
            retries: how many times a trial is started again at most.

        Returns:
            The trials taken, as they are now, queued or lost.
        """
        ...

    @abstractmethod
    def take_turn(self, holder: str, seconds: float) -> bool:
        """Try to be the only one who chooses the next trial, for so many seconds; who holds the turn may renew it.

        Choosing takes seconds of fitting, and whoever chooses at the same time would choose the same. A turn saves
        work, no more: `add` decides. It ends by itself, so nobody waits for the dead.
        """
        ...

    @abstractmethod
    def end_turn(self, holder: str) -> None:
        """Let the next one choose; nothing happens if the holder has no turn."""
        ...


@runtime_checkable
class Storage(Protocol):
    """Studies by name."""

    @abstractmethod
    def create(self, definition: StudyDefinition) -> StudyStore:
        """A new study.

        Raises:
            StudyExistsError: if there is one of this name.
            StorageError: if its name cannot be written down, or, in a database, one of its choices: no text, number,
                truth value or None.
        """
        ...

    @abstractmethod
    def open(self, name: str) -> StudyStore:
        """The study of this name.

        Raises:
            UnknownNameError: if there is none; the message lists the names there are.
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
        """Give back connections; the storage is not to be used afterwards."""
        ...
