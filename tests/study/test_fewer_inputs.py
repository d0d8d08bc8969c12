"""Fidelities that ignore parameters: declared, checked, stored, designed for, and never asked twice for the same."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fidelium as fd
from fidelium.acquisition.base import Candidate
from fidelium.cli import main
from fidelium.config.load import load_study_file
from fidelium.errors import ConfigError, FidelityError
from fidelium.fidelity import FidelityLadder
from fidelium.history import Direction, History, Query, Trial, TrialState
from fidelium.randomness import Key
from fidelium.storage.serialise import definition_of, definition_text
from fidelium.strategies.adaptive_design import InitialDesign
from fidelium.strategies.initial_design import default_sizes, initial_design, next_of_design, unasked_point
from fidelium.strategies.surrogate_strategy import first_new

SPACE = {
    "span": fd.Real(0, 10),
    "chord": fd.Integer(1, 3),
    "thickness": fd.Real(0, 1),
    "core": fd.Categorical(["a", "b"]),
}
PANEL = fd.Fidelity("panel", cost=1, inputs=["span", "chord"])
LADDER = [PANEL, fd.Fidelity("solid", cost=20)]


def wing(params, fidelity) -> float:
    value = (params["span"] - 6.3) ** 2 / 10 + params["chord"]
    return value if fidelity.name == "panel" else value + (params["thickness"] - 0.7) ** 2 + (params["core"] == "a")


def make(**changes) -> fd.Study:
    settings: dict[str, Any] = {"direction": "minimize", "strategy": "random", "name": "wing"}
    return fd.create_study(changes.pop("space", SPACE), changes.pop("ladder", LADDER), **(settings | changes))


def history_of(*trials: Trial, **changes) -> History:
    ladder = FidelityLadder.of(LADDER)
    return History(fd.SearchSpace(SPACE), ladder, Direction.MINIMIZE, trials, **changes)


# --- what may be declared ---


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "fidelity 'panel' needs at least one input, got an empty list; leave inputs out for all"),
        ("span", "inputs of fidelity 'panel' must be a list of names of parameters, got 'span'"),
        (3, "inputs of fidelity 'panel' must be a list of names of parameters, got 3"),
        ([1, 2], r"inputs of fidelity 'panel' must be a list of names of parameters, got \[1, 2\]"),
        (["span", "span"], "the inputs of fidelity 'panel' must differ"),
    ],
)
def test_what_is_no_list_of_inputs_is_refused(inputs, message):
    with pytest.raises(FidelityError, match=f"^{message}"):
        fd.Fidelity("panel", 1, inputs=inputs)


@pytest.mark.parametrize(
    ("ladder", "message"),
    [
        (
            [fd.Fidelity("panel", 1, inputs=["span", "sweep"]), LADDER[1]],
            "fidelity 'panel' has an unknown input 'sweep'; the parameters are 'span', 'chord', 'thickness', 'core'",
        ),
        (
            [PANEL, fd.Fidelity("solid", 20, inputs=["span", "chord"])],
            "the target 'solid' must use all parameters, but its inputs leave out 'thickness', 'core'; add them, or "
            "take these parameters out of the study",
        ),
        (
            [PANEL, fd.Fidelity("shell", 5, inputs=["span", "core"]), LADDER[1]],
            "fidelity 'shell' must use all inputs of 'panel' below it, but leaves out 'chord'; add them to its inputs",
        ),
    ],
)
def test_inputs_that_do_not_fit_the_study_are_refused(ladder, message):
    with pytest.raises(FidelityError) as refused:
        make(ladder=ladder)
    assert str(refused.value) == message


def test_inputs_may_grow_up_the_ladder_and_the_target_may_name_all():
    ladder = [
        PANEL,
        fd.Fidelity("shell", 5, inputs=("chord", "thickness", "span")),
        fd.Fidelity("solid", 20, inputs=list(SPACE)),
    ]
    history = make(ladder=ladder).history()
    assert history.used == ((True, True, False, False, False), (True, True, True, False, False), None)


# --- records ---


def test_definitions_are_stored_with_inputs_and_without_as_before(tmp_path):
    study = make(storage=f"sqlite:///{tmp_path}/wing.db")
    text = definition_text(study.definition)
    assert '"inputs": {"panel": ["span", "chord"]}' in text
    assert definition_of("wing", text) == replace(study.definition, space=definition_of("wing", text).space)
    again = fd.load_study(f"sqlite:///{tmp_path}/wing.db", "wing")
    assert again.ladder == study.ladder
    assert again.ladder[0].inputs == ("span", "chord")
    plain = make(ladder=[fd.Fidelity("panel", 1), LADDER[1]])
    assert "inputs" not in definition_text(plain.definition)
    assert definition_text(plain.definition) == text.replace('"inputs": {"panel": ["span", "chord"]}, ', "").replace(
        '"panel": 10', '"panel": 19'
    )


def test_inputs_can_be_declared_later(tmp_path):
    url = f"sqlite:///{tmp_path}/wing.db"
    with make(storage=url, ladder=[fd.Fidelity("panel", 1), LADDER[1]]) as study:
        study.tell(study.ask(), 1.0)
    with make(storage=url, load_if_exists=True) as study:
        assert [change.reason for change in study.changes()] == ["inputs of panel: all -> span, chord"]
    with make(storage=url, load_if_exists=True, ladder=[replace(PANEL, inputs=("chord", "span")), LADDER[1]]) as study:
        assert len(study.changes()) == 1  # the order does not matter
        assert study.trials[0].fidelity.inputs is not None


STUDY = """
name: wing
direction: minimize
budget: 50
parameters:
  span: {type: real, low: 0, high: 10}
  chord: {type: real, low: 0, high: 1}
fidelities:
  - {name: panel, cost: 1, inputs: INPUTS}
  - {name: solid, cost: 10}
command: [touch, "{result}"]
"""


def write(folder: Path, inputs: str) -> Path:
    (folder / "study.yaml").write_text(STUDY.replace("INPUTS", inputs))
    return folder / "study.yaml"


def test_a_study_file_declares_them(tmp_path, capsys):
    path = write(tmp_path, "[span]")
    assert load_study_file(path).definition.ladder[0].inputs == ("span",)
    for words, said in (
        (["check", str(path)], "panel costs 1 and uses span alone, solid costs 10"),
        (["ask", str(path)], '"fidelity": "panel"'),
        (["status", str(path)], "inputs  panel uses span alone"),
        (["status", str(path), "--json"], '"inputs": [\n        "span"\n      ]'),
    ):
        with pytest.raises(SystemExit):
            main(words)
        assert said in capsys.readouterr().out, words


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("[]", "needs at least one input"),
        ("[sweep]", "unknown input 'sweep'"),
        ("span", "expected a list, got 'span'"),
        ("[1]", "expected a string, got 1"),
    ],
)
def test_a_wrong_study_file_says_what_is_wrong(tmp_path, inputs, message):
    with pytest.raises(ConfigError, match=message):
        load_study_file(write(tmp_path, inputs))


# --- what is asked ---


def test_the_default_design_is_as_large_as_its_inputs_deserve():
    space = fd.SearchSpace(SPACE)
    few = default_sizes(space, FidelityLadder.of(LADDER))
    all_of_them = default_sizes(space, FidelityLadder.of([fd.Fidelity("panel", 1), LADDER[1]]))
    assert few == {"panel": 4 + 3 * 2, "solid": all_of_them["solid"]}
    assert all_of_them["panel"] == 4 + 3 * 5


def test_the_design_differs_in_the_inputs():
    space = fd.SearchSpace({"kind": fd.Integer(1, 6), "x": fd.Real(0, 1)})
    ladder = FidelityLadder.of([fd.Fidelity("low", 1, inputs=["kind"]), fd.Fidelity("high", 5)])
    design = initial_design(space, ladder, {"low": 5, "high": 5}, Key((3,)))
    low = [query.params["kind"] for query in design if query.fidelity == 0]
    assert len(low) == len(set(low)) == 5
    every = initial_design(space, ladder, {"low": 20, "high": 5}, Key((3,)))
    assert sorted(query.params["kind"] for query in every if query.fidelity == 0) == [1, 2, 3, 4, 5, 6]
    plain = FidelityLadder.of([fd.Fidelity("low", 1), fd.Fidelity("high", 5)])
    assert [q for q in design if q.fidelity] == [
        q for q in initial_design(space, plain, {"low": 5, "high": 5}, Key((3,))) if q.fidelity
    ]


def test_what_was_asked_with_other_values_of_what_is_ignored_is_not_asked_again():
    design = {"span": 2.5, "chord": 2, "thickness": 0.3, "core": "a"}
    other = design | {"thickness": 0.9, "core": "b"}
    done = Trial(0, design, PANEL, TrialState.DONE, 1.0)
    history = history_of(done)
    queries = [Query(other, 0), Query(other | {"chord": 3}, 0), Query(design, 1)]
    assert next_of_design(history, queries, {"panel": 2, "solid": 1}) == queries[1]
    points = history.encode([Query(other, 0)])
    assert np.array_equal(history.asked(0), history.seen(0, points))
    assert not np.array_equal(history.encode([Query(design, 1)]), points)
    ranked = [Candidate(points[0], m, 1.0) for m in (0, 1)]
    assert first_new(ranked, history, (), Key((0,))).fidelity == 1
    pending = [Query(other, 1), Query(design | {"span": 9.0}, 0)]
    again = history.encode([Query(other | {"span": 9.0}, 0)])
    assert first_new([*ranked, Candidate(again[0], 0, 1.0)], history, pending, Key((0,))) not in (
        Query(other | {"span": 9.0}, 0),
        Query(other, 0),
    )


def test_random_designs_are_new_in_the_inputs_too():
    space = fd.SearchSpace({"kind": fd.Integer(1, 4), "x": fd.Real(0, 1)})
    ladder = FidelityLadder.of([fd.Fidelity("low", 1, inputs=["kind"]), fd.Fidelity("high", 5)])
    trials = tuple(
        Trial(number, {"kind": kind, "x": 0.1}, ladder[0], TrialState.DONE, 1.0)
        for number, kind in enumerate([1, 2, 4])
    )
    history = History(space, ladder, Direction.MINIMIZE, trials)
    for seed in range(5):
        assert space.decode(unasked_point(history, (), 0, Key((seed,))))["kind"] == 3


@pytest.mark.parametrize("strategy", ["dnn-mfbo", "mf-sko", "random"])
def test_no_study_runs_the_same_inputs_twice(strategy):
    space = {"kind": fd.Integer(1, 6), "x": fd.Real(0, 1)}
    ladder = [fd.Fidelity("low", 1, inputs=["kind"]), fd.Fidelity("high", 10)]
    study = make(space=space, ladder=ladder, strategy=strategy, initial={"low": 3, "high": 2})
    study.optimize(
        lambda p, f: (p["kind"] - 4) ** 2 + (0 if f.name == "low" else (p["x"] - 0.4) ** 2), 46, progress=False
    )
    low = [trial.params["kind"] for trial in study.trials if trial.fidelity.name == "low"]
    assert len(low) == len(set(low)) <= 6
    assert all(0 <= trial.params["x"] <= 1 for trial in study.trials)


def test_with_constraints_and_failures_the_design_learns_by_the_inputs_alone():
    space = fd.SearchSpace({"a": fd.Real(0, 1), "b": fd.Real(0, 1), "c": fd.Real(0, 1)})
    ladder = FidelityLadder.of([fd.Fidelity("low", 1, inputs=["a"]), fd.Fidelity("high", 5)])
    design = InitialDesign(space, ladder, {"low": 6, "high": 3}, Key((1,)))
    trials: list[Trial] = []
    for number in range(9):
        history = History(space, ladder, Direction.MINIMIZE, tuple(trials))
        query = design.next(history, design.sizes)
        assert query is not None
        failed = query.params["a"] > 0.7
        state = TrialState.FAILED if failed else TrialState.DONE
        value = None if failed else query.params["a"]
        trials.append(Trial(number, query.params, ladder[query.fidelity], state, value, "died" if failed else None))
    low = [trial.params["a"] for trial in trials if trial.fidelity.name == "low"]
    assert len(set(low)) == 6


def test_a_run_does_not_fail_because_of_what_it_ignores():
    study = make(
        strategy="random",  # whose questions are answered by the default's model
        space={"a": fd.Real(0, 1), "b": fd.Real(0, 1)},
        ladder=[fd.Fidelity("low", 1, inputs=["a"]), fd.Fidelity("high", 5)],
        initial={},
    )
    for _ in range(14):
        trial = study.ask(200)
        study.tell(
            trial,
            None if trial.params["a"] > 0.6 else trial.params["a"],
            failed="died" if trial.params["a"] > 0.6 else None,
        )
    assert {trial.state for trial in study.trials} == {TrialState.DONE, TrialState.FAILED}
    model = study._fitted()
    chances = model.posterior.success.model  # type: ignore[attr-defined]
    from fidelium.numerics.backend import jax_session

    with jax_session():
        import jax.numpy as jnp

        rows = np.array([np.asarray(chances.probabilities(jnp.array([a, b]))) for a in (0.2, 0.9) for b in (0.0, 1.0)])
    assert np.allclose(rows[0, 0], rows[1, 0], rtol=1e-12)
    assert np.allclose(rows[2, 0], rows[3, 0], rtol=1e-12)
    assert rows[0, 0] > rows[2, 0]


def test_trials_have_values_of_all_parameters_and_the_panel_helps():
    study = make(strategy="dnn-mfbo", seed=1)
    study.optimize(wing, 200, progress=False)
    assert all(set(trial.params) == set(SPACE) for trial in study.trials)
    assert study.best is not None
    assert (study.best.value or math.inf) < 1.3
    mean, _ = study.predict([{"span": 3, "chord": 2, "thickness": t, "core": c} for t in (0, 1) for c in "ab"], "panel")
    assert np.ptp(mean) < 1e-9
