"""The default without its parts: each differs in its part and nothing else; what the page says of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import fidelium as fd
from fidelium.errors import UnknownNameError
from fidelium.experiments import methods
from fidelium.experiments.figures import ablation_figure
from fidelium.experiments.metrics import FLOOR, mean_factor
from fidelium.experiments.report import ABLATION, write_report
from fidelium.experiments.runner import initial_observations
from fidelium.experiments.spec import make_spec, shipped_spec
from fidelium.experiments.tables import ablation_table
from fidelium.strategies.dnn_mfbo import dnn_mfbo
from fidelium.surrogates.learning import LOWEST, normal_like
from fidelium.surrogates.stacked_dnn.features import CosineFamily
from fidelium.surrogates.stacked_dnn.priors import Kind, layer_prior


@pytest.fixture(scope="module")
def runs(make_run):
    ends = {
        ("branin", "dnn-mfbo"): (0.1, 0.2),
        ("branin", "without-detail"): (0.4, 0.2),
        ("park1", "dnn-mfbo"): (0.0, 1.0),
        ("park1", "without-detail"): (FLOOR / 2, 4.0),
    }
    return [
        make_run(name, seed, [9.0, regret], problem)
        for (problem, name), regrets in ends.items()
        for seed, regret in enumerate(regrets)
    ]


@pytest.mark.parametrize("name", methods.ablations())
def test_a_part_is_removed_and_the_random_parts_stay(name):
    strategy: Any = methods.resolve_method(name)
    whole = dnn_mfbo()
    assert strategy != whole
    assert methods.resolve_method(name) == strategy
    assert strategy.steady == (None if name == "without-steady-features" else whole.steady)


def test_the_shipped_ablation_has_all_parts_and_the_whole():
    spec = shipped_spec("ablation")
    assert spec.strategies == ("dnn-mfbo", *methods.ablations())
    assert spec.baseline == "dnn-mfbo"
    assert len(spec.cells()) == len(spec.problems) * len(spec.strategies) * len(spec.seeds)


def test_what_is_no_part_is_refused():
    with pytest.raises(UnknownNameError, match="without-luck"):
        methods.check_method("without-luck")
    with pytest.raises(UnknownNameError, match="without-luck"):
        methods.resolve_method("without-luck")


def _family(name: str) -> CosineFamily:
    strategy: Any = methods.resolve_method(name)
    return strategy.surrogate.surrogate.family


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("without-detail", lambda theta: theta.detail.log_amplitude),
        ("without-ripples", lambda theta: theta.noise.log_ripple),
    ],
)
@pytest.mark.parametrize("kind", Kind)
def test_a_belief_in_nothing_changes_one_entry_of_theta(name, entry, kind):
    below = normal_like(layer_prior(2, Kind.ALONE, None).mean, np.random.default_rng(0))
    whole, part = (family.prior(2, kind, below) for family in (CosineFamily(), _family(name)))
    assert entry(part.mean) == LOWEST
    # put back what was removed: the rest is the same
    restored = eqx.tree_at(lambda p: (entry(p.mean), entry(p.std)), part, (entry(whole.mean), entry(whole.std)))
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, restored, whole)))


def test_without_doubt_no_belief_moves():
    prior, whole = (family.prior(2, Kind.ALONE, None) for family in (_family("without-doubt"), CosineFamily()))
    ones = jax.tree.map(np.ones_like, prior.mean)
    assert prior.moved(ones) is prior
    assert np.all(whole.moved(ones).mean.process.log_lengths > whole.mean.process.log_lengths)


@pytest.mark.parametrize("name", ["without-cheap-queries", "without-noise-in-gain"])
def test_a_study_goes_on_without_a_part(name):
    problem = fd.problems.get("peaks")
    strategy: Any = methods.resolve_method(name)
    quick = replace(strategy.surrogate, surrogate=replace(strategy.surrogate.surrogate, steps=3))
    strategy = replace(strategy, surrogate=quick)
    study = fd.create_study(problem.space, problem.ladder, direction="maximize", strategy=strategy, initial={})
    for params, fidelity, value in initial_observations(problem, 0):
        study.add_observation(params, fidelity, value)
    trial = study.ask(100)
    assert np.all((problem.space.encode(trial.params) >= 0) & (problem.space.encode(trial.params) <= 1))
    assert trial.fidelity.name in (("high",) if name == "without-cheap-queries" else problem.ladder.names)


def test_the_factor_is_the_geometric_mean_and_knows_no_regret_below_the_floor(runs):
    # 4 and 1 on branin, 1 and 4 on park1
    assert mean_factor(runs, "without-detail", "dnn-mfbo") == pytest.approx(2.0)
    assert mean_factor(runs, "dnn-mfbo", "dnn-mfbo") == 1.0


def test_only_pairs_that_both_ran_count(runs, make_run):
    more = make_run("without-detail", 7, [9.0, 1000.0], "branin")
    assert mean_factor([*runs, more], "without-detail", "dnn-mfbo") == pytest.approx(2.0)


def test_the_table_has_a_column_per_problem(runs, make_run):
    alone = make_run("dnn-mfbo", 0, [9.0, 0.5], "levy")
    table = ablation_table([*runs, alone], "dnn-mfbo")
    assert table.header == ("strategy", "branin", "park1", "levy", "multiple", "p")
    assert table.rows[0] == ("dnn-mfbo", "0.15", "0.5", "0.5", "1", "–")
    assert table.rows[1][:5] == ("without-detail", "0.3", "2", "–", "2")


def test_the_page_has_the_table_and_the_figure(runs, tmp_path):
    content = {
        "name": "a", "problems": ["branin", "park1"], "strategies": ["dnn-mfbo", "without-detail"], "seeds": "0-1",
        "baseline": "dnn-mfbo",
    }  # fmt: skip
    files = write_report(make_spec(content, "here"), runs, ABLATION, "command", tmp_path / "a.md", tmp_path)
    assert [file.name for file in files] == ["a.md", "a-parts.html", "a-parts.png"]
    assert "| without-detail | 0.3 | 2 | 2 |" in files[0].read_text()
    figure: Any = ablation_figure(runs, "dnn-mfbo", "title")
    assert list(figure.layout.yaxis.ticktext) == ["without-detail"]
    means = [trace for trace in figure.data if trace.mode == "markers" and trace.marker.symbol == "diamond"]
    assert means[0].x[0] == pytest.approx(2.0)
