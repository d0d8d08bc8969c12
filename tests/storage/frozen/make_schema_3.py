"""Made schema_3.db, once, with the first release of schema 3: `python make_schema_3.py FILE`. Not to be run again."""

from __future__ import annotations

import sys
from dataclasses import replace

from fidelium.constraints import OutcomeConstraint
from fidelium.definition import StudyDefinition
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, Trial, TrialState
from fidelium.space import Categorical, Integer, Real, SearchSpace
from fidelium.storage import Action, Result
from fidelium.storage.sql.storage import SqlStorage

OUTCOMES = {"stress": 0.1 + 0.2, "frequenz.ä": 12.0, "mass": 1e-300}


def main(file: str) -> None:
    """One study with a trial in every state, and every change that a person can make."""
    times = iter(range(1000, 2000))
    storage = SqlStorage(f"sqlite:///{file}", clock=lambda: next(times) + 0.25)
    ladder = FidelityLadder((Fidelity("coarse", 1), Fidelity("fine", 2.5)))
    parameters = {"x": Real(-1, 1.5), "r": Real(1e-9, 1.0, log=True), "n": Integer(1, 64, log=True)}
    space = SearchSpace(parameters | {"c": Categorical(("ä\0\ud800", True, 1, 0.1, None))})
    sizes = {"coarse": 20, "fine": 2}
    definition = StudyDefinition(
        space,
        ladder,
        Direction.MINIMIZE,
        "dnn-mfbo",
        seed=2**80,
        initial=sizes,
        name="plate ä",
        constraints=(OutcomeConstraint("stress", upper=150e6), OutcomeConstraint("frequenz.ä", 10, 20.5)),
        failures_teach=False,
        timeouts_teach=False,
    )
    store = storage.create(definition)
    choices = ("ä\0\ud800", True, 1, 0.1, None, 1)
    params = [{"x": 0.1 + 0.2, "r": 1e-9, "n": number + 1, "c": choice} for number, choice in enumerate(choices)]
    store.add(Trial(0, params[0], ladder[0], TrialState.DONE, value=1 / 3, given=True, outcomes=OUTCOMES))
    for number in range(1, 6):
        store.add(Trial(number, params[number], ladder[number % 2], TrialState.QUEUED))
    store.claim("host:1")
    store.finish(1, 1, Result(TrialState.DONE, value=-2.5e-300, measured_cost=7.5, outcomes={"stress": 150e6}))
    store.claim("host:1")
    store.finish(2, 1, Result(TrialState.FAILED, reason="mesher: exit code 3\nlast line"))
    store.claim("host:1")
    store.recover(1e9, ["host:1"], retries=0)
    store.claim("host:2")
    store.claim("host:3")
    store.requeue(4, 1, "interrupted")
    store.requeue(5, 1)
    store.claim("host:3")
    store.beat("host:3")
    store.requeue(4, 2, "interrupted again")
    store.add(Trial(6, params[5], ladder[1], TrialState.RUNNING, worker="host:4"), alive=True)
    store.beat("host:4")
    store.add(Trial(7, params[5], ladder[0], TrialState.RUNNING))
    dearer = FidelityLadder((Fidelity("coarse", 1.5), Fidelity("fine", 4)))
    store.redefine(replace(definition, ladder=dearer), "ada@host", "coarse costs 1.5, fine 4")
    for number in range(8, 12):
        store.add(Trial(number, params[0], dearer[1], TrialState.RUNNING))
        store.finish(number, 1, Result(TrialState.FAILED, reason="no licence"))
    store.amend(1, Action.EXCLUDE, "ada@host", "wrong mesh")
    store.amend(8, Action.RETRY, "bob@host")
    store.amend(9, Action.EXCLUDE, "bob@host")
    store.amend(9, Action.RESTORE, "bob@host", "a mistake")
    corrected = Result(TrialState.DONE, 0.75, measured_cost=3.0, outcomes=OUTCOMES)
    store.amend(10, Action.CORRECT, "bob@host", "read by hand", corrected)
    store.amend(10, Action.EXCLUDE, "bob@host")
    store.amend(10, Action.RETRY, "bob@host")
    store.add(Trial(12, params[1], dearer[0], TrialState.DONE, value=2.0, given=True, outcomes=OUTCOMES))
    storage.close()


if __name__ == "__main__":
    main(sys.argv[1])
