"""The definition of a study: what is searched, at which fidelities, and how. Its only record, validated once.

A study file holds a `StudyDefinition`, a storage stores it, and a study is made from it.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fidelium.constraints import OutcomeConstraint, outcome_constraints
from fidelium.errors import BudgetError, FideliumError, SettingError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.numbers import as_number, exact_sum
from fidelium.space import Parameter, SearchSpace
from fidelium.strategies import registry
from fidelium.strategies.base import Strategy
from fidelium.strategies.initial_design import default_sizes, sizes_within, validated_sizes

INITIAL_SHARE = 3
"""The default initial design costs at most the budget divided by this."""

DECLARED, MEASURED = "declared", "measured"
"""Which costs count: those of the fidelities, or what runs really cost."""

DEFAULT_NAME = "study"
"""The name under which a storage keeps a study that was given none."""


@dataclass(frozen=True)
class StudyDefinition:
    """What a study is made from, valid and complete; `of` accepts it as users write it.

    Args:
        space: the parameters.
        ladder: the fidelities, low to high.
        direction: maximise or minimise.
        strategy: a registered name, a strategy object, or what a storage knows of such an object.
        strategy_options: keyword arguments of a named strategy.
        seed: where all randomness comes from.
        initial: points of the initial design, for every fidelity by name.
        name: what the user calls the study, unique in its storage.
        default_initial: whether the user left the initial design to us: then it takes a third of a budget at most.
        limits: the budget and the timeouts of a study file, by what they are called: recorded, so that a change is
            noticed, and not used otherwise.
        constraints: limits of outcomes at the target.
        failures_teach: whether a model of success learns from failed trials.
        timeouts_teach: whether trials whose time was up count as failures of their design.
        cost: "declared", or "measured": trials cost what was measured, and declared costs are a first guess.

    Raises:
        FideliumError: of the kind that fits, with the name of the first invalid argument as `setting`.
    """

    space: SearchSpace
    ladder: FidelityLadder
    direction: Direction
    strategy: str | Strategy | registry.StoredStrategy = registry.DEFAULT
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    initial: Mapping[str, int] = field(default_factory=dict)
    name: str | None = None
    default_initial: bool = False
    limits: Mapping[str, float] = field(default_factory=dict)
    constraints: tuple[OutcomeConstraint, ...] = ()
    failures_teach: bool = True
    timeouts_teach: bool = True
    cost: str = DECLARED

    def __post_init__(self) -> None:
        with _about("fidelities"):
            self.ladder.check_inputs(self.space.names)
            _ = self.ladder.costs  # raises if they depend on the design and `priced` was not called
        with _about("cost"):
            if self.cost not in (DECLARED, MEASURED):
                raise SettingError(f"cost must be {DECLARED!r} or {MEASURED!r}, got {self.cost!r}")
        with _about("strategy"):
            registry.check(self.strategy, self.strategy_options)
            if self.constraints:
                registry.check_constraints(self.strategy)
        with _about("seed"):
            if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
                raise SettingError(f"seed must be a whole number >= 0, or None for a random one, got {self.seed!r}")
        with _about("initial"):
            validated_sizes(self.initial, self.ladder)
        with _about("failure_model"):
            for taught in (self.failures_teach, self.timeouts_teach):
                if not isinstance(taught, bool):
                    raise SettingError(f"failure_model must be True or False, got {taught!r}")
        with _about("name"):
            if self.name is not None and (not isinstance(self.name, str) or not self.name.strip()):
                raise SettingError(
                    f"the name of a study must be a string that is not blank, or None, got {self.name!r}"
                )

    @staticmethod
    def of(
        space: SearchSpace | Mapping[str, Parameter],
        ladder: Iterable[Fidelity],
        direction: str,
        *,
        strategy: str | Strategy = registry.DEFAULT,
        strategy_options: Mapping[str, Any] | None = None,
        seed: int | None = 0,
        initial: Mapping[str, int] | None = None,
        name: str | None = None,
        constraints: Iterable[str | OutcomeConstraint] = (),
        failures_teach: bool = True,
        cost: str = DECLARED,
    ) -> StudyDefinition:
        """The definition from the arguments of `create_study`, with what they leave out filled in.

        Raises:
            FideliumError: of the kind that fits, for the first invalid argument.
        """
        space = space if isinstance(space, SearchSpace) else SearchSpace(space)
        with _about("fidelities"):
            ladder = FidelityLadder.of(ladder).priced(space)
            ladder.check_inputs(space.names)
        with _about("initial"):
            sizes = default_sizes(space, ladder) if initial is None else validated_sizes(initial, ladder)
        with _about("constraints"):
            limited = outcome_constraints(constraints, space.names)
        return StudyDefinition(
            space,
            ladder,
            Direction.of(direction),
            strategy,
            {} if strategy_options is None else strategy_options,
            secrets.randbits(32) if seed is None else int(seed) if isinstance(seed, np.integer) else seed,
            sizes,
            name,
            initial is None,
            constraints=limited,
            failures_teach=failures_teach,
            cost=cost,
        )

    @property
    def measures_costs(self) -> bool:
        """Whether trials cost what was measured."""
        return self.cost == MEASURED

    def initial_within(self, budget: float, costs: Sequence[float] | None = None) -> dict[str, int]:
        """Points of the initial design by fidelity, with a total budget.

        Sizes that the user has set are respected. Those by default are reduced where they cost more than a third of
        the budget; with a larger one, the rest of the design is caught up on.

        Args:
            budget: what the study may spend in total.
            costs: what a run of each fidelity is expected to cost; the declared costs if None.
        """
        if not self.default_initial or math.isinf(budget):
            return dict(self.initial)
        each = dict(zip(self.ladder.names, costs or self.ladder.costs, strict=True))
        return sizes_within(self.initial, each, exact_sum([max(budget, 0.0)]) / INITIAL_SHARE)

    @property
    def stored_name(self) -> str:
        """The name under which a storage keeps the study."""
        return self.name or DEFAULT_NAME

    @property
    def strategy_name(self) -> str:
        """The strategy as it is shown and stored."""
        return self.strategy if isinstance(self.strategy, str) else repr(self.strategy)


def checked_budget(ladder: FidelityLadder, budget: object) -> float:
    """The budget as a float, if it pays for at least one run.

    Raises:
        BudgetError: if it is not a positive finite number, or below the cost of the cheapest run.
    """
    number = as_number(budget)
    if number is None or not math.isfinite(number) or number <= 0:
        raise BudgetError(f"the budget must be a finite number above 0, got {budget!r}")
    if number < ladder.costs[0]:
        raise BudgetError(
            f"the budget {number:g} is below the cheapest run: one at {ladder[0].name!r} costs {ladder.costs[0]:g}"
        )
    return number


@contextmanager
def _about(setting: str) -> Iterator[None]:
    """Note in an error which argument it is about."""
    try:
        yield
    except FideliumError as error:
        error.setting = setting
        raise
