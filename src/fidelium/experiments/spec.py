"""The specification of an experiment: problems x strategies x seeds, in a YAML file.

```yaml
name: small
title: Two strategies on two problems
problems:
  branin:                             # empty, or {}: as in the paper's figures
  park1: {budget: 100, checkpoints: [30, 100], initial: {low: 5, high: 2}}
strategies: [dnn-mfbo, sf-ei]         # strategies, peers from other libraries, ablations of the default (without-...)
seeds: 0-4                            # or [0, 3, 7]
minutes: {dnn-mfbo: 2}                # of one study, roughly; only for the first estimate of the time
longest: {botorch-mfkg: 30}           # limit on the processor minutes of a study's suggestions
recommendations: 10                   # number of evenly spaced costs at which a study records its recommendation
own_start: true                       # each strategy begins with its own initial design, paid from the budget
baseline: sf-ei                       # the page compares all others with this one; a problem may set `at_most: 0.5`
```
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from fidelium import problems
from fidelium.config.yaml_document import parse_value
from fidelium.errors import ConfigError, SettingError
from fidelium.experiments import methods
from fidelium.experiments.records import RECOMMENDATIONS, Cell
from fidelium.problems import Problem
from fidelium.study.runner import checked_budget

SYNTHETIC = ("branin", "park1", "levy")
"""The paper's problems that are formulas, in its order."""

_PAPER = {  # budgets and checkpoints, about what the paper's figures show
    "branin": (1500.0, (300.0, 500.0, 1000.0)),
    "levy": (1500.0, (300.0, 500.0, 1000.0)),
    "park1": (300.0, (30.0, 60.0, 100.0)),
    "plate": (200.0, (30.0, 60.0, 100.0)),
    "conductor": (200.0, (30.0, 60.0, 100.0)),
    "sandwich": (200.0, (30.0, 60.0, 100.0)),
}
_QUICK_SEEDS, _QUICK_SHARE, _QUICK_TIME, _QUICK_RECOMMENDATIONS = 2, 1 / 3, 1 / 6, 4


def parse_seeds(text: str) -> list[int]:
    """The seeds in a text like "0-4" or "0,3,7".

    Raises:
        SettingError: if the text is not a list of seeds.
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise SettingError(f"seeds must look like 0-4 or 0,3,7, got {text!r}")
        seeds.extend(range(int(first), int(last or first) + 1))
    if not seeds:
        raise SettingError(f"seeds must look like 0-4 or 0,3,7, got {text!r}")
    return seeds


class Plan(BaseModel):
    """How a problem is run; the defaults are those of the paper's figures.

    Args:
        budget: cost units a study spends.
        checkpoints: costs at which strategies are compared, besides the budget.
        initial: points of the random initial design, by fidelity.
        at_most: upper bound for the ratio of a strategy's final regret to the baseline's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    budget: float | None = Field(default=None, gt=0)
    checkpoints: tuple[Annotated[float, Field(gt=0)], ...] | None = None
    initial: dict[str, Annotated[int, Field(ge=0)]] | None = None
    at_most: float | None = Field(default=None, gt=0)


class Spec(BaseModel):
    """An experiment.

    Args:
        name: the folder of its results.
        title: the title of its figures.
        problems: name -> how it is run.
        strategies: names of strategies, peers and ablations.
        seeds: of the initial designs and of the studies.
        minutes: strategy -> rough minutes of one study, on average over the problems.
        longest: strategy -> processor minutes after which one of its studies is stopped.
        recommendations: number of evenly spaced costs at which a study records its recommendation.
        baseline: the strategy that the others are compared with, if any.
        own_start: whether each strategy begins with its own initial design, paid from the budget, instead of the common
            one, which is free.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    title: str = ""
    problems: Annotated[dict[str, Plan], Field(min_length=1), BeforeValidator(lambda given: _plans(given))]
    strategies: Annotated[tuple[str, ...], Field(min_length=1)]
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(lambda given: _seeds(given))]
    minutes: dict[str, float] = {}
    longest: dict[str, Annotated[float, Field(gt=0)]] = {}
    recommendations: Annotated[int, Field(gt=0)] = RECOMMENDATIONS
    baseline: str | None = None
    own_start: bool = False

    @model_validator(mode="after")
    def _has_its_baseline(self) -> Spec:
        if self.baseline is not None and self.baseline not in self.strategies:
            raise ValueError(f"the baseline must be one of the strategies, got {self.baseline!r}")
        return self

    @property
    def at_most(self) -> dict[str, float]:
        """Problem -> upper bound for the ratio of a final regret to the baseline's, where one is set."""
        return {name: plan.at_most for name, plan in self.problems.items() if plan.at_most is not None}

    def cells(self) -> list[Cell]:
        """All studies, ordered by problem, seed, strategy, so that an interrupted experiment has whole comparisons.

        Raises:
            UnknownNameError: if there is no such problem or strategy.
            SettingError: if a peer's library is missing.
            BudgetError: if a budget is below the cost of the cheapest fidelity.
            FidelityError: if an initial design names a fidelity the problem does not have.
        """
        for name in self.strategies:
            methods.check_method(name)
        self._check_starts()
        chosen = [_cell_settings(problems.get(name), plan) for name, plan in self.problems.items()]
        return [
            Cell(
                strategy=strategy,
                seed=seed,
                longest=self.longest.get(strategy),
                recommendations=self.recommendations,
                own_start=self.own_start,
                **settings,
            )
            for settings in chosen
            for seed in self.seeds
            for strategy in dict.fromkeys(self.strategies)
        ]

    def _check_starts(self) -> None:
        """Problems with constraints or failures need paid starts: the common one has neither outcomes nor failures.

        Raises:
            SettingError: if one does not have it.
        """
        for name in () if self.own_start else self.problems:
            if problems.get(name).constraints or problems.get(name).fails:
                raise SettingError(f"problem {name!r} has constraints or failures; set own_start: true")

    def quick(self) -> Spec:
        """The same with two seeds, a third of each budget, a sixth of the longest times, and fewer recommendations."""
        plans = {
            name: plan.model_copy(update={"budget": _QUICK_SHARE * _budget(name, plan)})
            for name, plan in self.problems.items()
        }
        longest = {name: _QUICK_TIME * limit for name, limit in self.longest.items()}
        return self.model_copy(
            update={
                "seeds": self.seeds[:_QUICK_SEEDS],
                "problems": plans,
                "longest": longest,
                "recommendations": min(self.recommendations, _QUICK_RECOMMENDATIONS),
            }
        )


def load_spec(path: Path) -> Spec:
    """The experiment that a YAML file describes.

    Raises:
        SettingError: if the file cannot be read or is not an experiment.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise SettingError(f"cannot read the spec {path}: {error.strerror}") from None
    return parse_spec(text, str(path))


def shipped_spec(name: str) -> Spec:
    """One of the experiments that come with fidelium: by its name, such as "paper" or "arena"."""
    return parse_spec((resources.files("fidelium.experiments") / "specs" / f"{name}.yaml").read_text(), name)


def parse_spec(text: str, source: str) -> Spec:
    """The experiment that a YAML text describes.

    Raises:
        SettingError: if it is not one; the message names the first wrong setting.
    """
    try:
        content = parse_value(text)
    except ConfigError as error:
        raise SettingError(f"{source} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, Mapping):
        raise SettingError(f"{source} must have name, problems, strategies and seeds, got {repr(content)[:200]}")
    return make_spec(dict(content), source)


def make_spec(content: Mapping[str, Any], source: str) -> Spec:
    """The experiment with these settings.

    Raises:
        SettingError: if one of them is wrong; the message names it.
    """
    try:
        return Spec.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        got = "" if first["type"] == "missing" else f", got {first['input']!r}"
        raise SettingError(f"{source}: {place}: {first['msg'].removeprefix('Value error, ')}{got}") from None


def _plans(given: object) -> object:
    """Problems as a mapping, also from a list of names."""
    if isinstance(given, list):
        return {name: {} for name in given}
    return {name: plan or {} for name, plan in given.items()} if isinstance(given, dict) else given


def _seeds(given: object) -> object:
    return parse_seeds(str(given)) if isinstance(given, (str, int)) else given


def _budget(name: str, plan: Plan) -> float:
    ladder = problems.get(name).ladder
    known = _PAPER[name][0] if name in _PAPER else 15 * ladder.target.typical_cost
    return checked_budget(ladder, plan.budget or known)


def _checkpoints(name: str, plan: Plan, budget: float) -> tuple[float, ...]:
    """The costs at which strategies are compared, the last one the budget."""
    known = _PAPER[name][1] if name in _PAPER else tuple(budget * share for share in (0.2, 1 / 3, 2 / 3))
    wanted = known if plan.checkpoints is None else plan.checkpoints
    return (*sorted(cost for cost in set(wanted) if cost < budget), budget)


def _cell_settings(problem: Problem, plan: Plan) -> dict[str, Any]:
    budget = _budget(problem.name, plan)
    sizes = problem.initial if plan.initial is None else plan.initial
    for fidelity in sizes:
        problem.ladder.index(fidelity)
    return {
        "problem": problem.name,
        "budget": budget,
        "checkpoints": _checkpoints(problem.name, plan, budget),
        "initial": tuple((name, sizes.get(name, 0)) for name in problem.ladder.names),
    }
