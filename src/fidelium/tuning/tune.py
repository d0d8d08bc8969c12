"""The best architecture of the paper's networks for given observations: what `fidelium tune` runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fidelium.errors import UnknownNameError
from fidelium.history import Observations
from fidelium.randomness import Key
from fidelium.tuning.cross_validation import CrossValidation
from fidelium.tuning.search import ArchitectureSearch, QuickChoice, Scored, SmacSearch, Watch, best_scored

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
        return best_scored(self.scored)

    def snippet(self) -> str:
        """How to use the best architecture, in Python and in a study file."""
        best = self.best.architecture
        fields = {"depths": list(best.depths), "widths": list(best.widths), "learning_rate": best.learning_rate}
        plain = ", ".join(f"{name}: {value}" for name, value in fields.items())
        return (
            f'create_study(..., strategy="dnn-mfbo-paper", strategy_options={{"architecture": {fields!r}}})\n'
            f"study.yaml: strategy: {{name: dnn-mfbo-paper, architecture: {{{plain}}}}}\n"
        )


def tune_architecture(
    observations: Sequence[Observations],
    method: str = "smac",
    *,
    seed: int = 0,
    evaluations: int | None = None,
    seconds: float | None = None,
    validation: CrossValidation | None = None,
    watch: Watch = lambda share, score: None,
) -> Tuned:
    """Search an architecture for the observations that a study has now: `study.history().observations`.

    Args:
        observations: of each fidelity, low to high, in the maximising sign.
        method: "smac" as in the paper (extra `tune`), or "quick", the best of a few.
        seed: of the splits, the initial weights, the training and the search.
        evaluations: architectures to score at most with SMAC3; 50 if neither this nor `seconds` is given.
        seconds: when SMAC3 stops.
        validation: how an architecture is scored; as in the paper if None.
        watch: progress callback.

    Raises:
        UnknownNameError: if the method is unknown.
        SettingError: if a limit leaves nothing to do, or SMAC3 is needed and not installed.
        NoDataError: if no fidelity has four observations.
    """
    search = _search(method, validation or CrossValidation(), evaluations, seconds)
    start = time.perf_counter()
    scored = search.run(observations, Key((seed,)), watch)
    return Tuned(method, scored, time.perf_counter() - start)


def json_records(tuned: Sequence[Tuned]) -> list[dict[str, Any]]:
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
