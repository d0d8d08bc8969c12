"""A study's file, checked and complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fidelium.config.nodes import Document
from fidelium.errors import ConfigError, FideliumError
from fidelium.execution.program import ExternalProgram
from fidelium.fidelity import FidelityLadder
from fidelium.history import Direction
from fidelium.space import SearchSpace
from fidelium.study import Stop


@dataclass(frozen=True)
class Failures:
    """What happens when an evaluation fails.

    Args:
        retries: how many times a failed trial is tried again.
        stops: whether the study stops when that did not help; it goes on otherwise.
    """

    retries: int = 0
    stops: bool = False


@dataclass(frozen=True)
class StudyFile:
    """All that a study's file says, with its paths made whole.

    Args:
        name: what the study is called.
        space: the parameters.
        ladder: the fidelities, low to high.
        direction: maximise or minimise.
        strategy: a registered name.
        seed: where all randomness comes from.
        initial: points of the initial design by fidelity, None for the default.
        storage: URL of the storage.
        budget: what the study may spend in total.
        workers: evaluations at the same time.
        failures: what happens when an evaluation fails.
        stop: when to stop before the budget is spent.
        program: evaluates the trials.
        document: the file with its lines.
    """

    name: str
    space: SearchSpace
    ladder: FidelityLadder
    direction: Direction
    strategy: str
    seed: int
    initial: Mapping[str, int] | None
    storage: str
    budget: float
    workers: int
    failures: Failures
    stop: Stop
    program: ExternalProgram
    document: Document

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.document.path

    def mistake(self, key: str, error: FideliumError | str) -> ConfigError:
        """An error that was found later, with the file and the line of the key that it comes from."""
        return self.document.mistake((key,), str(error))
