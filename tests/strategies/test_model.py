"""The model a study shows: predictions in the right units, and a recommendation that is surer than the incumbent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.history import History
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key
from fidelium.space import Integer, Params, Real, SearchSpace
from fidelium.strategies.model import PosteriorModel
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.stacked_dnn.features import CosineFamily

LINE = SearchSpace({"x": Real(0, 1), "n": Integer(0, 4)})


class KnownPaths(eqx.Module):
    """Draws of `Known`, which differ by a constant."""

    heights: Float[Array, " draws"]
    centre: Float[Array, ""]

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " draws"]:
        return self.heights - (x[0] - self.centre) ** 2

    def at(self, draw: Array, x: Float[Array, " d"]) -> Float[Array, ""]:
        return self(x)[draw]


class Known(eqx.Module):
    """f_m(x) ~ N(height - (x_1 - centre)^2, var) at both fidelities, in units of 10 around 100 at the target."""

    height: Float[Array, ""]
    centre: Float[Array, ""]
    var: Float[Array, ""]
    noise_std: Float[Array, ""]

    def scales(self) -> tuple[Scale, ...]:
        return Scale(), Scale(centre=100.0, spread=10.0)

    def marginals(self, x: Float[Array, " d"]) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        return jnp.full(2, self.height - (x[0] - self.centre) ** 2), jnp.full(2, self.var)

    def target_given(
        self, x: Float[Array, " d"], fidelity: int, value: Float[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return value, self.var

    def draw_paths(self, key: jax.Array, count: int) -> KnownPaths:
        heights = self.height + jnp.sqrt(self.var) * jax.random.normal(key, (count,))
        return KnownPaths(heights, self.centre)

    def noise_var(self, fidelity: int, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.full(jnp.shape(value), self.noise_std**2)

    def members(self) -> tuple[Known]:
        return (self,)

    def given(self, x: NDArray[np.float64], fidelities: Sequence[int]) -> Known:
        return replace(self, var=self.var / (1 + len(fidelities) * self.var / self.noise_std**2))


def known(height: float, centre: float, var: float) -> Known:
    return Known(jnp.asarray(height), jnp.asarray(centre), jnp.asarray(var), jnp.asarray(1e-2))


@pytest.fixture(scope="module")
def history(history_of) -> History:
    return history_of(LINE, [({"x": 0.1, "n": 1}, 0, 0.0), ({"x": 0.9, "n": 2}, 1, 90.0)])


def test_one_posterior_is_shown_in_the_units_of_each_fidelity(history):
    model = PosteriorModel(known(1.0, 0.5, 0.25), history, Key((0,)))
    points = np.array([[0.5, 0.1], [0.0, 0.5], [0.7, 0.9]])
    expected = 1 - (points[:, 0] - 0.5) ** 2
    for fidelity, (shift, scale) in enumerate([(0.0, 1.0), (100.0, 10.0)]):
        mean, std = model.predict(points, fidelity)
        np.testing.assert_allclose(mean, shift + scale * expected, rtol=1e-12)
        np.testing.assert_allclose(std, scale * 0.5, rtol=1e-12)


def test_a_point_is_predicted_the_same_alone_and_among_others(history):
    model = PosteriorModel(known(1.0, 0.3, 0.25), history, Key((0,)))
    points = LINE.sample(np.random.default_rng(0), 40)
    together = model.predict(points, 1)
    for row in (0, 17, 39):
        alone = model.predict(points[row : row + 1], 1)
        np.testing.assert_allclose([part[0] for part in alone], [part[row] for part in together], rtol=1e-12)


def test_the_recommended_design_is_the_maximum_of_a_sure_posterior(history):
    recommended = PosteriorModel(known(1.0, 0.3, 1e-6), history, Key((0,))).recommend()
    assert LINE.decode(recommended.unit_x)["x"] == pytest.approx(0.3, abs=1e-4)
    assert recommended.mean == pytest.approx(110.0, rel=1e-6)
    assert recommended.std == pytest.approx(1e-2, rel=1e-6)
    assert LINE.snap(recommended.unit_x[None])[0].tobytes() == recommended.unit_x.tobytes()


def test_the_incumbent_is_recommended_when_nothing_is_surer(history):
    # the model expects at most 100 - 10 = 90 for sure; 90 less the noise was seen
    vague = PosteriorModel(known(0.0, 0.3, 2.0), history, Key((0,))).recommend()
    assert LINE.decode(vague.unit_x) == {"x": pytest.approx(0.9, abs=1e-9), "n": 2}


@pytest.mark.parametrize(("noise_std", "recommends_what_was_seen"), [(0.04, True), (0.2, False)])
def test_what_was_seen_counts_unless_it_may_be_noise(history, noise_std, recommends_what_was_seen):
    # 90 was seen, -1 in units of the spread; elsewhere the model is sure of -1.1
    posterior = replace(known(-1.1, 0.3, 1e-8), noise_std=jnp.asarray(noise_std))
    found = PosteriorModel(posterior, history, Key((0,))).recommend()
    assert (LINE.decode(found.unit_x)["x"] == pytest.approx(0.9)) is recommends_what_was_seen


@pytest.mark.parametrize("var", [0.01, 100.0])
def test_promising_designs_come_by_their_mean_however_unsure_it_is(history, var):
    model = PosteriorModel(known(1.0, 0.3, var), history, Key((0,)))
    designs = model.promising()
    assert designs[0][0] == pytest.approx(0.3, abs=1e-4)
    assert np.all(np.diff(np.abs(designs[:, 0] - 0.3)) > -1e-7)  # the mean falls with the distance
    assert all(LINE.snap(row[None])[0].tobytes() == row.tobytes() for row in designs)


def waves(params: Params, fidelity: int) -> float:
    return float(np.sin(9 * params["x"]) + 0.1 * params["n"] + (0.0 if fidelity else 0.1 * params["x"]))


@pytest.mark.parametrize("seed", range(3))
def test_the_recommendation_is_at_least_as_sure_as_the_incumbent(history_of, seed):
    generator = np.random.default_rng(seed)
    designs = [(LINE.decode(row), m) for m, count in enumerate((10, 4)) for row in LINE.sample(generator, count)]
    history = history_of(LINE, [(params, m, waves(params, m)) for params, m in designs])
    surrogate = ClosedFormStack(CosineFamily(16, 8, 8, 4), steps=12)
    model = PosteriorModel(surrogate.fit(history.observations, Key((seed,))), history, Key((seed,)))
    recommended = model.recommend()
    seen = history.observations[1]
    incumbent = seen.unit_x[np.argmax(seen.y)]
    mean, std = model.predict(incumbent[None], 1)
    assert recommended.mean - recommended.std >= mean[0] - std[0] - 1e-9
    again = np.all(seen.unit_x == recommended.unit_x, axis=1)
    expected = [seen.y[again][0], 0.0] if again.any() else np.ravel(model.predict(recommended.unit_x[None], 1))
    np.testing.assert_allclose([recommended.mean, recommended.std], expected)


def test_a_design_that_was_seen_is_recommended_with_the_value_that_was_seen(history):
    # the model expects 89.7 +- 1 at the design observed at 90
    vague = PosteriorModel(known(0.33, 0.3, 2.0), history, Key((0,))).recommend()
    assert (vague.mean, vague.std) == (90.0, 0.0)


def test_a_design_whose_ripples_may_undo_its_lead_is_not_recommended(history):
    # 90 was seen; 90.4 +- 0.01 is expected elsewhere, and ripples of 0.045 x 10 around it
    posterior = replace(known(-0.96, 0.3, 1e-6), noise_std=jnp.asarray(0.045))
    assert PosteriorModel(posterior, history, Key((0,))).recommend().mean == 90.0
    smooth = replace(posterior, noise_std=jnp.asarray(1e-3))
    assert PosteriorModel(smooth, history, Key((0,))).recommend().mean == pytest.approx(90.4, abs=1e-3)


def test_one_observation_more_compiles_nothing_for_the_next_recommendation(history_of, caplog):
    designs = [(LINE.decode(row), m) for m in (0, 1) for row in LINE.sample(np.random.default_rng(m), 6)]
    surrogate = ClosedFormStack(CosineFamily(16, 8, 8, 4), steps=3, members=2, learned_at=lambda count: min(count, 4))

    def recommend(count: int) -> None:
        history = history_of(LINE, [(params, m, waves(params, m)) for params, m in designs[:count]])
        PosteriorModel(surrogate.fit(history.observations, Key((0,))), history, Key((0,))).recommend()

    def compiled() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.getMessage().startswith("Compiling")]

    with caplog.at_level("WARNING"), jax.log_compiles():
        recommend(10)
        before = compiled()
        recommend(11)
        recommend(12)
    assert before
    assert compiled() == before
