"""Declared costs that depend on the design: expressions, functions, what is refused, and how they are stored."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import fidelium as fd
from fidelium.errors import FidelityError, SettingError
from fidelium.fidelity import FidelityLadder
from fidelium.storage.serialise import definition_of, definition_text

SPACE = fd.SearchSpace(
    {"cells": fd.Integer(10, 1000), "width": fd.Real(0.1, 1), "core": fd.Categorical(["foam", "balsa"])}
)
PARAMS = {"cells": 100, "width": 0.5, "core": "foam"}


def ladder_with(cost):
    return FidelityLadder((fd.Fidelity("coarse", cost=1), fd.Fidelity("fine", cost=cost)))


def make(fine_cost, **changes):
    settings = {"direction": "minimize", "strategy": "random", "initial": {}} | changes
    return fd.create_study(SPACE, ladder_with(fine_cost), **settings)


def test_an_expression_is_computed_for_the_design():
    fine = ladder_with("1 + 0.01 * cells / width").priced(SPACE)[1]
    assert fine.cost == "1 + 0.01 * cells / width"
    assert fine.cost_of(PARAMS) == 3.0
    designs = SPACE.sample(np.random.default_rng(3), 50)
    params = [SPACE.decode(row) for row in designs]
    wanted = [1 + 0.01 * each["cells"] / each["width"] for each in params]
    assert fine.design_cost is not None
    np.testing.assert_allclose(fine.design_cost.at(designs), wanted, rtol=1e-14)
    assert fine.typical_cost == pytest.approx(np.median(wanted), rel=0.3)


def test_an_expression_may_use_the_descriptors_of_a_catalogue():
    profiles = fd.Catalogue({"IPE80": {"area": 7.64, "inertia": 80}, "IPE200": {"area": 28.5, "inertia": 1940}})
    space = fd.SearchSpace({"length": fd.Real(1, 2), "profile": profiles})
    rungs = (fd.Fidelity("coarse", cost=1), fd.Fidelity("fine", cost="profile.area * length"))
    study = fd.create_study(space, rungs, direction="minimize", seed=0)
    assert study.ladder.target.cost_of({"length": 2.0, "profile": "IPE200"}) == 57
    with pytest.raises(FidelityError, match=r"'5 - profile\.area'.*above 0"):
        fd.create_study(space, (fd.Fidelity("fine", cost="5 - profile.area"),), direction="minimize")


def test_a_function_is_called_with_the_parameters():
    fine = ladder_with(lambda params: 2 + params["cells"]).priced(SPACE)[1]
    assert fine.cost_of(PARAMS) == 102.0


def test_numbers_stay_numbers():
    ladder = ladder_with(10)
    assert ladder.priced(SPACE) is ladder
    assert ladder[1].cost == 10
    assert ladder.costs == (1.0, 10.0)
    assert ladder[1].of_design(PARAMS) is ladder[1]


BAD = [
    ("1 - cells", r"must be finite and above 0 for every design, but it is -9 at \{'cells': 10, "),
    ("log(width - 0.5) + 9", "but it is not a number at {'cells'"),
    ("core + 1", "'core' is categorical and its choices are not numbers"),
    ("cells + 'foam'", "the text 'foam' is not a number"),
    ("2 * 3", "it has no parameter in it"),
    ("__import__('os').system('ls')", "unexpected '.'"),
    ("__import__(cells)", "unknown function '__import__'"),
    ("cels", "did you mean 'cells'?"),
    ("cells <= 3", "unexpected '<='"),
    ("0.001 * width", "'coarse' costs typically 1 and the next, 'fine', 0.000"),
    ("1 + " * 400 + "cells", "at most 1000 characters"),
    (lambda params: 1 / 0, "raised ZeroDivisionError: division by zero at"),
    (lambda params: "dear", "must return a number, got 'dear' at"),
    (lambda params: math.inf, "but it is inf at"),
]


@pytest.mark.parametrize(("cost", "match"), BAD, ids=range(len(BAD)))
def test_a_bad_cost_is_one_clear_sentence(cost, match):
    with pytest.raises(FidelityError, match=match if "\\" in match else None) as caught:
        make(cost)
    assert match.replace("\\", "") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_single_fidelity_is_checked_too():
    with pytest.raises(FidelityError, match="above 0 for every design"):
        fd.create_study(SPACE, [fd.Fidelity("only", cost="width - 0.5")], direction="minimize")


def test_a_number_in_quotes_is_refused():
    with pytest.raises(FidelityError, match="must be a number, got '10'"):
        fd.Fidelity("fine", cost="10")


def test_a_trial_costs_what_its_design_costs():
    study = make("1 + 0.01 * cells / width")
    trial = study.ask()
    wanted = 1 + 0.01 * trial.params["cells"] / trial.params["width"]
    assert trial.fidelity.name == "fine"
    assert trial.fidelity.cost == trial.cost == study.spent == pytest.approx(wanted, rel=1e-14)
    told = study.tell(trial, 1.0, measured_cost=3.0)
    assert told.cost == pytest.approx(wanted, rel=1e-14)  # declared costs count
    assert study.to_dataframe()["cost"].tolist() == [told.cost]


def test_the_budget_holds_and_designs_that_do_not_fit_are_not_proposed():
    study = make("1 + 0.05 * cells", initial=None)
    study.optimize(lambda params, fidelity: params["width"], budget=60)
    assert 50 < study.spent <= 60
    fine = [trial for trial in study.trials if trial.fidelity.name == "fine"]
    assert fine
    for trial in fine:
        assert trial.cost == pytest.approx(1 + 0.05 * trial.params["cells"])


def test_an_objective_gets_the_number_also_in_another_process():
    study = make(lambda params: 1.0 + params["cells"])
    study.optimize(_check_cost, budget=3000, workers=2, progress=False)
    assert {str(trial.state) for trial in study.trials} == {"done"}


def _check_cost(params, fidelity):
    assert fidelity.cost == (1.0 + params["cells"] if fidelity.name == "fine" else 1)
    return 0.5


def test_an_expression_is_stored_and_comes_back(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    with make("1 + 0.01 * cells", storage=url, name="s") as study:
        study.tell(study.ask(), 1.0)
        before = study.trials
    with fd.load_study(url, "s") as study:
        assert study.trials == before
        assert study.ladder[1].cost == "1 + 0.01 * cells"
        assert study.ask().cost == pytest.approx(1 + 0.01 * study.trials[-1].params["cells"])


def test_a_function_must_be_passed_again(tmp_path, caplog):
    url = f"sqlite:///{tmp_path}/a.db"
    with make(_price, storage=url, name="s") as study:
        study.tell(study.ask(), 1.0)
        spent = study.spent
    with pytest.raises(SettingError, match=r"the cost of fidelity 'fine' is a Python function, function .*_price.*"):
        fd.load_study(url, "s")
    with make(_price, storage=url, name="s", load_if_exists=True) as study:
        assert study.spent == spent
        assert not caplog.records  # nothing differs
        study.ask()
    with make("1 + cells", storage=url, name="s", load_if_exists=True) as study:
        assert "cost of fine: function" in caplog.text
        assert "-> 1 + cells for new trials" in caplog.text
        assert study.spent > spent


def _price(params):
    return 1.0 + params["cells"]


def test_a_definition_with_numbers_is_stored_as_ever():
    study = make(10)
    text = definition_text(study.definition)
    assert '"fidelities": [["coarse", 1], ["fine", 10]]' in text
    assert '"cost"' not in text
    again = definition_of("s", definition_text(make("1 + cells").definition))
    assert again.ladder.costs == make("1 + cells").definition.ladder.costs
    measured = definition_text(make(10, cost="measured").definition)
    assert measured == text[:-1] + ', "cost": "measured"}'


def test_what_a_run_gets_can_be_pickled():
    fine = ladder_with(lambda params: 2.0).priced(SPACE)[1]
    assert pickle.loads(pickle.dumps(fine.of_design(PARAMS))).cost == 2.0
