"""A definition is valid or it does not exist, and an error says which argument is wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fidelium.definition import StudyDefinition, checked_budget
from fidelium.errors import BudgetError, FidelityError, FideliumError, SettingError, UnknownNameError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Query
from fidelium.randomness import Key
from fidelium.space import Real, SearchSpace
from fidelium.strategies import registry

SPACE = SearchSpace({"x": Real(0, 1)})
LADDER = FidelityLadder((Fidelity("coarse", 1), Fidelity("fine", 10)))


class Middle:
    """A strategy of a user: the middle of the space."""

    def propose(self, history: History, pending: object, key: Key) -> Query:
        return Query({"x": 0.5}, 0)


def test_what_is_left_out_is_filled_in():
    definition = StudyDefinition.of({"x": Real(0, 1)}, list(LADDER), "minimize")
    assert definition == StudyDefinition(
        SPACE, LADDER, Direction.MINIMIZE, "dnn-mfbo", {}, 0, {"coarse": 7, "fine": 2}, None, default_initial=True
    )
    assert definition.stored_name == "study"
    numpy: dict[str, Any] = {"initial": {"fine": np.int64(3)}, "seed": np.int64(3)}
    converted = StudyDefinition.of(SPACE, LADDER, "minimize", **numpy)
    assert converted.initial == {"coarse": 0, "fine": 3}
    assert type(converted.seed) is int
    drawn = {StudyDefinition.of(SPACE, LADDER, "minimize", seed=None).seed for _ in range(5)}
    assert len(drawn) > 1


@pytest.mark.parametrize(
    ("changes", "setting", "kind", "message"),
    [
        ({"strategy": "best"}, "strategy", UnknownNameError, "unknown strategy 'best'; known are 'dnn-mfbo'"),
        ({"strategy": 3}, "strategy", UnknownNameError, "a name or an object with a propose method, got 3"),
        ({"strategy": Middle}, "strategy", UnknownNameError, "a name or an object with a propose method"),
        ({"strategy_options": {"depth": 2}}, "strategy", SettingError, "'dnn-mfbo' has no option 'depth'; it has none"),
        ({"strategy_options": ["search"]}, "strategy", SettingError, "must be a dict of option name -> value"),
        (
            {"strategy": "dnn-mfbo-paper", "strategy_options": {"architectur": "quick"}},
            "strategy",
            SettingError,
            "has no option 'architectur'; it has 'architecture'",
        ),
        (
            {"strategy": "dnn-mfbo-paper", "strategy_options": {"architecture": "large"}},
            "strategy",
            SettingError,
            "architecture must be 'search', 'quick', or a mapping with depths, widths",
        ),
        (
            {"strategy": Middle(), "strategy_options": {"x": 1}},
            "strategy",
            SettingError,
            "strategy_options go with the name of a strategy",
        ),
        ({"seed": -1}, "seed", SettingError, "seed must be a whole number >= 0"),
        ({"seed": 1.5}, "seed", SettingError, "seed must be a whole number >= 0"),
        ({"initial": {"medium": 3}}, "initial", FidelityError, "unknown fidelity 'medium'"),
        ({"initial": {"coarse": -1}}, "initial", SettingError, r"initial\['coarse'\] must be a whole number >= 0"),
        ({"initial": 3}, "initial", SettingError, "initial must be a dict"),
        ({"name": " "}, "name", SettingError, "must be a string that is not blank"),
    ],
)
def test_an_error_says_which_argument_is_wrong(changes, setting, kind, message):
    with pytest.raises(kind, match=message) as error:
        StudyDefinition.of(SPACE, LADDER, "minimize", **changes)
    assert isinstance(error.value, FideliumError)
    assert error.value.setting == setting


@pytest.mark.parametrize("budget", [0, -1, math.inf, math.nan, "10", None, True, 0.99])
def test_a_budget_pays_for_at_least_one_run(budget):
    with pytest.raises(BudgetError):
        checked_budget(LADDER, budget)
    assert checked_budget(LADDER, np.float32(1)) == 1.0


def test_a_strategy_object_is_used_as_it_is_and_a_stored_text_is_not_used():
    strategy = Middle()
    assert registry.resolve(strategy) is strategy
    with pytest.raises(SettingError, match="was made with a strategy object, <Middle>; pass it"):
        registry.resolve(registry.StoredStrategy("<Middle>"))
