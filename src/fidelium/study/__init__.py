"""Studies: the search for the best design of one objective, with everything it has learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fidelium.execution.base import Objective
from fidelium.fidelity import Fidelity
from fidelium.space import Parameter, SearchSpace
from fidelium.strategies import registry
from fidelium.strategies.base import Strategy
from fidelium.study.opening import create, load
from fidelium.study.settings import checked_settings
from fidelium.study.stopping import Stop
from fidelium.study.study import Study
from fidelium.study.trial import LiveTrial, RecommendedDesign

__all__ = ["LiveTrial", "Objective", "RecommendedDesign", "Stop", "Study", "create_study", "load_study", "optimize"]


def create_study(
    space: SearchSpace | Mapping[str, Parameter],
    ladder: Iterable[Fidelity],
    *,
    direction: str,
    strategy: str | Strategy = registry.DEFAULT,
    seed: int | None = 0,
    storage: str | None = None,
    name: str | None = None,
    initial: Mapping[str, int] | None = None,
    load_if_exists: bool = False,
) -> Study:
    """A new study. Everything is checked here, before anything is computed.

    Args:
        space: the parameters, by name.
        ladder: the fidelities from low to high; the last is the target, whose best design is wanted.
        direction: "maximize" or "minimize".
        strategy: how to choose what to evaluate: a registered name, or an object with `propose`.
        seed: where all randomness comes from; None draws one (it is then `study.seed`).
        storage: where it is kept: `sqlite:///file.db`, `postgresql://user@host/database`, or None for memory.
        name: what to call the study; it is unique in its storage.
        initial: points of the initial design by fidelity's name; a sensible default if None, no design if empty.
        load_if_exists: whether to go on with the study of this name if the storage has one. Its parameters,
            fidelities and direction must be these; strategy, seed and initial design may be others from now on.

    Raises:
        SpaceError: if the space is not valid.
        FidelityError: if the ladder is not valid, or `initial` names an unknown fidelity.
        UnknownNameError: if the direction or the strategy is unknown.
        SettingError: if the seed, name or a size of the initial design is not valid, or the study that exists differs.
        StudyExistsError: if there is a study of this name, and it is not to be loaded.
        StorageError: if the storage cannot be opened or written.
    """
    settings = checked_settings(space, ladder, direction, strategy, seed, name, initial)
    return create(settings, storage, load_if_exists)


def load_study(storage: str, name: str | None = None, *, strategy: str | Strategy | None = None) -> Study:
    """A study as it was left.

    Args:
        storage: where it is kept, as in `create_study`.
        name: what it is called; may be left out if the storage has a single study.
        strategy: how to choose from now on; the study's own if None.

    Raises:
        UnknownNameError: if there is no such study, or the strategy is unknown.
        SettingError: if it was made with a strategy object, and none is given.
        StorageError: if the storage cannot be opened.
    """
    return load(storage, name, strategy)


def optimize(
    objective: Objective,
    space: SearchSpace | Mapping[str, Parameter],
    ladder: Iterable[Fidelity],
    *,
    direction: str,
    budget: float,
    strategy: str | Strategy = registry.DEFAULT,
    seed: int | None = 0,
    initial: Mapping[str, int] | None = None,
    workers: int = 1,
    progress: bool = True,
) -> Study:
    """Create a study in memory, spend the budget on the objective, and return the study.

    The arguments are those of `create_study` and `Study.optimize`.

    Raises:
        FideliumError: as those two.
    """
    study = create_study(space, ladder, direction=direction, strategy=strategy, seed=seed, initial=initial)
    study.optimize(objective, budget, workers=workers, progress=progress)
    return study
