"""Peers from outside, without their libraries: the table, what is refused, and the arithmetic they share."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fidelium.cli import main
from fidelium.errors import SettingError, UnknownNameError
from fidelium.experiments import methods
from fidelium.experiments.peers import adapters
from fidelium.space import Categorical, Integer, Real, SearchSpace

ROOT = Path(__file__).parents[2]
LIBRARIES = {"botorch": "botorch", "egobox": "egobox", "optuna": "optuna", "smac": "smac"}
"""Package -> what pip calls it."""


@pytest.fixture
def no_extra(monkeypatch):
    monkeypatch.setattr(methods, "find_spec", lambda name: None)


# --- the table


@pytest.mark.parametrize("name", methods.peer_names())
def test_every_peer_is_a_class_that_proposes_in_a_module_of_the_package(name):
    module, peer, _ = methods._PEERS[name]
    spec = find_spec(module)  # found, not imported: its library may be missing
    assert spec is not None
    assert spec.origin is not None
    classes = [node for node in ast.parse(Path(spec.origin).read_text()).body if isinstance(node, ast.ClassDef)]
    (found,) = [node for node in classes if node.name == peer]
    functions = {node.name: node.args.args for node in found.body if isinstance(node, ast.FunctionDef)}
    assert [each.arg for each in functions["propose"]] == ["self", "history", "pending", "key"]


def test_the_extra_brings_every_library_and_the_page_describes_every_peer():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {package for _, _, package in methods._PEERS.values()} == set(LIBRARIES)
    assert all(any(line.startswith(library) for line in extras["peers"]) for library in LIBRARIES.values())
    page = (ROOT / "docs" / "peers.md").read_text()
    assert [name for name in methods.peer_names() if f"`{name}`" not in page] == []


def test_to_name_and_to_check_peers_imports_no_library():
    program = (
        "import sys\nfrom fidelium.experiments import methods\n"
        "methods.find_spec = lambda name: True\n"
        "for name in methods.peer_names(): methods.check_method(name)\n"
        f"print(sorted({ {*LIBRARIES, 'torch', 'sklearn', 'jax'}!r} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


# --- what is refused


@pytest.mark.parametrize("name", methods.peer_names())
def test_without_its_library_a_peer_is_refused_with_what_to_install(no_extra, name):
    needed = rf"'{name}' needs the package '{methods._PEERS[name][2]}', .* pip install 'fidelium\[peers\]'"
    with pytest.raises(SettingError, match=needed):
        methods.resolve_method(name)


def test_without_the_extra_the_command_line_says_so_in_one_line_and_runs_nothing(no_extra, capsys, tmp_path):
    with pytest.raises(SystemExit) as end:
        main(["bench", "regret", "--strategy", "random", "--strategy", "smac", "--out", str(tmp_path / "out")])
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("error: 'smac' needs the package 'smac'")
    assert not (tmp_path / "out").exists()


def test_an_unknown_name_is_refused_as_everywhere(no_extra):
    with pytest.raises(UnknownNameError, match="unknown strategy 'botorch-nope'"):
        methods.check_method("botorch-nope")


def test_our_own_strategies_need_no_extra(no_extra):
    assert methods.resolve_method("dnn-mfbo") == "dnn-mfbo"


# --- the arithmetic of BoTorch's peers


def test_gains_are_per_cost_and_an_estimated_gain_below_zero_is_no_reason_to_pay_more():
    assert adapters.per_cost(0.5, 10.0) == 0.05
    assert adapters.per_cost(-0.01, 1.0) > adapters.per_cost(-0.01, 100.0)


def test_values_are_standardised_even_when_there_is_no_spread():
    y = np.array([3.0, 5.0, 10.0])
    z = adapters.standardised(y, adapters.mean_and_spread(y))
    assert np.mean(z) == pytest.approx(0.0)
    assert np.var(z, ddof=1) == pytest.approx(1.0)
    assert adapters.mean_and_spread(np.array([4.0])) == (4.0, 1.0)
    assert adapters.mean_and_spread(np.array([4.0, 4.0])) == (4.0, 1.0)


def test_fidelities_become_a_last_column_that_grows_to_the_target():
    assert adapters.numbered(3) == (0.0, 1.0, 2.0)
    assert adapters.spaced(3) == (0.0, 0.5, 1.0)
    assert adapters.spaced(1) == (1.0,)
    np.testing.assert_array_equal(adapters.with_column(np.eye(2), 0.5), [[1, 0, 0.5], [0, 1, 0.5]])


# --- the parameters of other libraries

KINDS = SearchSpace(
    {
        "size": Real(0.1, 10, log=True),
        "cells": Integer(1, 1000, log=True),
        "steel": Categorical([True, 1, None, ("mild", 2)]),  # True and 1 are one and the same to a dictionary
    }
)


def test_values_lead_back_to_the_same_design():
    for unit_x in KINDS.sample(np.random.default_rng(0), 200):
        params = KINDS.decode(unit_x)
        values = adapters.to_values(KINDS, params)
        assert KINDS.parameters["steel"].encode(params["steel"])[values["steel"]] == 1.0
        again = adapters.to_params(KINDS, values)
        assert again == params
        assert type(again["steel"]) is type(params["steel"])


def test_values_just_outside_the_bounds_are_moved_inside():
    params = adapters.to_params(KINDS, {"size": 10.000000000000002, "cells": np.int64(7), "steel": np.int64(2)})
    assert params == {"size": 10.0, "cells": 7, "steel": None}
    assert KINDS.validate(params) == params


def test_a_library_is_quiet_inside_and_as_it_was_afterwards(caplog):
    logger = logging.getLogger("fidelium-test-peer.part")
    logging.getLogger("fidelium-test-peer").setLevel(logging.INFO)

    @adapters.quiet("fidelium-test-peer")
    def fail():
        logger.warning("inside")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    logger.warning("afterwards")
    assert caplog.messages == ["afterwards"]
    assert logging.getLogger("fidelium-test-peer").level == logging.INFO
