"""`optuna-tpe`: Optuna's tree-structured Parzen estimators (Watanabe 2023), default settings; only the target."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from fidelium.errors import SettingError
from fidelium.experiments.peers.adapters import quiet, target_values, to_params
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.space import Categorical, Integer, Parameter, Real
from fidelium.timing import stage


@dataclass(frozen=True)
class ParzenEstimators:
    """`TPESampler` with a study rebuilt from the history at each step; it has no model to predict with."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """Optuna's suggestion given the target's observations; its first ten designs are random."""
        distributions = {name: _distribution(each) for name, each in history.space.parameters.items()}
        with quiet("optuna"), stage("search"):
            study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=key.word()))
            for values, y in target_values(history):
                study.add_trial(optuna.create_trial(params=values, distributions=distributions, value=y))
            suggested = study.ask(distributions).params
        return Query(to_params(history.space, suggested), history.affordable[-1])


def _distribution(parameter: Parameter) -> BaseDistribution:
    match parameter:
        case Real(low, high, log):
            return FloatDistribution(low, high, log=log)
        case Integer(low, high, log):
            return IntDistribution(low, high, log=log)
        case Categorical(choices):
            return CategoricalDistribution(range(len(choices)))
    raise SettingError(f"optuna-tpe supports Real, Integer and Categorical, got {parameter!r}")
