"""Whatever a simulator, `post.py` or an objective gives: a measurement, or a failed trial with a reason."""

from __future__ import annotations

import asyncio
import json
import math
import os
import pickle
import signal
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fidelium as fd
from fidelium.errors import EvaluationError, SetupError, UnreadableResultError
from fidelium.execution.base import FunctionEvaluator, Measurement, answer, parse_number
from fidelium.execution.command import Command
from fidelium.execution.failures import classified, read_result
from fidelium.execution.invocation import ExitStatus, Invocation, Step
from fidelium.execution.program import ExternalProgram
from fidelium.execution.python_function import PythonFunction
from fidelium.execution.reasons import NO_REASON
from fidelium.execution.result_rules import ResultFile
from fidelium.execution.run_folder import RunRequest
from fidelium.fidelity import Fidelity
from fidelium.history import Trial, TrialState
from fidelium.numbers import parse_decimal

TRIAL = Trial(7, {"x": 0.5}, Fidelity("fine", cost=10))


def new_study():
    space = fd.SearchSpace({"x": fd.Real(0, 1)})
    return fd.create_study(space, [fd.Fidelity("fine", cost=1)], direction="minimize", strategy="random", initial={})


STUDY = new_study()


def told(measure):
    """The trial that a study records for a measurement, as the runner does it."""
    trial = STUDY.ask()
    try:
        measured = measure()
    except EvaluationError as error:
        return STUDY.tell(trial, failed=str(error))
    return STUDY.tell(trial, measured.value, measured_cost=measured.cost)


def outcome_of(content: bytes, rule=None):
    """What becomes of a run that exits with 0 and leaves this result file."""
    with tempfile.TemporaryDirectory() as name:
        folder, status = Path(name), ExitStatus(0, 0.1)
        (folder / "result.json").write_bytes(content)

        def measure():
            try:
                return read_result(rule or ResultFile(), status, Invocation([Step(["sim"])], folder, {}))
            except EvaluationError as error:
                raise classified(error, RunRequest.of(TRIAL, 0), folder, status) from None

        return told(measure)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -(10**5000 // 7**900), 0, -1, 1]),
    st.floats(),
    st.text(),
    st.sampled_from(["", " ", "\ud800", "\0", "1_000", "１２", "nan", "1.5D+03", "x" * 50_000]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
RESULTS = st.dictionaries(st.sampled_from(["value", "cost", "failed", "more"]), VALUES) | VALUES


def as_json(value) -> bytes:
    return json.dumps(value).encode()


@settings(max_examples=300)
@given(RESULTS)
@example({"value": 1, "cost": -1})
@example({"value": 1, "cost": math.nan})
@example({"value": 1, "cost": math.inf})
@example({"value": 1, "cost": True})
@example({"value": 1, "cost": 10**400})
@example({"value": 10**400})
@example({"failed": ""})
@example({"failed": "\ud800"})
@example({"failed": [[]]})
@example({"failed": "x" * 200_000})
def test_any_json_becomes_a_done_or_a_failed_trial(result):
    ended = outcome_of(as_json(result))
    assert ended.state in (TrialState.DONE, TrialState.FAILED)
    assert (ended.state is TrialState.FAILED) == bool(ended.reason and ended.reason.strip())


@settings(max_examples=200)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode(errors="surrogatepass")))
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b'{"value": ' + b"9" * 6000 + b"}")
@example(b"\xff\xfe\x00")
def test_any_bytes_become_a_done_or_a_failed_trial(content):
    assert outcome_of(content).state in (TrialState.DONE, TrialState.FAILED)


@pytest.mark.parametrize(
    ("result", "state", "reason"),
    [
        ({"value": 1, "failed": None}, TrialState.DONE, None),
        ({"value": 1, "failed": False}, TrialState.DONE, None),
        ({"value": 1, "failed": 0}, TrialState.DONE, None),
        ({"value": 1, "failed": ""}, TrialState.FAILED, NO_REASON),
        ({"value": 1, "failed": True}, TrialState.FAILED, NO_REASON),
        ({"failed": " \n"}, TrialState.FAILED, NO_REASON),
        ({"failed": 3}, TrialState.FAILED, "3"),
        ({"failed": ["buckled", 2]}, TrialState.FAILED, "['buckled', 2]"),
        ({"failed": "buckled"}, TrialState.FAILED, "buckled"),
        ({"failed": None}, TrialState.FAILED, "result.json must contain {\"value\": number}, got {'failed': None}"),
        ({"value": 1, "cost": -1}, TrialState.FAILED, "the cost is -1.0, not a finite number >= 0"),
        ({"value": "1_000"}, TrialState.FAILED, "value is '1_000', not a number"),
        ({"value": "１２"}, TrialState.FAILED, "value is '１２', not a number"),
        ({"value": " 1.5D+03\n"}, TrialState.DONE, None),
    ],
)
def test_what_a_result_file_says(result, state, reason):
    ended = outcome_of(as_json(result))
    assert (ended.state, ended.reason) == (state, reason)


@pytest.mark.parametrize(
    "text", ["1_000", "１２", "infinity", "nan", "NaN", "inf", "", ".", "1e", "0x10", "1 2", "\u20031", "1,5", "5-102"]
)
def test_only_decimal_numbers_are_numbers(text):
    assert parse_decimal(text) is None


@pytest.mark.parametrize(
    ("text", "number"), [(" 1.5\r\n", 1.5), ("1.5D+03", 1500.0), (".5d1", 5.0), ("-0.25-102", -2.5e-103), ("7.", 7.0)]
)
def test_numbers_of_fortran_are_numbers(text, number):
    assert parse_decimal(text) == parse_number("x", text) == number


@pytest.mark.parametrize(
    ("value", "cost"), [(math.nan, None), (math.inf, None), (10**400, None), (1, -1e-300), (1, math.inf), (1, math.nan)]
)
def test_a_measurement_is_finite(value, cost):
    with pytest.raises(EvaluationError, match="not a finite number"):
        Measurement(value, cost)


class Unshowable:
    """Raises whenever anything is asked of it."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __float__(self) -> float:
        raise KeyError("no float")


class UnshowableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no str")


def returns(value):
    return lambda *_: value


def raises(error):
    def call(*_):
        raise error

    return call


OUTCOMES = st.one_of(
    RESULTS.map(returns),
    st.tuples(VALUES, VALUES).map(returns),
    st.sampled_from([Unshowable(), object(), b"1", 1j, [Unshowable()]]).map(returns),
    st.sampled_from([UnshowableError(), Exception("\ud800"), Exception(""), OSError("\udcff")]).map(raises),
    st.sampled_from([SystemExit(0), SystemExit("why"), GeneratorExit(), asyncio.CancelledError()]).map(raises),
)


@settings(max_examples=200)
@given(OUTCOMES)
def test_anything_that_an_objective_returns_or_raises_is_recorded(objective):
    ended = told(lambda: FunctionEvaluator(objective)(TRIAL))
    assert ended.state in (TrialState.DONE, TrialState.FAILED)


@settings(max_examples=200)
@given(OUTCOMES)
def test_anything_that_post_py_returns_or_raises_is_recorded(function):
    class Rule(PythonFunction):
        def _module(self):
            class Module:
                post = staticmethod(function)

            return Module

    ended = outcome_of(b"", Rule("post.py", "post"))
    assert ended.state in (TrialState.DONE, TrialState.FAILED)


def test_an_objective_may_report_its_cost():
    study = new_study()
    study.optimize(lambda params, _: {"value": params["x"], "cost": 2.5}, budget=2, progress=False)
    assert [trial.measured_cost for trial in study.trials] == [2.5, 2.5]
    assert study.spent == 2


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"value": 1, "measured_cost": 2}, "'measured_cost' is reserved, so an outcome cannot have this name"),
        ({"cost": 1}, r"the objective must return .*, got {'cost': 1}"),
        ({"value": 1, "cost": -1}, "the cost is -1"),
        ({"failed": "no mesh"}, "no mesh"),
        (None, "the return value of the objective is None, not a number"),
    ],
)
def test_what_an_objective_may_return(result, reason):
    with pytest.raises(EvaluationError, match=reason):
        FunctionEvaluator(returns(result))(TRIAL)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_objective_that_exits_is_a_failed_trial(workers):
    def objective(params, fidelity):
        raise SystemExit(0)

    study = new_study()
    with pytest.raises(fd.FideliumError, match=r"failed [34] times in a row"):
        study.optimize(objective, budget=9, workers=workers, max_failures=3, progress=False)
    assert {trial.state for trial in study.trials} == {TrialState.FAILED}
    assert "SystemExit: 0" in (study.trials[0].reason or "")


def test_a_lone_surrogate_in_a_reason_is_one_failed_trial(tmp_path):
    """It could not be written to outcome.json, which counted as a vanished worker: eleven runs of the simulator."""
    study = new_study()
    line = """echo '{"failed": "bad \\ud800"}' > result.json; echo run >> ../../runs.txt"""
    study.optimize(ExternalProgram({"fine": Command((line,), shell=True)}, tmp_path / "runs", tmp_path), budget=1)
    assert [(trial.state, trial.reason, trial.attempt) for trial in study.trials] == [
        (TrialState.FAILED, "bad \\ud800", 1)
    ]
    assert (tmp_path / "runs.txt").read_text() == "run\n"
    assert json.loads((tmp_path / "runs/00000-fine/outcome.json").read_text())["failed"] == "bad \\ud800"


POST = """
import os, sys
def leave(folder): sys.exit(0)
def interrupt(folder): raise KeyboardInterrupt
def surrogate(folder): raise FileNotFoundError("out\\udcff.txt")
def both(folder): return {"value": 2, "cost": 3}
def failed(folder): return {"failed": "no mesh"}
def no_argument(): return 1
number = 3
"""


@pytest.fixture
def post(tmp_path):
    (tmp_path / "post.py").write_text(POST)
    return lambda function: PythonFunction(str(tmp_path / "post.py"), function)


def test_a_function_that_exits_fails_with_a_reason(post, tmp_path):
    with pytest.raises(EvaluationError, match=r"post\.py:leave failed: SystemExit: 0 \(post\.py, line 3\)"):
        post("leave").read(tmp_path)
    with pytest.raises(EvaluationError, match="no mesh"):
        post("failed").read(tmp_path)
    assert post("both").read(tmp_path) == Measurement(2, 3)


def test_a_function_that_raises_keyboard_interrupt_is_told_from_ctrl_c(post, tmp_path):
    reasons = []

    def read():
        try:
            post("interrupt").read(tmp_path)
        except BaseException as error:  # noqa: BLE001
            reasons.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    before = signal.signal(signal.SIGINT, lambda *_: None)  # a handler that raises nothing, as while a study runs
    try:
        read()
    finally:
        signal.signal(signal.SIGINT, before)
    assert [type(error) for error in reasons] == [EvaluationError, EvaluationError]


def test_ctrl_c_during_an_objective_is_not_a_failed_trial():
    def objective(params, fidelity):
        os.kill(os.getpid(), signal.SIGINT)
        signal.sigtimedwait([], 0.01)  # the handler runs here at the latest
        return 1.0

    def handler(*_):
        raise KeyboardInterrupt

    for installed in (signal.default_int_handler, handler):
        before = signal.signal(signal.SIGINT, installed)
        try:
            with pytest.raises(KeyboardInterrupt):
                FunctionEvaluator(objective)(TRIAL)
        finally:
            signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("source", "function", "message"),
    [
        ("", "gone", "there is no function 'gone' in"),
        ("", "no_argument", "must be a function of one argument, the trial's folder: too many positional"),
        ("", "number", "must be a function of one argument, .*: 3 is not a callable object"),
        ("import sys\nsys.exit(0)", "leave", r"cannot load .*: SystemExit: 0 \(post\.py, line 2\)"),
        ("1 / 0", "leave", "cannot load .*: ZeroDivisionError"),
        ("(", "leave", "cannot load .*: SyntaxError"),
        ("import no_such_module", "leave", "cannot load .*: ModuleNotFoundError"),
    ],
)
def test_a_function_that_cannot_be_called_is_a_fault_of_the_set_up(post, tmp_path, source, function, message):
    rule = post(function)
    if source:
        (tmp_path / "post.py").write_text(source)
    with pytest.raises(SetupError, match=f"(?s){message}"):
        rule.read(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POST, r"no function 'value' in post\.py; it has both, failed, interrupt, leave, no_argument, number, os, "),
        ("def valve(folder): return 1", r"no function 'value' in post\.py; did you mean valve\?"),
        ("def outer():\n  def value(folder): return 1", "no function 'value' in post.py; it has outer"),
        ("(", r"post\.py is not valid Python: .*line 1"),
        ("\0", r"post\.py is not valid Python"),
    ],
)
def test_a_function_that_is_not_there_is_found_without_running_the_file(tmp_path, text, message):
    (tmp_path / "post.py").write_text(text)
    with pytest.raises(fd.FideliumError, match=message):
        PythonFunction(str(tmp_path / "post.py"), "value").check()


@pytest.mark.parametrize(
    "text",
    [
        "def value(folder): return 1",
        "value = lambda folder: 1",
        "import os.path as value",
        "from os.path import getsize as value",
        "from anything import *",
        "try:\n  import x\nexcept ImportError:\n  def value(folder): return 1",
        "if 1:\n  pass\nelse:\n  class value: pass",
        "for value in []: pass",
        "def __getattr__(name): ...",
        "match 1:\n  case 1:\n    def value(folder): return 1",
    ],
)
def test_every_way_to_define_a_function_is_accepted(tmp_path, text):
    (tmp_path / "post.py").write_text(text)
    PythonFunction(str(tmp_path / "post.py"), "value").check()


def test_a_module_is_looked_for():
    PythonFunction("os.path", "getsize").check()
    with pytest.raises(fd.FideliumError, match=r"there is no module 'no_such\.module'"):
        PythonFunction("no_such.module", "mass").check()


def test_an_executor_gets_failures_as_values_and_whatever_else_is_raised():
    lost = UnreadableResultError("no result.json")
    lost.folder = "runs/00007-fine"

    def evaluate(trial: Trial) -> Measurement:
        if trial.number == 7:
            raise lost
        raise SetupError("the disk is full") if trial.number == 8 else MemoryError

    sent = pickle.loads(pickle.dumps(answer(evaluate, TRIAL)))
    assert (type(sent), str(sent), sent.folder) == (UnreadableResultError, "no result.json", "runs/00007-fine")
    assert isinstance(answer(evaluate, replace(TRIAL, number=8)), SetupError)
    with pytest.raises(MemoryError):  # the process is unwell: that is not the trial's failure
        answer(evaluate, replace(TRIAL, number=9))
