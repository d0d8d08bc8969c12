"""Searches for an architecture: the best of a few, or SMAC3 (Lindauer et al. 2022) over the paper's ranges (Sec. 6).

SMAC3 (extra `tune`) gives every evaluation a shape of its own, which is compiled for it. Padding all of them to a few
shapes would compile less and compute far more.
"""

from __future__ import annotations

# pyright: reportMissingImports=false
import math
import tempfile
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from zlib import crc32

from fidelium.errors import SettingError
from fidelium.history import Observations
from fidelium.randomness import Key
from fidelium.surrogates.stacked_dnn.architecture import StackArchitecture
from fidelium.tuning.cross_validation import CrossValidation, require_comparable


@dataclass(frozen=True)
class Scored:
    """An architecture and its score on given data; higher is better."""

    architecture: StackArchitecture
    score: float


def best_scored(scored: Sequence[Scored]) -> Scored:
    """The one with the highest score, the first of equals."""
    return max(scored, key=lambda each: each.score)


Watch = Callable[[float, float], None]
"""Progress callback: fraction done, best score so far (-inf before the first)."""


@runtime_checkable
class ArchitectureSearch(Protocol):
    """A way to find an architecture: a frozen record, whose `repr` says all that decides what it finds."""

    @abstractmethod
    def run(self, observations: Sequence[Observations], key: Key, watch: Watch) -> tuple[Scored, ...]:
        """Every architecture that was scored, the default one first.

        Raises:
            NoDataError: if no fidelity has `FEWEST` observations.
        """
        ...


QUICK_SHAPES = ((2, 32), (2, 128), (3, 128))
"""Depths and widths that are tried, all fidelities alike."""

QUICK_RATES = (3e-4, 1e-3, 3e-3)
"""Learning rates that are tried, each with every shape."""


@dataclass(frozen=True)
class QuickChoice:
    """The best of a few architectures.

    Args:
        validation: how they are scored.
    """

    validation: CrossValidation = CrossValidation()

    def run(self, observations: Sequence[Observations], key: Key, watch: Watch) -> tuple[Scored, ...]:
        """Every architecture with its score, the default one first."""
        architectures = few_architectures(len(observations))
        scores = self.validation.scores(observations, architectures, key, lambda share: watch(share, -math.inf))
        return tuple(Scored(each, float(score)) for each, score in zip(architectures, scores, strict=True))


def few_architectures(fidelities: int) -> tuple[StackArchitecture, ...]:
    """The default architecture, and the others that are tried."""
    tried = [
        StackArchitecture((depth,) * fidelities, (width,) * fidelities, rate)
        for (depth, width), rate in product(QUICK_SHAPES, QUICK_RATES)
    ]
    return tuple(dict.fromkeys([StackArchitecture.default(fidelities), *tried]))


DEPTHS, WIDTHS, LEARNING_RATES = (2, 12), (32, 512), (1e-5, 1e-1)
"""The paper's ranges; widths and learning rates are searched on a logarithmic scale."""

_SMAC = 3
"""Word of SMAC's own key: the scores use the key itself, and are those of the quick choice with the same key."""

_USUAL_EVALUATIONS = 50
"""The number of evaluations by which SMAC plans its random start (a quarter) if only the time is limited."""


@dataclass(frozen=True)
class SmacSearch:
    """SMAC3 over depth, width and learning rate, started at the default architecture.

    A fidelity with too few observations to be tested has the shape of the nearest one below that is tested: nothing
    would guide a search of its own. Limited by evaluations alone, it finds the same for the same observations and key.

    Args:
        validation: how an architecture is scored.
        evaluations: architectures to score at most, None for no limit.
        seconds: when to stop, None for no limit; what is being scored then does not count, unless it is the first.

    Raises:
        SettingError: if there is no limit, or one that leaves nothing to do, or SMAC3 is not installed.
    """

    validation: CrossValidation = CrossValidation()
    evaluations: int | None = 50
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.evaluations is None and self.seconds is None:
            raise SettingError("a search needs a limit: evaluations, seconds, or both")
        if self.evaluations is not None and self.evaluations < 1:
            raise SettingError(f"evaluations must be at least 1, got {self.evaluations!r}")
        if self.seconds is not None and not self.seconds > 0:
            raise SettingError(f"seconds must be above 0, got {self.seconds!r}")
        if find_spec("smac") is None:
            raise SettingError(
                "the search with SMAC3 needs the package smac, which is not installed; "
                "pip install 'fidelium[tune]', or use the quick choice, which does not need it"
            )

    def run(self, observations: Sequence[Observations], key: Key, watch: Watch) -> tuple[Scored, ...]:
        """Every architecture that was scored, the default one first."""
        from smac.runhistory.dataclasses import TrialValue

        scored: list[Scored] = []
        tick = partial(self._tick, scored, time.perf_counter(), watch)
        guides = guiding_fidelities(observations)
        with _smac(sorted(set(guides)), self.evaluations or _USUAL_EVALUATIONS, key.fold(_SMAC)) as (smac, first):
            while len(scored) < (self.evaluations or math.inf):
                with steady_hashes():
                    trial = smac.ask() if scored else first
                architecture = _architecture(trial.config, guides)
                try:
                    (score,) = self.validation.scores(observations, [architecture], key, tick)
                except _TimeIsUpError:
                    break
                scored.append(Scored(architecture, float(score)))
                with steady_hashes():
                    smac.tell(trial, TrialValue(cost=-float(score)), save=False)  # SMAC minimises
        return tuple(scored)

    def _tick(self, scored: Sequence[Scored], start: float, watch: Watch, share: float) -> None:
        """Report the progress when a share of the next score is done, and stop when the time is up."""
        used = time.perf_counter() - start
        if scored and used > (self.seconds or math.inf):
            raise _TimeIsUpError
        done = max((len(scored) + share) / (self.evaluations or math.inf), used / (self.seconds or math.inf))
        watch(min(done, 1.0), best_scored(scored).score if scored else -math.inf)


def guiding_fidelities(observations: Sequence[Observations]) -> tuple[int, ...]:
    """For each fidelity the one whose shape it has: itself if it is tested, the next below that is, or the first.

    Raises:
        NoDataError: if no fidelity is tested.
    """
    tested = require_comparable(observations)
    return tuple(max((t for t in tested if t <= m), default=tested[0]) for m in range(len(observations)))


@contextmanager
def steady_hashes() -> Iterator[None]:
    """Give SMAC's configurations the same hashes in every process.

    SMAC keeps the starts of its local searches in a set. Their hashes are those of strings, which Python salts anew in
    each process: the order of the starts would change, and with it the random numbers that each gets, and so the query.
    """
    from ConfigSpace import Configuration

    salted = Configuration.__hash__
    Configuration.__hash__ = lambda self: crc32(repr(self).encode())
    try:
        yield
    finally:
        Configuration.__hash__ = salted


class _TimeIsUpError(Exception):
    """Ends a training that is no longer wanted."""


@contextmanager
def _smac(searched: Sequence[int], evaluations: int, key: Key) -> Iterator[tuple[Any, Any]]:
    """SMAC's optimiser over the shapes of these fidelities, and the trial of the default architecture to tell it first.

    Its files go to a folder that is removed at the end.
    """
    from smac import HyperparameterOptimizationFacade, Scenario
    from smac.runhistory.dataclasses import TrialInfo

    seed = key.word()
    space = _space(searched, seed)
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(space, deterministic=True, n_trials=evaluations, seed=seed, output_directory=Path(folder))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of SMAC's own making
            smac = HyperparameterOptimizationFacade(
                scenario,
                _not_called,
                intensifier=HyperparameterOptimizationFacade.get_intensifier(scenario, max_config_calls=1),
                logging_level=False,
                overwrite=True,
            )
        yield smac, TrialInfo(space.get_default_configuration(), seed=0)


def _space(searched: Sequence[int], seed: int) -> Any:
    from ConfigSpace import ConfigurationSpace, Float, Integer

    default = StackArchitecture.default(1)
    space = ConfigurationSpace(seed=seed)
    for m in searched:
        space.add(Integer(f"depth_{m}", DEPTHS, default=default.depths[0]))
        space.add(Integer(f"width_{m}", WIDTHS, default=default.widths[0], log=True))
    space.add(Float("learning_rate", LEARNING_RATES, default=default.learning_rate, log=True))
    return space


def _architecture(configuration: Any, guides: Sequence[int]) -> StackArchitecture:
    depths = tuple(int(configuration[f"depth_{m}"]) for m in guides)
    widths = tuple(int(configuration[f"width_{m}"]) for m in guides)
    return StackArchitecture(depths, widths, float(configuration["learning_rate"]))


def _not_called(configuration: Any, seed: int = 0) -> float:
    raise AssertionError("SMAC is asked and told, and runs nothing by itself")
