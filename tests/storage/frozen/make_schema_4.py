"""Made schema_4.db, once, with the first release of schema 4: `python make_schema_4.py FILE`. Not to be run again."""

from __future__ import annotations

import sys

from fidelium.catalogue import Catalogue
from fidelium.definition import StudyDefinition
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, Trial, TrialState
from fidelium.space import Real, SearchSpace
from fidelium.storage import Result
from fidelium.storage.base import Annotation
from fidelium.storage.sql.storage import SqlStorage

ITEMS = {"IPE 80 ä": {"area": 7.64, "inertia": 80.1}, "IPE 200": {"area": 28.5, "inertia": 1943.0}}


def main(file: str) -> None:
    """One study with standard errors, measured costs, and all that people may say."""
    times = iter(range(1000, 2000))
    storage = SqlStorage(f"sqlite:///{file}", clock=lambda: next(times) + 0.25)
    space = SearchSpace({"x": Real(-1, 1.5), "profile": Catalogue(ITEMS, log=["inertia"])}, ("profile.area <= 30",))
    rungs = (Fidelity("coarse", 1, inputs=("x",)), Fidelity("fine", "10 + x * profile.area / 100"))
    ladder = FidelityLadder(rungs).priced(space)
    definition = StudyDefinition(space, ladder, Direction.MINIMIZE, name="plate ä", cost="measured")
    store = storage.create(definition)
    params = [{"x": 0.25 * number, "profile": list(ITEMS)[number % 2]} for number in range(5)]
    done, queued = TrialState.DONE, TrialState.QUEUED
    said = {"note": "checked by hand, ä", "tags": ("good", "ä-b")}
    store.add(Trial(0, params[0], ladder[0], done, value=1 / 3, given=True, std=0.1 + 0.2, **said))
    store.enqueue([Trial(0, params[number], ladder[1], queued, priority=7 - number) for number in (1, 2)], "ada@host")
    store.claim("host:1")
    store.finish(1, 1, Result(done, 1.0, std=0.0, measured_cost=0.1 + 0.7))
    store.annotate(2, Annotation.NOTE, "the mesh is coarse", "bob@host")
    store.annotate(2, Annotation.TAG, "thin", "bob@host")
    store.annotate(2, Annotation.PRIORITISE, "-3", "bob@host")
    store.add(Trial(3, params[3], ladder[0], done, value=2.0, given=True, std=2.5, tags=("x",)))
    store.annotate(3, Annotation.UNTAG, "x", "bob@host")
    store.add(Trial(4, params[4], ladder[1], TrialState.RUNNING, charged=12.5, worker="host:2"), alive=True)
    store.note_stop("host:1", "goal: trial 1 reaches the goal of 2 with 1 [budget 40.0]")
    storage.close()


if __name__ == "__main__":
    main(sys.argv[1])
