"""Which architecture the paper's networks should have, for a study or a problem: what `fidelium tune` runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fidelium.errors import UnknownNameError
from fidelium.experiments.cell import initial_observations
from fidelium.history import Observations
from fidelium.problems import Problem
from fidelium.randomness import Key
from fidelium.study import Study, create_study
from fidelium.surrogates.stacked_dnn.architecture import ArchitectureSearch, Scored, Watch, best
from fidelium.surrogates.stacked_dnn.crossvalidation import CrossValidation
from fidelium.surrogates.stacked_dnn.quick_choice import QuickChoice
from fidelium.surrogates.stacked_dnn.smac_search import SmacSearch

METHODS = ("smac", "quick")


@dataclass(frozen=True)
class Tuned:
    """What a search found.

    Args:
        method: "smac" or "quick".
        scored: every architecture it scored, the default one first.
        seconds: what it took.
    """

    method: str
    scored: tuple[Scored, ...]
    seconds: float

    @property
    def default(self) -> Scored:
        """The architecture that is used without a search."""
        return self.scored[0]

    @property
    def best(self) -> Scored:
        """The architecture of the highest score."""
        return best(self.scored)

    def snippet(self) -> str:
        """Python that makes the strategy with the best architecture."""
        return (
            "from fidelium.strategies.dnn_mfbo import dnn_mfbo_paper\n"
            "from fidelium.surrogates.stacked_dnn.architecture import StackArchitecture\n\n"
            f"strategy = dnn_mfbo_paper({self.best.architecture!r})\n"
        )


def tune(
    source: Study | Sequence[Observations],
    method: str = "smac",
    *,
    seed: int = 0,
    evaluations: int | None = None,
    seconds: float | None = None,
    validation: CrossValidation | None = None,
    watch: Watch = lambda share, score: None,
) -> Tuned:
    """Search an architecture for the observations that a study has now.

    A study is the object in this process: studies that are kept in a database, and their names, come with a later
    release.

    Args:
        source: the study, or the observations of each fidelity in the maximising sign.
        method: "smac" as in the paper (extra `tune`), or "quick", the best of a few.
        seed: of the splits, the initial weights, the training and the search.
        evaluations: architectures to score at most with SMAC3; 50 if neither this nor `seconds` is given.
        seconds: when SMAC3 stops.
        validation: how an architecture is scored; as in the paper if None.
        watch: told how far the search is.

    Raises:
        UnknownNameError: if the method is unknown.
        SettingError: if a limit leaves nothing to do, or SMAC3 is wanted and not installed.
        NoDataError: if no fidelity has four observations.
    """
    search = _search(method, validation or CrossValidation(), evaluations, seconds)
    observations = source.history().observations if isinstance(source, Study) else source
    start = time.perf_counter()
    scored = search.run(observations, Key((seed,)), watch)
    return Tuned(method, scored, time.perf_counter() - start)


def study_of(problem: Problem, seed: int) -> Study:
    """A study that has made the problem's initial observations, the same as all experiments with this seed."""
    study = create_study(problem.space, problem.ladder, direction=problem.direction, seed=seed, initial={})
    for params, fidelity, value in initial_observations(problem, seed):
        study.add_observation(params, fidelity, value)
    return study


def report(tuned: Sequence[Tuned]) -> list[dict[str, Any]]:
    """Everything that was scored, ready for JSON."""
    return [
        {
            "method": each.method,
            "seconds": each.seconds,
            "scored": [
                {
                    "depths": list(scored.architecture.depths),
                    "widths": list(scored.architecture.widths),
                    "learning_rate": scored.architecture.learning_rate,
                    "score": scored.score,
                }
                for scored in each.scored
            ],
        }
        for each in tuned
    ]


def _search(
    method: str, validation: CrossValidation, evaluations: int | None, seconds: float | None
) -> ArchitectureSearch:
    if method == "quick":
        return QuickChoice(validation)
    if method == "smac":
        return SmacSearch(validation, 50 if evaluations is None and seconds is None else evaluations, seconds)
    raise UnknownNameError(f"unknown method {method!r}; known are {', '.join(map(repr, METHODS))}")
