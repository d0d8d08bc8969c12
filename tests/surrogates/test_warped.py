"""The evidence warps long tails and nothing else, whatever the units; predictions stay in the user's units."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fidelium.errors import NoDataError, SettingError
from fidelium.history import Observations
from fidelium.numerics.warping import Warp
from fidelium.randomness import Key
from fidelium.surrogates.base import Focus
from fidelium.surrogates.gp.covariances import Coregionalised
from fidelium.surrogates.gp.joint import GaussianProcess
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.stacked_dnn.features import CosineFamily
from fidelium.surrogates.warped import Warped, choose_outcome_warps, choose_warps, fit_warped
from fidelium.testing.surrogates import LAWS
from fidelium.testing.surrogates import SurrogateCase as Case

KEY = Key((0,))
SEEDS = range(6)
Values = np.ndarray


def smooth(x: Values, fidelity: int) -> Values:
    """A smooth function with values of unit spread, without a tail; its cheap fidelity is a little off."""
    waves = np.sin(4 * x[:, 0] + 1) + np.cos(3 * x[:, 1]) + x[:, 0] * x[:, 1]
    return waves + (0.2 * x[:, 0] if fidelity == 0 else 0.0)


def observed(seed: int, of: Callable[[Values], Values], counts: tuple[int, ...] = (16, 8)) -> list[Observations]:
    generator = np.random.default_rng(seed)
    designs = [generator.random((count, 2)) for count in counts]
    return [Observations(x, of(smooth(x, m))) for m, x in enumerate(designs)]


def up(m: Values) -> Values:
    return np.exp(3 * m)


def down(m: Values) -> Values:
    return -np.exp(-3 * m)


@pytest.mark.parametrize("seed", SEEDS)
def test_values_without_tails_are_left_as_they_are(seed):
    assert all(warp.is_identity for warp in choose_warps(observed(seed, lambda m: m), KEY))


@pytest.mark.parametrize("of", [up, down], ids=["exp(3m)", "-exp(-3m)"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_logarithm_of_an_exponential_is_found(seed, of):
    seen = observed(seed, of)
    warps = choose_warps(seen, KEY)
    for each, warp in zip(seen, warps, strict=True):
        m = (1 if of is up else -1) * np.log(np.abs(each.y)) / 3
        assert not warp.is_identity
        bent, before = (np.corrcoef(values, m)[0, 1] for values in (warp.inward(each.y), each.y))
        assert bent > 0.95  # straight, but for a pole that is not quite at 0
        assert 1 - bent < 0.3 * (1 - before)


def test_a_penalty_of_bad_designs_is_bent():
    seen = observed(0, lambda m: m - 200 * np.maximum(0.5 - m, 0) ** 2)
    warp = choose_warps(seen, KEY)[-1]
    assert not warp.is_identity
    good, bad = warp.inward(np.array([1.5, 1.0])), warp.inward(np.array([-99.5, -100.0]))
    assert good[0] - good[1] > 10 * (bad[0] - bad[1])


@pytest.mark.parametrize("of", [lambda m: m, up, down], ids=["m", "up", "down"])
@pytest.mark.parametrize(("factor", "offset"), [(1e-9, 0.0), (1e9, 0.0), (3.0, 1e3), (0.25, -8.0)])
def test_the_choice_does_not_depend_on_the_units(of, factor, offset):
    plain = observed(1, of)
    other = [Observations(seen.unit_x, offset + factor * seen.y) for seen in plain]
    for seen, here, there in zip(plain, choose_warps(plain, KEY), choose_warps(other, KEY), strict=True):
        assert here.is_identity == there.is_identity
        if not here.is_identity:
            z = here.inward(seen.y)
            np.testing.assert_allclose(there.inward(offset + factor * seen.y), z, rtol=1e-2, atol=1e-2 * np.ptp(z))


def test_fidelities_in_other_units_get_maps_of_their_own():
    seen = observed(2, down, counts=(16, 16))
    other = [seen[0], Observations(seen[1].unit_x, 1e6 + 1e4 * seen[1].y)]
    low, high = choose_warps(other, KEY)
    assert low != high
    m = -np.log(-seen[1].y) / 3
    assert np.corrcoef(high.inward(other[1].y), m)[0, 1] > 0.9
    assert choose_warps(other, KEY, shared=True)[0] == choose_warps(other, KEY, shared=True)[1]


def test_an_exponential_of_a_tail_is_bent_twice():
    def tailed(m: Values) -> Values:
        return -np.exp(np.exp(1.5 - 1.5 * m) / 4)

    warp = choose_warps(observed(3, tailed, counts=(40, 20)), KEY)[-1]
    assert not warp.first.is_straight
    assert not warp.second.is_straight


@pytest.mark.parametrize(
    "values",
    [np.zeros(12), np.full(12, 7.5), np.ones(1), np.array([1.0, 2.0]), np.empty(0), np.repeat([0.0, 1e300], 6)],
    ids=["zero", "constant", "one", "two", "none", "two huge values"],
)
def test_degenerate_values_have_a_map(values):
    x = np.random.default_rng(0).random((len(values), 2))
    for warp in choose_warps([Observations(x, values), Observations(x, -values)], KEY):
        assert np.all(np.isfinite(warp.inward(values)))
        assert len(np.unique(warp.inward(values))) == len(np.unique(values))


@pytest.mark.parametrize("size", [1e-290, 1e290])
def test_values_of_any_size_have_a_map(size):
    seen = observed(0, lambda m: size * down(m / 3))
    for each, warp in zip(seen, choose_warps(seen, KEY), strict=True):
        order = np.argsort(each.y)
        assert np.all(np.diff(warp.inward(each.y)[order]) > 0)


# limits


def beyond(limit: float, distance: float) -> Callable[[Values], Values]:
    """An outcome that is `limit` in the middle, with both tails far away."""
    return lambda m: limit + distance * np.sinh(3 * (m - 0.8))


def test_an_outcome_is_bent_on_both_sides_of_its_limit():
    seen = observed(0, beyond(150e6, 1e6))
    for warp in choose_outcome_warps(seen, None, 150e6, KEY):
        assert warp.first.below == warp.first.above == 150e6
        assert warp.second.is_straight


def test_an_outcome_with_two_limits_is_straight_between_them():
    seen = observed(0, beyond(15.0, 1.0))
    warp = choose_outcome_warps(seen, 14.5, 15.5, KEY)[-1].first
    assert (warp.below, warp.above) == (14.5, 15.5)
    z = warp.inward(np.array([14.5, 15.0, 15.5]))
    assert z[1] - z[0] == pytest.approx(z[2] - z[1])


def test_an_outcome_without_tails_is_left_as_it_is():
    assert all(warp.is_identity for warp in choose_outcome_warps(observed(0, lambda m: m), 1.0, None, KEY))


@pytest.mark.parametrize(("lower", "upper"), [(None, None), (2.0, 1.0), (float("nan"), 1.0)])
def test_limits_that_are_none_are_refused(lower, upper):
    with pytest.raises(SettingError, match="limit"):
        choose_outcome_warps(observed(0, up), lower, upper, KEY)


# the surrogate

SMALL = GaussianProcess(Coregionalised(), starts=2, steps=40)
STACK = ClosedFormStack(CosineFamily(24, 16, 8, 4), members=2, steps=40)


class Tailed(Case):
    """The same laws on data with a long tail."""

    def objective(self, x: Values, fidelity: int) -> Values:
        return -np.exp(-2.5 * Case.objective(self, x, fidelity))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_warped_process_obeys_the_laws(law):
    law(Tailed(Warped(SMALL), KEY, count=16, link_tolerance=1e-6, given_tolerance=1e-6))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_warped_ensemble_obeys_the_laws(law):
    law(Tailed(Warped(STACK), KEY, count=16, exact_tolerance=0.1))


def test_without_tails_it_is_the_surrogate_itself():
    seen = observed(0, lambda m: m)
    x = jnp.array([0.3, 0.6])
    for plain, warped in zip(SMALL.fit(seen, KEY).marginals(x), Warped(SMALL).fit(seen, KEY).marginals(x), strict=True):
        assert np.array_equal(plain, warped)


def test_a_warped_posterior_and_its_members_are_in_the_users_units():
    seen = observed(0, down)
    posterior = Warped(STACK).fit(seen, KEY)
    for part in (posterior, *posterior.members()):
        for scale, each in zip(part.scales(), seen, strict=True):
            assert not scale.warp.is_identity
            np.testing.assert_allclose(scale.outward(scale.inward(each.y)), each.y, rtol=1e-8)


def test_predictions_are_in_the_users_units_and_good():
    seen = observed(0, down, counts=(40, 20))
    x = np.random.default_rng(9).random((50, 2))
    truth = down(smooth(x, 1))

    def errors(surrogate) -> Values:
        posterior = surrogate.fit(seen, KEY)
        means = np.asarray(jax.vmap(lambda row: posterior.marginals(row)[0][-1])(jnp.asarray(x)))
        return np.abs(np.log(np.maximum(-posterior.scales()[-1].outward(means), 1e-9) / -truth))

    assert np.median(errors(Warped(SMALL))) < 0.3 * np.median(errors(SMALL))
    assert np.median(errors(Warped(SMALL))) < 0.2


def test_maps_can_be_given():
    seen = observed(0, down)
    same = fit_warped(SMALL, seen, [Warp(), Warp()], KEY)
    assert all(scale.warp.is_identity for scale in same.scales())
    warps = choose_warps(seen, KEY)
    assert [scale.warp for scale in fit_warped(SMALL, seen, warps, KEY).scales()] == list(warps)


def test_an_outcome_goes_through_its_map():
    posterior = Warped(SMALL, focus=Focus((0.5, 0.5), ((2.0, 2.0),))).fit(observed(0, beyond(2.0, 0.1)), KEY)
    assert all(scale.warp.first.below == 2.0 for scale in posterior.scales())


def test_growing_data_do_not_recompile_the_choice(traces):
    choose_warps(observed(5, down, counts=(12, 6)), KEY)
    traces.on = True
    for count in (9, 13, 17, 28, 31):
        choose_warps(observed(6, up, counts=(count, 7)), KEY)
    assert traces.seen == []
    jax.jit(lambda x: 2 * x)(jnp.ones(3))
    assert traces.seen != []  # what is traced is seen


def test_no_data_are_refused():
    with pytest.raises(NoDataError):
        Warped(SMALL).fit([Observations(np.empty((0, 2)), np.empty(0))] * 2, KEY)
