"""Every surrogate obeys the laws of `fidelium.testing.surrogates`; a surrogate that does not is caught."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from fidelium.history import Observations
from fidelium.randomness import Key
from fidelium.surrogates.gp.covariances import Additive, Convolved, Coregionalised, Independent
from fidelium.surrogates.gp.joint import GaussianProcess, JointPosterior
from fidelium.surrogates.gp.nonlinear import NonlinearAutoregressive
from fidelium.surrogates.multitask_nn import SharedFeatures
from fidelium.surrogates.stacked_dnn.architecture import Architecture
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.stacked_dnn.features import CosineFamily
from fidelium.surrogates.stacked_dnn.variational import VariationalStack
from fidelium.testing import surrogates as laws
from fidelium.testing.surrogates import LAWS, check_surrogate
from fidelium.testing.surrogates import SurrogateCase as Case

KEY = Key((0,))
SMALL = Architecture((16, 16), "tanh")


def joint(family, **tolerances) -> Case:
    """A Gaussian process: conditionals are exact, and an expected observation does not move the means at all."""
    return Case(
        GaussianProcess(family, starts=2, steps=40), KEY, link_tolerance=1e-6, given_tolerance=1e-6, **tolerances
    )


CASES = {
    # its ripples are learned whatever runs report: values far from the best are not followed exactly
    "stack, cosine": Case(ClosedFormStack(CosineFamily(24, 16, 8, 4), members=2, steps=40), KEY, exact_tolerance=0.1),
    "stack, variational": Case(VariationalStack(SMALL, epochs=500, learning_rate=1e-2), KEY, exact_tolerance=0.4),
    "independent": joint(Independent()),
    "independent, matern52": joint(Independent("matern52")),
    "additive": joint(Additive()),
    "additive, rho = 0.5": joint(Additive(rho=0.5)),
    "coregionalised": joint(Coregionalised()),
    "convolved": joint(Convolved()),
    "shared features": joint(SharedFeatures(SMALL)),
    "non-linear": Case(NonlinearAutoregressive(starts=2, steps=40), KEY),
}


def complaint(law: Callable[[Case], None], case: Case) -> str | None:
    """What a law finds wrong with a surrogate, None if it is content."""
    try:
        law(case)
    except AssertionError as error:
        return str(error) or law.__name__
    return None


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_every_surrogate_obeys(name, law):
    assert complaint(law, CASES[name]) is None


def test_all_laws_at_once_with_one_fidelity_in_three_dimensions():
    surrogate = GaussianProcess(Independent(), starts=2, steps=40)
    check_surrogate(surrogate, key=KEY, dimension=3, fidelities=1, given_tolerance=1e-6)


class Overconfident(JointPosterior):
    def marginals(self, x: Array) -> tuple[Array, Array]:
        means, variances = super().marginals(x)
        return means, variances / 4


class Unrelated(JointPosterior):
    def target_given(self, x: Array, fidelity: int, value: Array) -> tuple[Array, Array]:
        means, variances = self.marginals(x)
        return means[-1], variances[-1]


class Flat(JointPosterior):
    def marginals(self, x: Array) -> tuple[Array, Array]:
        return super().marginals(jax.lax.stop_gradient(x))


class Deaf(JointPosterior):
    def given(self, x: np.ndarray, fidelities: Sequence[int]) -> JointPosterior:
        return self


@dataclass(frozen=True)
class Turned:
    """A process whose posterior is turned into another kind."""

    kind: type[JointPosterior] = JointPosterior

    def fit(self, observations: Sequence[Observations], key: Key) -> JointPosterior:
        found = GaussianProcess(Additive(), starts=2, steps=20).fit(observations, key)
        return self.kind(found.process, found.noise, found.units)


@dataclass(frozen=True)
class Moody(Turned):
    fits: list[int] = field(default_factory=list)

    def fit(self, observations: Sequence[Observations], key: Key) -> JointPosterior:
        self.fits.append(1)
        return super().fit(observations, key.fold(len(self.fits)))


class Unpadded(Turned):
    def fit(self, observations: Sequence[Observations], key: Key) -> JointPosterior:
        for seen in observations:
            jax.jit(jnp.sum)(seen.y)
        return super().fit(observations, key)


class Inventive(Turned):
    def fit(self, observations: Sequence[Observations], key: Key) -> JointPosterior:
        invented = Observations(np.full((1, observations[0].unit_x.shape[1]), 0.5), np.zeros(1))
        return super().fit([*observations[:-1], observations[-1] if len(observations[-1]) else invented], key)


@pytest.mark.parametrize(
    ("surrogate", "law", "text"),
    [
        (Turned(Overconfident), laws.marginals_agree_with_draws, "standard deviation of draws"),
        (Turned(Unrelated), laws.conditionals_agree_with_the_joint, "given fidelity 0 and observed"),
        (Turned(Flat), laws.gradients_are_finite_differences, "gradient of the means"),
        (Turned(Deaf), laws.fantasy_observations_keep_the_means, "given lowers the variance"),
        (Moody(), laws.the_same_key_gives_the_same_posterior, "the same key"),
        (Unpadded(), laws.growing_data_teach_and_do_not_recompile, "compiles nothing"),
        (Inventive(), laws.no_data_are_refused, "expected NoDataError"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_who_breaks_a_law_is_told_so(surrogate, law, text):
    assert text in (complaint(law, Case(surrogate, KEY, fidelities=2, link_tolerance=1e-3)) or "")
