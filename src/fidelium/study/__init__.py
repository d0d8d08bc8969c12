"""Studies: the search for the best design of one objective, with everything it has learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fidelium.fidelity import Fidelity
from fidelium.space import Parameter, SearchSpace
from fidelium.strategies import registry
from fidelium.strategies.base import Strategy
from fidelium.study.runner import Objective
from fidelium.study.settings import checked_settings
from fidelium.study.study import Study
from fidelium.study.trial import LiveTrial, RecommendedDesign

__all__ = ["LiveTrial", "Objective", "RecommendedDesign", "Study", "create_study", "optimize"]


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
) -> Study:
    """A new study. Everything is checked here, before anything is computed.

    Args:
        space: the parameters, by name.
        ladder: the fidelities from low to high; the last is the target, whose best design is wanted.
        direction: "maximize" or "minimize".
        strategy: how to choose what to evaluate: a registered name, or an object with `propose`.
        seed: where all randomness comes from; None draws one (it is then `study.seed`).
        storage: None keeps the study in memory; URLs come with a later release.
        name: what to call the study.
        initial: points of the initial design by fidelity's name; a sensible default if None, no design if empty.

    Raises:
        SpaceError: if the space is not valid.
        FidelityError: if the ladder is not valid, or `initial` names an unknown fidelity.
        UnknownNameError: if the direction or the strategy is unknown.
        SettingError: if the seed, storage, name or a size of the initial design is not valid.
    """
    return Study(checked_settings(space, ladder, direction, strategy, seed, storage, name, initial))


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
