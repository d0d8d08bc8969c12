"""DNN-MFBO: Algorithm 1 of the paper, its lines cited.

`dnn_mfbo_paper` follows the paper to the letter; `dnn_mfbo` is our best form of its idea. The differences are listed in
docs/deviations.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fidelium.acquisition.base import Candidate, Designs
from fidelium.acquisition.entropy import EntropySearch, joint_gain, paper_gain
from fidelium.acquisition.improvement import AugmentedImprovementSearch
from fidelium.errors import UnknownNameError
from fidelium.history import History, Query
from fidelium.numerics.backend import jax_session
from fidelium.randomness import Key
from fidelium.strategies.model import PosteriorModel
from fidelium.strategies.searched import SearchedStrategy
from fidelium.strategies.surrogate_strategy import (
    condition_on_unseen,
    first_new,
    fitted_model,
    has_data,
    random_query,
    require_target,
)
from fidelium.surrogates.base import JointlyGaussian, Posterior, Surrogate
from fidelium.surrogates.runs import RunPosterior, fit_runs
from fidelium.surrogates.stacked_dnn.architecture import StackArchitecture
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.warped import Warped
from fidelium.timing import stage

FOLLOWED = 0.1
"""Share of the runs below the target, in a table of designs, that count as followed by one at the target: a cheap run
improves nothing by itself. Chosen on five runs on tables other than that of the benchmark."""


@dataclass(frozen=True)
class DnnMfbo:
    """Algorithm 1: learn the stack, sample f*, ask where the gain per cost is highest.

    The loop of line 2 and line 5, which runs the query and adds it to the data, are the study's.

    Args:
        surrogate: the stack of networks.
        acquisition: the samples of f*, the gain, and its maximisation.
        target_only: whether only the target is ever asked.
        reserve_last: whether the last affordable query at the target is kept for the design of the highest mean.
        steady: the key of the surrogate's random parts, the same in every step; None: new ones in each.
        value_only: whether constraints and failures are left to the study: the paper has neither.
        on_tables: ranks the queries where all designs are listed and outcomes have no limits, not in the paper; None:
            the acquisition does.
    """

    surrogate: Surrogate[Posterior]
    acquisition: EntropySearch
    target_only: bool = False
    reserve_last: bool = False
    steady: Key | None = None
    value_only: bool = False
    on_tables: AugmentedImprovementSearch | None = None

    @jax_session()
    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The next query (x_t, m_t).

        Raises:
            BudgetError: if only the target is ever asked, and the remaining budget is below its cost.
        """
        fit_key, rank_key, model_key, spare_key = key.split(4)
        fidelities = self._fidelities(history)
        if not has_data(history):
            return random_query(history, pending, fidelities[0], key)
        if self.reserve_last and history.is_last_target_query:  # not in the paper
            return self._most_promising(history, pending, model_key, spare_key)

        # line 1, and in later steps line 6: learn the stack, eq. (4) joint-prob, on the data
        with stage("fit"):
            posterior = self._fit(history, self.steady or fit_key)
            posterior = condition_on_unseen(posterior, history, pending)  # queries still running; not in the paper
        if self.on_tables is not None and history.space.table is not None and not history.constraints:
            best = first_new(self.on_tables.rank(posterior, history, fidelities, rank_key), history, pending, spare_key)
            return replace(best, worth=None if best.worth is None else math.exp(best.worth))  # it is a logarithm there
        star_key, search_key = rank_key.split(2)
        # line 3: F*, maxima of f_M sampled from the posterior of the weights
        f_star = self.acquisition.sample_f_star(posterior, history, star_key)
        if isinstance(posterior, RunPosterior) and self.acquisition.is_settled(posterior, f_star, history):
            # not in the paper: only digits are left to gain here. Gain them, and look elsewhere, in turn
            if len(history.trials) % 2 and len(history.ladder) - 1 in fidelities:
                return self._most_promising(history, pending, model_key, spare_key)
            f_star = self.acquisition.elsewhere(posterior, f_star, history)
        # line 4: (x_t, m_t) = argmax MutualInfo(x, m, cost_m, F*, D, M), the gain per cost of eq. (5) ac (Algorithm 2)
        within = self._without_reserve(history)
        ranked = self.acquisition.maximise(posterior, f_star, within, fidelities, search_key)
        return first_new(ranked, within, pending, spare_key)

    @jax_session()
    def model(self, history: History, key: Key) -> PosteriorModel:
        """The surrogate fitted to the history.

        Raises:
            NoDataError: if nothing has been observed yet.
        """
        return fitted_model(self._fit, self.steady, history, key)

    def _fit(self, history: History, key: Key) -> Posterior | RunPosterior:
        """What is known of a run: its value, and, not in the paper, the outcomes that have limits, and success."""
        return (
            self.surrogate.fit(history.observations, key) if self.value_only else fit_runs(self.surrogate, history, key)
        )

    def _fidelities(self, history: History) -> Sequence[int]:
        """The fidelities to consider; those that leave enough for the last target query, if it is reserved."""
        if self.target_only:
            return (require_target(history),)
        return (history.unreserved if self.reserve_last else ()) or history.affordable

    def _without_reserve(self, history: History) -> History:
        """The history with the budget that is left for now, where costs depend on the design."""
        if not self.reserve_last or not history.costs.depend_on_design or not history.unreserved:
            return history
        return replace(history, remaining=history.remaining - history.target_cost)

    def _most_promising(self, history: History, pending: Sequence[Query], model_key: Key, spare_key: Key) -> Query:
        """The new design at the target that is best by its mean: what a last query tells cannot be used later."""
        with stage("search"):
            designs = self.model(history, model_key).promising()
        ranked = [Candidate(x, len(history.ladder) - 1, 0.0) for x in designs]
        return replace(first_new(ranked, history, pending, spare_key), worth=None)


def dnn_mfbo() -> DnnMfbo:
    """The default: closed-form last layers, random-feature networks, gain about the observation."""
    designs = Designs(pool=256, local=64, starts=5)
    acquisition = EntropySearch(joint_gain, draws=5, designs=designs, together=True, requires=JointlyGaussian)
    # to find the best of many items, a part of whose value no descriptor explains, improvement is worth more than
    # information about how good the best one is (docs/catalogues.md)
    tables = AugmentedImprovementSearch(designs, followed=FOLLOWED)
    return DnnMfbo(Warped(ClosedFormStack()), acquisition, reserve_last=True, steady=Key((0,)), on_tables=tables)


def dnn_mfbo_paper(
    architecture: StackArchitecture | Mapping[str, Any] | str | None = None, initial: Mapping[str, int] | None = None
) -> DnnMfbo | SearchedStrategy:
    """The paper to the letter: variational learning, gain about the noise-free value, random starts.

    Args:
        architecture: the networks, also as a mapping of the fields; "search" has SMAC3 find them on the study's initial
            data, as in the paper (extra `tune`), "quick" takes the best of a few; None is the architecture of the
            authors' program.
        initial: for a search, the sizes of the initial design, as passed to `create_study`.

    Raises:
        UnknownNameError: if the architecture is another word.
        SettingError: if SMAC3 is needed and not installed.
    """
    if isinstance(architecture, Mapping):
        return _paper(StackArchitecture.from_mapping(architecture))
    if not isinstance(architecture, str):
        return _paper(architecture)
    if architecture == "search":
        from fidelium.tuning.search import SmacSearch

        return SearchedStrategy(SmacSearch(), _paper, initial)
    if architecture == "quick":
        from fidelium.tuning.search import QuickChoice

        return SearchedStrategy(QuickChoice(), _paper, initial)
    raise UnknownNameError(f"architecture must be 'search', 'quick' or a StackArchitecture, got {architecture!r}")


def _paper(architecture: StackArchitecture | None) -> DnnMfbo:
    from fidelium.surrogates.stacked_dnn.variational import VariationalStack  # and with it optax, which only this needs

    designs = Designs(pool=10, local=0, starts=10)
    acquisition = EntropySearch(paper_gain, draws=10, draw_starts=10, designs=designs, raise_to_incumbent=False)
    stack = VariationalStack() if architecture is None else VariationalStack.of(architecture)
    return DnnMfbo(stack, acquisition, value_only=True)
