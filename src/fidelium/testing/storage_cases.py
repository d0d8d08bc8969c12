"""Helpers of the storage conformance tests: how to open the storage, hostile studies and trials, assertions."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fidelium.definition import StudyDefinition
from fidelium.errors import FideliumError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, Trial, TrialState
from fidelium.space import Categorical, Integer, Params, Real, SearchSpace
from fidelium.storage.base import Result, Storage, StudyStore

HOSTILE = (
    *("", " ", "'; DROP TABLE fidelium_trials; --", '"$(rm -rf /)"', "a\nb\r\tc", "null", "1", "%s {} \\", "\0"),
    *("\ud800", "ä漢字\U0001f600", "\u202e\ufeff\u2028", "x" * 5000, True, 1, 0.5, -3, 10**30, None, False, 5e-324),
)
"""Choices that break careless code, no two of them equal; `True` and `1` must stay distinct."""

DONE = Result(TrialState.DONE, value=0.1 + 0.2)
FAILED = Result(TrialState.FAILED, reason="no licence", measured_cost=0.5)
FOREVER = 1e9


@dataclass(frozen=True)
class StorageCase:
    """How to open a storage, and how to advance its clock.

    Args:
        open: returns a new storage object for the same studies on each call; for a storage in memory, the same object.
        wait: advances the storage's clock by this many seconds, two at most.
    """

    open: Callable[[], Storage]
    wait: Callable[[float], None] = time.sleep

    @contextmanager
    def stores(self, count: int = 1) -> Iterator[list[StudyStore]]:
        """A new study, through several storage objects; it is deleted at the end."""
        storages = [self.open() for _ in range(count)]
        definition = make_definition()
        try:
            first = storages[0].create(definition)
            yield [first, *(storage.open(definition.stored_name) for storage in storages[1:])]
        finally:
            if definition.stored_name in storages[0].names():
                storages[0].delete(definition.stored_name)
            for storage in storages:
                storage.close()


def make_definition(name: str | None = None) -> StudyDefinition:
    """A study with every kind of parameter and hostile choices; with a unique name if none is given."""
    parameters = {"x": Real(1e-3, 10.0, log=True), "n ä\n": Integer(-3, 7), "choice": Categorical(HOSTILE)}
    return StudyDefinition(
        name=f"study {uuid.uuid4()}" if name is None else name,
        space=SearchSpace(parameters),
        ladder=FidelityLadder((Fidelity("coarse", 1), Fidelity("fine'; --", 10.5))),
        direction=Direction.MINIMIZE,
        strategy="random",
        seed=2**70 + 1,
        initial={"coarse": 4, "fine'; --": 1},
    )


def make_trial(number: int, state: TrialState = TrialState.QUEUED, worker: str | None = None) -> Trial:
    """A trial of `make_definition`'s study; the first ones go through all hostile choices."""
    params: Params = {"x": 0.1 * (number + 1), "n ä\n": number % 11 - 3, "choice": HOSTILE[number % len(HOSTILE)]}
    return Trial(number, params, make_definition("any").ladder[number % 2], state, worker=worker)


def add(
    store: StudyStore,
    number: int,
    state: TrialState = TrialState.QUEUED,
    worker: str | None = None,
    alive: bool = False,
) -> Trial:
    """Add a trial, which must be new."""
    added = store.add(make_trial(number, state, worker), alive=alive)
    if added is None:
        raise AssertionError(f"expected: trial {number} is added; got None")
    return added


def claim(store: StudyStore, worker: str | None) -> Trial:
    """Claim a queued trial, which must exist."""
    claimed = store.claim(worker)
    if claimed is None:
        raise AssertionError("expected: a queued trial is claimed; got None")
    return claimed


def random_step(store: StudyStore, generator: random.Random) -> list[Trial]:
    """Make one random call that changes something, or tries to; returns its result."""
    running = [trial for trial in store.trials() if trial.state is TrialState.RUNNING]
    if running and generator.random() < 0.5:
        trial = generator.choice(running)
        if generator.random() < 0.7:
            return [store.finish(trial.number, trial.attempt, Result(TrialState.DONE, generator.gauss(0.0, 1e6)))]
        return [store.requeue(trial.number, trial.attempt, "again")]
    if generator.random() < 0.2:
        return list(store.recover(FOREVER, ["w"], retries=1))
    if generator.random() < 0.4:
        return [trial for trial in [store.claim("w")] if trial is not None]
    return [add(store, len(store.trials()))]


def work(store: StudyStore, worker: str, total: int) -> list[int]:
    """Add trials until there are `total`, claim and finish until none is queued; returns the finished numbers."""
    while (number := len(store.trials())) < total:
        store.add(make_trial(number))
    ended = []
    while (trial := store.claim(worker)) is not None:
        store.beat(worker)
        store.finish(trial.number, trial.attempt, DONE)
        ended.append(trial.number)
    return ended


def types_of(values: object) -> list[type]:
    """The type of each value: `True == 1`, but they must stay distinct."""
    return [type(value) for value in values]  # pyright: ignore[reportGeneralTypeIssues]


def known_time(seconds: float | None) -> float:
    """A time, which must have been set."""
    if seconds is None:
        raise AssertionError("expected: a time; got None")
    return seconds


def require(holds: bool, law: str, came: object) -> None:
    """Raise an `AssertionError` with the actual value unless the law holds."""
    if not holds:
        raise AssertionError(f"expected: {law}; got {came!r}")


def require_same(what: str, found: object, expected: object) -> None:
    """Raise an `AssertionError` with both values unless they are equal."""
    if found != expected:
        raise AssertionError(f"{what}: expected {expected!r}, got {found!r}")


def refused(kind: type[FideliumError], what: str, call: Callable[[], object]) -> FideliumError:
    """The error of a call, which must raise one of this kind."""
    try:
        result = call()
    except kind as error:
        return error
    raise AssertionError(f"{what}: expected {kind.__name__}, got {result!r}")
