"""Made schema_4.db, once, with the first release of schema 4: `python make_schema_4.py FILE`. Not to be run again."""

from __future__ import annotations

import sys

from fidelium.definition import StudyDefinition
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, Trial, TrialState
from fidelium.space import Real, SearchSpace
from fidelium.storage import Result
from fidelium.storage.sql.storage import SqlStorage


def main(file: str) -> None:
    """One study with standard errors, priorities, notes and tags."""
    times = iter(range(1000, 2000))
    storage = SqlStorage(f"sqlite:///{file}", clock=lambda: next(times) + 0.25)
    ladder = FidelityLadder((Fidelity("coarse", 1), Fidelity("fine", 2.5)))
    definition = StudyDefinition(SearchSpace({"x": Real(-1, 1.5)}), ladder, Direction.MINIMIZE, name="plate ä")
    store = storage.create(definition)
    done, queued = TrialState.DONE, TrialState.QUEUED
    said = {"note": "checked by hand, ä", "tags": ("good", "ä b")}
    store.add(Trial(0, {"x": 0.5}, ladder[0], done, value=1 / 3, given=True, std=0.1 + 0.2, **said))
    store.add(Trial(1, {"x": 0.75}, ladder[1], queued, priority=7))
    store.claim("host:1")
    store.finish(1, 1, Result(done, 1.0, std=0.0))
    store.add(Trial(2, {"x": 0.25}, ladder[1], queued, priority=-3, note=""))
    store.add(Trial(3, {"x": 1.0}, ladder[0], done, value=2.0, given=True, std=2.5, tags=("x",)))
    storage.close()


if __name__ == "__main__":
    main(sys.argv[1])
