"""What a study returns: a live view of a trial, and the design it recommends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fidelium.fidelity import Fidelity
from fidelium.history import Trial, TrialState
from fidelium.space import Params

if TYPE_CHECKING:
    from fidelium.study.study import Study


class LiveTrial:
    """A trial that was asked for: what to evaluate, and, once it is recorded, the result.

    Args:
        study: the study that knows it.
        asked: the trial as it was handed out.
    """

    def __init__(self, study: Study, asked: Trial) -> None:
        self._study = study
        self._asked = asked

    @property
    def study(self) -> Study:
        """The study this trial belongs to."""
        return self._study

    def record(self) -> Trial:
        """The trial as it is now, read from the study."""
        return self._study.snapshot().trials[self._asked.number]

    @property
    def number(self) -> int:
        """Position in the study, from 0."""
        return self._asked.number

    @property
    def attempt(self) -> int:
        """Which start of the trial this is, from 1: a trial that was given back is started again."""
        return self._asked.attempt

    @property
    def params(self) -> Params:
        """A copy of the values of all parameters, plain Python objects."""
        return dict(self._asked.params)

    @property
    def fidelity(self) -> Fidelity:
        """The fidelity to evaluate at (`.name`, `.cost`)."""
        return self._asked.fidelity

    @property
    def value(self) -> float | None:
        """The recorded value, None until there is one."""
        return self.record().value

    @property
    def state(self) -> TrialState:
        """Queued, running, done, failed or lost."""
        return self.record().state

    @property
    def reason(self) -> str | None:
        """Why the trial failed, None if it did not."""
        return self.record().reason

    def __repr__(self) -> str:
        now = self.record()
        outcome = "" if now.value is None else f", value={now.value!r}"
        return f"<trial {now.number} at {now.fidelity.name!r}: {now.params}, {now.state}{outcome}>"


@dataclass(frozen=True)
class RecommendedDesign:
    """The design a study would choose now, with what its model expects at the target.

    Args:
        params: values of all parameters.
        mean: posterior mean of the target there, in the user's units; the observed value if it was observed and the
            model finds that runs repeat.
        std: posterior standard deviation there; 0 with an observed value.
        trial: number of the best trial that observed the design at the target, None if it is a new one.
    """

    params: Params
    mean: float
    std: float
    trial: int | None = None
