"""Conformance tests for surrogates. For a new surrogate run

    check_surrogate(MySurrogate(), key=Key((0,)))

or one law per test, `@pytest.mark.parametrize("law", LAWS)` with `law(SurrogateCase(MySurrogate(), Key((0,))))`. A law
that does not hold raises an AssertionError with the expected and the actual value. Differences are measured in standard
deviations of the posterior, so that the same tolerances fit every surrogate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import equinox as eqx
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.errors import NoDataError
from fidelium.history import Observations
from fidelium.numerics.backend import jax_key, jax_session, quick_jit
from fidelium.numerics.quadrature import gauss_hermite, match_moments
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key
from fidelium.surrogates.base import Paths, Point, Posterior, Surrogate

Values = NDArray[np.float64]

_DRAWS = 1000
_POINTS = 6
_SURE = 4.5
"""Standard errors within which a Monte Carlo estimate must be."""

_LEAST_STD = 1e-2
"""Smallest standard deviation in comparisons, in the model's units (of order one): random features are not exact."""

_STEP = 1e-5
"""Of finite differences."""


@dataclass(frozen=True)
class SurrogateCase:
    """A surrogate and its test problem: a smooth function on the unit cube, observed at every fidelity.

    Args:
        surrogate: the surrogate to check.
        key: of the fits, the data and the draws.
        dimension: of the unit cube.
        fidelities: how many there are.
        count: observations of the lowest fidelity, twice as many as of the target.
        draw_tolerance: how far draws may be from the marginals beyond the Monte Carlo error, in standard deviations
            (and as a share of them): draws by random features, and marginals by moment matching, are approximate.
        link_tolerance: the same of conditionals against marginals.
        given_tolerance: how far the means may move after a fantasy observation equal to the predictive mean.
        exact_tolerance: how far the means may be from values that are reported to be exact, in the values' spread.
    """

    surrogate: Surrogate[Posterior]
    key: Key
    dimension: int = 2
    fidelities: int = 3
    count: int = 8
    draw_tolerance: float = 0.15
    link_tolerance: float = 0.1
    given_tolerance: float = 0.2
    exact_tolerance: float = 0.02

    def observations(self, count: int) -> list[Observations]:
        """`count` observations of the lowest fidelity, half as many of the target."""
        generator = self.key.fold(1).generator()
        counts = np.linspace(count, max(count // 2, 1), self.fidelities).round().astype(int)
        seen = [generator.random((n, self.dimension)) for n in counts]
        return [Observations(x, self.objective(x, m)) for m, x in enumerate(seen)]

    def objective(self, x: Values, fidelity: int) -> Values:
        """A wave, and a trend that grows with the fidelity."""
        return np.sin(4 * x[:, 0] + 0.5 * x.sum(axis=1)) + 0.2 * fidelity * x[:, -1]

    def points(self) -> Float[Array, "n d"]:
        """Points at which the posterior is checked."""
        return jnp.asarray(self.key.fold(2).generator().random((_POINTS, self.dimension)))

    def fit(self, observations: Sequence[Observations]) -> Posterior:
        """The surrogate's posterior."""
        return self.surrogate.fit(observations, self.key.fold(3))

    @cached_property
    def posterior(self) -> Posterior:
        """The surrogate's posterior given the usual observations."""
        return self.fit(self.observations(self.count))


Law = Callable[[SurrogateCase], None]


@jax_session()
def check_surrogate(
    surrogate: Surrogate[Posterior], *, key: Key, dimension: int = 2, fidelities: int = 3, **tolerances: float
) -> None:
    """Check every law on a surrogate.

    Args:
        surrogate: the surrogate to check.
        key: of the fits, the data and the draws.
        dimension: of the unit cube.
        fidelities: how many there are.
        tolerances: those of `SurrogateCase`: larger ones for approximations, smaller ones for exact methods.

    Raises:
        AssertionError: if a law does not hold.
    """
    case = replace(SurrogateCase(surrogate, key, dimension, fidelities), **tolerances)
    for law in LAWS:
        law(case)


@jax_session()
def it_has_all_capabilities(case: SurrogateCase) -> None:
    """Surrogate and posterior follow the protocols; the posterior is a pytree of finite arrays."""
    _require(isinstance(case.surrogate, Surrogate), "a surrogate has a method fit", case.surrogate)
    posterior = case.posterior
    _require(isinstance(posterior, Posterior), "fit gives a Posterior", type(posterior))
    scales = posterior.scales()
    _require(
        len(scales) == case.fidelities and all(isinstance(scale, Scale) for scale in scales),
        "scales() gives a Scale per fidelity",
        scales,
    )
    leaves = jax.tree.leaves(posterior)
    _require(
        bool(leaves) and all(eqx.is_array(leaf) for leaf in leaves),
        "a posterior is a pytree of arrays",
        [type(leaf) for leaf in leaves],
    )
    _finite("the arrays of the posterior", leaves)
    members = posterior.members()
    _require(
        bool(members) and all(isinstance(member, Posterior) for member in members),
        "members() gives posteriors, at least one",
        [type(member) for member in members],
    )
    values = jnp.linspace(-5.0, 5.0, 7)
    noise = np.array([posterior.noise_var(m, values) for m in range(case.fidelities)])
    _require(noise.shape == (case.fidelities, 7), "noise_var gives a variance per value", noise.shape)
    _require(bool(np.all(np.isfinite(noise) & (noise > 0))), "noise variances are above 0", noise)


@jax_session()
def its_shapes_are_right(case: SurrogateCase) -> None:
    """Marginals have an entry per fidelity, conditionals are scalars, paths an entry per draw."""
    posterior, x = case.posterior, case.points()[0]
    shapes = [part.shape for part in _marginals(posterior, x)]
    _require(shapes == [(case.fidelities,)] * 2, "marginals have an entry per fidelity", shapes)
    for m in range(case.fidelities - 1):
        shapes = [part.shape for part in _target_given(posterior, x, m, jnp.zeros(()))]
        _require(shapes == [(), ()], f"target_given fidelity {m} gives two scalars", shapes)
    paths = _draw(posterior, jax_key(case.key), 3)
    _require(isinstance(paths, Paths), "draw_paths gives Paths", type(paths))
    values = _path_values(paths, x[None])[0]
    _require(values.shape == (3,), "three draws have three values at a point", values.shape)
    alone = [float(paths.at(jnp.asarray(draw), x)) for draw in range(3)]
    _close("Paths.at, against the call", alone, values, 1e-8)


@jax_session()
def marginals_agree_with_draws(case: SurrogateCase) -> None:
    """Mean and standard deviation of many draws of the target are those of its marginal."""
    posterior, x = case.posterior, case.points()
    mean, std = _target_moments(posterior, x)
    draws = np.asarray(_path_values(_draw(posterior, jax_key(case.key.fold(4)), _DRAWS), x))
    _finite("draws of the target", draws)
    # errors in standard deviations: that of a mean of n draws is n^-1/2, that of their deviation (2 n)^-1/2
    allowed = _SURE / np.sqrt(_DRAWS) + case.draw_tolerance
    unit = np.maximum(std, _LEAST_STD)
    _close("mean of draws less the marginal mean, over the deviation", (draws.mean(1) - mean) / unit, 0.0, allowed)
    _close("standard deviation of draws less the marginal one, over that", (draws.std(1) - std) / unit, 0.0, allowed)


@jax_session()
def conditionals_agree_with_the_joint(case: SurrogateCase) -> None:
    """E[E[f_M | f_m]] and E[Var[f_M | f_m]] + Var[E[f_M | f_m]] over the marginal of f_m are the moments of f_M.

    Before and after f_m is observed: y_m informs about f_M only through f_m.
    """
    posterior, x = case.posterior, case.points()
    std = _target_moments(posterior, x)[1]
    for m in range(case.fidelities - 1):
        observed = posterior.given(np.asarray(x[:1]), [m])
        for when, now, where in (("", posterior, slice(None)), (" and observed", observed, slice(1))):
            mean, new_std = (part[where] for part in _target_moments(now, x))
            total_mean, total_var = _total_moments(posterior, x, m, *_marginals_at(now, x))
            label = f"of the target given fidelity {m}{when}, averaged over it, against the marginal"
            _close(
                f"mean {label}, over the deviation", (total_mean[where] - mean) / std[where], 0.0, case.link_tolerance
            )
            apart = (np.sqrt(total_var[where]) - new_std) / std[where]
            _close(f"deviation {label}, over the deviation", apart, 0.0, case.link_tolerance)


@jax_session()
def gradients_are_finite_differences(case: SurrogateCase) -> None:
    """Gradients of everything an acquisition maximises; finite also at the observed points."""
    observed = case.observations(case.count)[-1].unit_x[: len(_few(case))]
    _finite("gradients at observed points", _with_slopes(case.posterior, jnp.asarray(observed)))
    direction = case.key.fold(5).generator().normal(size=case.dimension)
    direction = jnp.asarray(direction / np.linalg.norm(direction))
    x = _few(case)
    _, slopes = _with_slopes(case.posterior, x)
    (ahead, _), (behind, _) = (_with_slopes(case.posterior, x + step * direction[None, :]) for step in (_STEP, -_STEP))
    for name, slope in slopes.items():
        difference = np.asarray(ahead[name] - behind[name]) / (2 * _STEP)
        _close(f"gradient of the {name}", np.asarray(slope @ direction), difference, 1e-4 * (1 + np.abs(difference)))


@jax_session()
def growing_data_teach_and_do_not_recompile(case: SurrogateCase) -> None:
    """One more observation inside a padding bucket compiles nothing; three times as many beat the mean."""
    x = case.points()
    case.fit(case.observations(case.count))
    _marginals_at(case.fit(case.observations(case.count)), x)
    with _compilations() as compiled:
        _marginals_at(case.fit(case.observations(case.count + 1)), x)
    _require(not compiled, "one more observation compiles nothing", compiled)
    posterior = case.fit(case.observations(3 * case.count))
    test_x = case.key.fold(6).generator().random((64, case.dimension))
    truth = case.objective(test_x, case.fidelities - 1)
    predicted = posterior.scales()[-1].outward(np.asarray(_marginals_at(posterior, jnp.asarray(test_x))[0])[:, -1])
    error = float(np.sqrt(np.mean((predicted - truth) ** 2)) / np.std(truth))
    _require(error < 0.7, "three times as many observations predict better than the mean (an error of 1)", error)


@jax_session()
def degenerate_data_give_numbers(case: SurrogateCase) -> None:
    """Whatever the data: finite marginals, draws and gradients, and positive variances."""
    for name, observations in degenerate(case).items():
        values, slopes = _with_slopes(case.fit(observations), _few(case))
        _finite(f"values from {name} data", values)
        _finite(f"gradients from {name} data", slopes)
        variances = np.asarray(values["variances"])
        _require(bool(np.all(variances > 0)), f"variances from {name} data are above 0", variances)


@jax_session()
def the_members_together_are_the_posterior(case: SurrogateCase) -> None:
    """The mean of the target is that of the members, averaged, in the posterior's units."""
    posterior, x = case.posterior, case.points()
    scale, (whole, _) = posterior.scales()[-1], _target_moments(posterior, x)
    members = [scale.inward(each.scales()[-1].outward(_target_moments(each, x)[0])) for each in posterior.members()]
    _close("mean of the members less that of the posterior, in its units", np.mean(members, 0) - whole, 0.0, 1e-8)


@jax_session()
def fantasy_observations_keep_the_means(case: SurrogateCase) -> None:
    """`given` lowers the variance of its fidelity at its point, and keeps the means."""
    posterior, x = case.posterior, case.points()
    before = _marginals_at(posterior, x)
    for m in range(case.fidelities):
        after = _marginals_at(posterior.given(np.asarray(x[:1]), [m]), x)
        (mean, var), (new_mean, new_var) = ((np.asarray(a)[:, m], np.asarray(v)[:, m]) for a, v in (before, after))
        _require(new_var[0] < var[0], f"given lowers the variance {var[0]} of fidelity {m} at its point", new_var[0])
        label = f"means of fidelity {m} after a fantasy observation, in standard deviations from those before"
        _close(label, (new_mean - mean) / np.sqrt(var), 0.0, case.given_tolerance)
    several = posterior.given(np.asarray(x), [0, case.fidelities - 1] * (len(x) // 2))
    _finite("marginals after several fantasy observations", _marginals_at(several, x))


@jax_session()
def exact_values_are_interpolated(case: SurrogateCase) -> None:
    """Where all runs report a standard error of 0, the means are the values, at every fidelity."""
    usual = case.observations(case.count)
    posterior = case.fit([replace(seen, std=np.zeros(len(seen))) for seen in usual])
    for m, (seen, scale) in enumerate(zip(usual, posterior.scales(), strict=True)):
        means = np.asarray(_marginals_at(posterior, jnp.asarray(seen.unit_x))[0])[:, m]
        apart = (scale.outward(means) - seen.y) / np.std(seen.y)
        _close(f"means of fidelity {m} less exact values, over their spread", apart, 0.0, case.exact_tolerance)


@jax_session()
def values_with_huge_errors_are_ignored(case: SurrogateCase) -> None:
    """It does not matter what a run gave whose standard error is a million times the values' spread."""
    *lower, target = case.observations(case.count)
    x, size = np.full((1, case.dimension), 0.5), len(target)

    def with_one_more(value: float) -> Posterior:
        std = np.append(np.full(size, np.nan), 1e6)
        return case.fit([*lower, Observations(np.concatenate([target.unit_x, x]), np.append(target.y, value), std)])

    low, high = (with_one_more(value) for value in (-3.0, 3.0))
    moments = [_in_units(posterior, case.points()) for posterior in (low, high)]
    for what, one, other in zip(("mean", "deviation"), *moments, strict=True):
        label = f"{what} of the target after another value with a huge error, over the deviation"
        _close(label, (one - other) / moments[0][1], 0.0, 0.1)


@jax_session()
def reported_errors_are_the_noise(case: SurrogateCase) -> None:
    """A future observation has the errors that runs reported; where they are large, less is learned from values.

    Errors are data: more of them inside a padding bucket compile nothing.
    """
    usual, x = case.observations(case.count), case.points()

    def with_errors(observations: Sequence[Observations], std: float) -> Posterior:
        return case.fit([replace(seen, std=np.full(len(seen), std)) for seen in observations])

    precise, noisy = with_errors(usual, 0.03), with_errors(usual, 0.6)
    for m, scale in enumerate(noisy.scales()):
        noise = float(np.sqrt(noisy.noise_var(m, jnp.asarray(20.0))))
        expected = float(np.median(scale.inward_std(usual[m].y, np.full(len(usual[m]), 0.6))))
        _close(f"noise of fidelity {m} where 0.6 was reported, in the model's units", noise, expected, 1e-6)
        observed = jnp.asarray(usual[m].unit_x)
        (mean, var), (_, less_sure) = (
            [np.asarray(part)[:, m] for part in _marginals_at(each, observed)] for each in (precise, noisy)
        )
        _require(
            float(np.mean(less_sure)) > 1.5 * float(np.mean(var)),
            f"fidelity {m} is known less well where errors of 0.6 and not of 0.03 were reported",
            (np.mean(var), np.mean(less_sure)),
        )
        misfit = precise.scales()[m].outward(mean) - usual[m].y
        share = float(np.sqrt(np.mean(misfit**2)) / np.std(usual[m].y))
        _require(share < 0.3, f"values of fidelity {m} with errors of 0.03 are followed", share)
    _marginals_at(with_errors(usual, 0.1), x)
    with _compilations() as compiled:
        _marginals_at(with_errors(case.observations(case.count + 1), 0.2), x)
    _require(not compiled, "one more observation with a standard error compiles nothing", compiled)


@jax_session()
def what_a_fidelity_ignores_does_not_matter(case: SurrogateCase) -> None:
    """Where the lowest fidelity does not use the last column, nothing there depends on it; the target does.

    What was run there at one value of the column is known at all values; and it still informs about the target.
    """
    if case.fidelities < 2 or case.dimension < 2:
        return
    used = (*[True] * (case.dimension - 1), False)
    lowest, *higher = case.observations(2 * case.count)
    flat = replace(lowest, y=case.objective(np.c_[lowest.unit_x[:, :-1], np.full(len(lowest), 0.3)], 0), used=used)
    higher = [replace(seen, y=seen.y + 0.5 * seen.unit_x[:, -1]) for seen in higher]
    posterior, x = case.fit([flat, *higher]), case.points()
    moved = x.at[:, -1].set(1 - 0.9 * x[:, -1])
    for now, when in ((posterior, ""), (posterior.given(np.asarray(x[:1]), [0]), " after a run is expected")):
        here, there = (np.stack([np.asarray(part) for part in _marginals_at(now, at)]) for at in (x, moved))
        _close(f"lowest fidelity elsewhere along what it ignores{when}", there[:, :, 0], here[:, :, 0], 1e-12)
        away = float(np.max(np.abs(there[0, :, -1] - here[0, :, -1])))
        _require(away > 0.05, "the target depends on what the lowest fidelity ignores", away)
    _, slopes = _with_slopes(posterior, x[:3])
    _close("slope of the lowest fidelity along what it ignores", slopes["means"][:, 0, -1], 0.0, 1e-12)
    given = np.asarray(posterior.given(np.asarray(moved[:1]), [0]).marginals(x[0])[1])
    before = np.asarray(posterior.marginals(x[0])[1])
    _require(given[0] < before[0], "a run elsewhere along what it ignores is the same run", (before[0], given[0]))
    with _compilations() as compiled:
        _marginals_at(case.fit([flat.first(len(flat) - 1), *higher]), x)
    _require(not compiled, "one observation fewer at a fidelity with few inputs compiles nothing", compiled)


@jax_session()
def the_same_key_gives_the_same_posterior(case: SurrogateCase) -> None:
    """`fit` is pure."""
    again = case.fit(case.observations(case.count))
    for leaf, other in zip(jax.tree.leaves(case.posterior), jax.tree.leaves(again), strict=True):
        _require(bool(jnp.array_equal(leaf, other)), "the same key gives the same posterior", "another one")


@jax_session()
def no_data_are_refused(case: SurrogateCase) -> None:
    """NoDataError if there is no observation at any fidelity."""
    nothing = Observations(np.empty((0, case.dimension)), np.empty(0))
    try:
        case.fit([nothing] * case.fidelities)
    except NoDataError:
        return
    raise AssertionError("expected NoDataError from a fit without any observation, got a posterior")


LAWS: tuple[Law, ...] = (
    it_has_all_capabilities,
    its_shapes_are_right,
    marginals_agree_with_draws,
    conditionals_agree_with_the_joint,
    gradients_are_finite_differences,
    growing_data_teach_and_do_not_recompile,
    degenerate_data_give_numbers,
    the_members_together_are_the_posterior,
    fantasy_observations_keep_the_means,
    exact_values_are_interpolated,
    values_with_huge_errors_are_ignored,
    reported_errors_are_the_noise,
    what_a_fidelity_ignores_does_not_matter,
    the_same_key_gives_the_same_posterior,
    no_data_are_refused,
)
"""Every law, a function of a `SurrogateCase`."""


def degenerate(case: SurrogateCase) -> dict[str, list[Observations]]:
    """Data that are hard to learn from, by name."""
    usual = case.observations(case.count)
    nothing = Observations(np.empty((0, case.dimension)), np.empty(0))
    middle = np.full((4, case.dimension), 0.5)

    def scaled(factor: float) -> list[Observations]:
        return [Observations(seen.unit_x, factor * seen.y) for seen in usual]

    return {
        "a single low": [Observations(middle[:1], np.ones(1))] + [nothing] * (case.fidelities - 1),
        "a single target": [nothing] * (case.fidelities - 1) + [Observations(middle[:1], -np.ones(1))],
        "repeated": [Observations(middle, np.full(4, float(m))) for m in range(case.fidelities)],
        "contradicting": [Observations(middle, np.array([1.0, 2.0, -3.0, 0.0])) for _ in usual],
        "constant": [Observations(seen.unit_x, np.full(len(seen), 7.5)) for seen in usual],
        "zero": [Observations(seen.unit_x, np.zeros(len(seen))) for seen in usual],
        "targetless": [*usual[:-1], nothing] if case.fidelities > 1 else usual,
        "target only": [nothing] * (case.fidelities - 1) + [usual[-1]],
        "huge": scaled(1e12),
        "tiny": scaled(1e-12),
    }


def _few(case: SurrogateCase) -> Float[Array, "3 d"]:
    """Points for gradients: inside the cube, including its middle, where some of the degenerate data are."""
    return jnp.concatenate([0.1 + 0.8 * case.points()[:2], jnp.full((1, case.dimension), 0.5)])


def _target_moments(posterior: Posterior, x: Float[Array, "n d"]) -> tuple[Values, Values]:
    """Mean and standard deviation of the target."""
    means, variances = (np.asarray(part)[:, -1] for part in _marginals_at(posterior, x))
    return means, np.sqrt(variances)


def _in_units(posterior: Posterior, x: Float[Array, "n d"]) -> tuple[Values, Values]:
    """Mean and standard deviation of the target in the objective's units."""
    means, stds = _target_moments(posterior, x)
    return posterior.scales()[-1].outward_moments(means, stds**2)


@jax.jit
def _marginals(posterior: Posterior, x: Point) -> tuple[Array, Array]:
    return posterior.marginals(x)


@jax.jit
def _marginals_at(posterior: Posterior, x: Float[Array, "n d"]) -> tuple[Array, Array]:
    return jax.vmap(posterior.marginals)(x)


@partial(jax.jit, static_argnums=2)
def _target_given(posterior: Posterior, x: Point, fidelity: int, value: Array) -> tuple[Array, Array]:
    return posterior.target_given(x, fidelity, value)


@partial(jax.jit, static_argnums=2)
def _draw(posterior: Posterior, key: jax.Array, count: int) -> Any:
    return posterior.draw_paths(key, count)


@jax.jit
def _path_values(paths: Any, x: Float[Array, "n d"]) -> Float[Array, "n draws"]:
    return jax.vmap(paths)(x)


@partial(jax.jit, static_argnums=2)
def _total_moments(
    posterior: Posterior,
    x: Float[Array, "n d"],
    fidelity: int,
    means: Float[Array, "n m"],
    variances: Float[Array, "n m"],
) -> tuple[Array, Array]:
    """Mean and variance of the target, from those given a lower fidelity that has this mean and variance."""
    z, g = gauss_hermite(32)

    def one(x: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
        values = mean + jnp.sqrt(variance) * z
        return match_moments(g, *jax.vmap(lambda value: posterior.target_given(x, fidelity, value))(values))

    return jax.vmap(one)(x, means[:, fidelity], variances[:, fidelity])


def _of_one_point(posterior: Posterior, paths: Any, x: Point) -> dict[str, Array]:
    """Everything that acquisitions maximise, each a vector."""
    means, variances = posterior.marginals(x)
    given = [posterior.target_given(x, m, jnp.asarray(0.3)) for m in range(len(means) - 1)]
    links = {"target given a lower fidelity": jnp.stack([jnp.stack(pair) for pair in given]).ravel()} if given else {}
    return {"means": means, "variances": variances, "draws": paths(x)} | links


@quick_jit
def _with_slopes(posterior: Posterior, x: Float[Array, "n d"]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Everything that acquisitions maximise, and its gradients."""
    paths = posterior.draw_paths(jax.random.key(0), 2)

    def twice(x: Point) -> tuple[dict[str, Array], dict[str, Array]]:
        values = _of_one_point(posterior, paths, x)
        return values, values

    slopes, values = jax.vmap(jax.jacrev(twice, has_aux=True))(x)
    return values, slopes


@cache
def _listened() -> list[str]:
    """What JAX has traced or compiled since the first call; a single listener, since it cannot be removed."""
    seen: list[str] = []

    def listen(event: str, duration_secs: float, **details: str | int) -> None:
        if event.startswith("/jax/core/compile"):
            seen.append(f"{event} {details}")

    jax.monitoring.register_event_duration_secs_listener(listen)
    return seen


@contextmanager
def _compilations() -> Iterator[list[str]]:
    """What JAX traces or compiles inside the block."""
    everything = _listened()
    before, inside = len(everything), []
    yield inside
    inside += everything[before:]


def _require(holds: bool, law: str, came: object) -> None:
    if not holds:
        raise AssertionError(f"expected: {law}; got {came!r}")


def _finite(what: str, tree: Any) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if not np.all(np.isfinite(np.asarray(leaf))):
            raise AssertionError(f"expected finite {what}, got {leaf!r} at {jax.tree_util.keystr(path)}")


def _close(what: str, found: Any, expected: Any, tolerance: Any) -> None:
    """Every number is within the tolerance; NaN is not."""
    found, expected = np.asarray(found), np.broadcast_to(np.asarray(expected), np.shape(found))
    if not np.all(np.abs(found - expected) <= tolerance):
        raise AssertionError(f"{what}: expected {expected} within {tolerance}, got {found}")
