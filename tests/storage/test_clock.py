"""A clock that is set back by an hour: nobody waits an hour, and no live worker loses its trial."""

from __future__ import annotations

from fidelium.history import TrialState
from fidelium.testing.storage_cases import StorageCase, add

HOUR = 3600.0


def test_a_turn_taken_before_the_clock_was_set_back_is_over(open_again, clock):
    with StorageCase(open_again, clock.wait).stores(2) as (store, other):
        assert store.take_turn("a", 15.0)
        clock.wait(-0.5)  # as a time server does
        assert not other.take_turn("b", 15.0)
        clock.wait(-HOUR)
        assert other.take_turn("b", 15.0)
        assert not store.take_turn("a", 15.0)
        clock.wait(15.0)
        assert store.take_turn("a", 15.0)


def test_a_dead_workers_heartbeat_in_the_future_ends_after_the_usual_time(open_again, clock):
    with StorageCase(open_again, clock.wait).stores(2) as (store, other):
        for number, worker in enumerate(("dead", "lively")):
            add(store, number, TrialState.RUNNING, worker, alive=True)
        clock.wait(-HOUR)
        assert other.recover(60.0, [], retries=10) == ()  # neither: the lively one has not yet had a chance to beat
        for _ in range(12):
            clock.wait(5.0)
            store.beat("lively")
            assert other.recover(60.0, [], retries=10) == ()
        clock.wait(5.0)
        store.beat("lively")
        assert [trial.number for trial in other.recover(60.0, [], retries=10)] == [0]
        assert store.trials()[1].worker == "lively"


def test_a_worker_known_to_be_dead_loses_its_trial_whatever_the_clock_says(open_again, clock):
    with StorageCase(open_again, clock.wait).stores(2) as (store, other):
        add(store, 0, TrialState.RUNNING, "dead", alive=True)
        clock.wait(-HOUR)
        (taken,) = other.recover(60.0, ["dead"], retries=10)
        assert (taken.state, taken.reason) == ("queued", "worker dead has ended")
        assert store.trials() == (taken,)
        assert add(store, 1).number == 1
