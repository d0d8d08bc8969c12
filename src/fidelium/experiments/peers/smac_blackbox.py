"""`smac`: SMAC's facade for black boxes, a Gaussian process with expected improvement (Lindauer et al. 2022).

Its settings, but no initial design of its own: all peers start from the same observations. The target alone.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import ConfigSpace
from smac import BlackBoxFacade, Scenario
from smac.main.exceptions import ConfigurationSpaceExhaustedException
from smac.runhistory.dataclasses import TrialInfo, TrialValue

from fidelium.errors import SettingError
from fidelium.experiments.peers.shared import quiet, target_values, to_params
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.space import Categorical, Integer, Parameter, Real
from fidelium.strategies.initial_design import RandomSearch
from fidelium.timing import stage


@dataclass(frozen=True)
class BlackBox:
    """`BlackBoxFacade`, told the history anew at each step; its model is not shown."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """What SMAC asks after the target's observations."""
        space = ConfigSpace.ConfigurationSpace()
        space.add([_hyperparameter(name, each) for name, each in history.space.parameters.items()])
        with TemporaryDirectory() as folder, quiet("smac"), _steady_hashes(), stage("search"):  # with the fit
            facade = _facade(space, Path(folder), key)
            for values, y in target_values(history):
                told = TrialInfo(ConfigSpace.Configuration(space, values=values), seed=0)
                facade.tell(told, TrialValue(cost=-y), save=False)  # SMAC minimises
            try:
                asked = dict(facade.ask().config)
            except ConfigurationSpaceExhaustedException:  # every design of a finite space was observed
                return RandomSearch().propose(history, pending, key)
        return Query(to_params(history.space, asked), history.affordable[-1])


def _facade(space: ConfigSpace.ConfigurationSpace, folder: Path, key: Key) -> BlackBoxFacade:
    scenario = Scenario(space, deterministic=True, seed=key.word(), output_directory=folder)
    none = BlackBoxFacade.get_initial_design(scenario, n_configs=0)
    return BlackBoxFacade(scenario, initial_design=none, logging_level=False)  # False: the log's set-up is ours


@contextmanager
def _steady_hashes() -> Iterator[None]:
    """Give configurations the same hashes in every process.

    SMAC keeps the starts of its local searches in a set. Their hashes are those of texts, which Python salts in each
    process anew: the order of the starts would change, with it the random numbers that each gets, and so the query.
    """
    salted = ConfigSpace.Configuration.__hash__
    ConfigSpace.Configuration.__hash__ = lambda configuration: crc32(repr(configuration).encode())
    try:
        yield
    finally:
        ConfigSpace.Configuration.__hash__ = salted


def _hyperparameter(name: str, parameter: Parameter) -> ConfigSpace.hyperparameters.Hyperparameter:
    match parameter:
        case Real(low, high, log):
            return ConfigSpace.Float(name, (low, high), log=log)
        case Integer(low, high, log):
            return ConfigSpace.Integer(name, (low, high), log=log)
        case Categorical(choices):
            return ConfigSpace.Categorical(name, range(len(choices)))
    raise SettingError(f"smac knows Real, Integer and Categorical, got {parameter!r}")
