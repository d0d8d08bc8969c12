"""`smac`: SMAC's facade for black boxes, a Gaussian process with expected improvement (Lindauer et al. 2022).

Default settings, but without its initial design: all peers start from the same observations. Only the target.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import ConfigSpace
from smac import BlackBoxFacade, Scenario
from smac.main.exceptions import ConfigurationSpaceExhaustedException
from smac.runhistory.dataclasses import TrialInfo, TrialValue

from fidelium.errors import SettingError
from fidelium.experiments.peers.adapters import quiet, target_values, to_params
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.space import Categorical, Integer, Parameter, Real
from fidelium.strategies.initial_design import RandomSearch
from fidelium.timing import stage
from fidelium.tuning.search import steady_hashes


@dataclass(frozen=True)
class BlackBox:
    """`BlackBoxFacade`, rebuilt from the history at each step; its model is not used for predictions."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """SMAC's suggestion given the target's observations."""
        space = ConfigSpace.ConfigurationSpace()
        space.add([_hyperparameter(name, each) for name, each in history.space.parameters.items()])
        with TemporaryDirectory() as folder, quiet("smac"), steady_hashes(), stage("search"):  # with the fit
            facade = _facade(space, Path(folder), key)
            for values, y in target_values(history):
                trial = TrialInfo(ConfigSpace.Configuration(space, values=values), seed=0)
                facade.tell(trial, TrialValue(cost=-y), save=False)  # SMAC minimises
            try:
                asked = dict(facade.ask().config)
            except ConfigurationSpaceExhaustedException:  # every design of a finite space was observed
                return RandomSearch().propose(history, pending, key)
        return Query(to_params(history.space, asked), history.affordable[-1])


def _facade(space: ConfigSpace.ConfigurationSpace, folder: Path, key: Key) -> BlackBoxFacade:
    scenario = Scenario(space, deterministic=True, seed=key.word(), output_directory=folder)
    none = BlackBoxFacade.get_initial_design(scenario, n_configs=0)
    return BlackBoxFacade(scenario, initial_design=none, logging_level=False)  # False: leave logging unchanged


def _hyperparameter(name: str, parameter: Parameter) -> ConfigSpace.hyperparameters.Hyperparameter:
    match parameter:
        case Real(low, high, log):
            return ConfigSpace.Float(name, (low, high), log=log)
        case Integer(low, high, log):
            return ConfigSpace.Integer(name, (low, high), log=log)
        case Categorical(choices):
            return ConfigSpace.Categorical(name, range(len(choices)))
    raise SettingError(f"smac supports Real, Integer and Categorical, got {parameter!r}")
