"""fidelium is a guest: the JAX of the program that uses it is as it was, whatever that program has set up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fidelium as fd

HOST = """
import json, os, sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_info

strategies, options = json.loads(sys.argv[1])
for name, value in options.items():
    jax.config.update(name, value)


def state():
    return {
        "dtype": str(jnp.ones(1).dtype),
        "config": {name: repr(value) for name, value in jax.config.values.items()},
        "blas": sorted(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"),
    }


def kept():
    return len(list(Path(os.environ["FIDELIUM_CACHE_DIR"]).glob("*-cache")))


before = state()
compiled = []
jax.monitoring.register_event_duration_secs_listener(lambda event, seconds, **_: compiled.append(event))

import fidelium as fd
import fidelium.strategies.dnn_mfbo, fidelium.strategies.recipes, fidelium.strategies.searched, fidelium.tuning.tune
from fidelium.randomness import Key
from fidelium.surrogates.gp.joint import GaussianProcess
from fidelium.testing.surrogates import SurrogateCase, it_has_all_capabilities

states, on_import = {"import": state()}, [event for event in compiled if "backend_compile" in event]


def objective(params, fidelity):
    assert str(jnp.ones(1).dtype) == before["dtype"]  # the user's own computations are the user's
    return (params["x"] - 0.3) ** 2


numbers = []
ladder = [fd.Fidelity("low", cost=1), fd.Fidelity("high", cost=4)]
for strategy in strategies:
    study = fd.create_study({"x": fd.Real(0, 1)}, ladder, direction="minimize", strategy=strategy, initial={})
    for x in (0.1, 0.6, 0.9):
        for level in ladder:
            study.add_observation({"x": x}, level.name, objective({"x": x}, level))
    numbers.append(study.ask().params["x"])
    states[f"ask {strategy}"] = state()
    numbers.append(study.recommend().params["x"])
    states[f"recommend {strategy}"] = state()
    mean, std = study.predict([{"x": 0.25}], fidelity="high")
    states[f"predict {strategy}"] = state()
    assert (mean.dtype, std.dtype) == (np.float64, np.float64)
    numbers += [*mean.tolist(), *std.tolist()]
best = fd.optimize(
    objective, {"x": fd.Real(0, 1)}, ladder, direction="minimize", budget=30, strategy="sf-ei", progress=False
).best
numbers.append(best.value)
states["optimize"] = state()
it_has_all_capabilities(SurrogateCase(GaussianProcess(), Key((0,))))
states["testing"] = state()
before_ours, _ = kept(), jax.jit(lambda x: jnp.sin(x) * os.getpid())(jnp.ones(3))
changed = {
    when: {name: (before[name], now[name]) for name in before if now[name] != before[name]}
    for when, now in states.items()
}
print(
    json.dumps(
        {
            "changed": {when: what for when, what in changed.items() if what},
            "compiled_on_import": on_import,
            "numbers": numbers,
            "ours": before_ours,
            "kept_for_the_host": kept() - before_ours,
        }
    )
)
"""


def run_host(*strategies: str, cache: Path | None = None, **options: Any) -> dict[str, Any]:
    """What a program sees that sets these options of JAX, and then uses fidelium."""
    arguments = [sys.executable, "-c", HOST, json.dumps([strategies, options])]
    environment = {**os.environ, **({} if cache is None else {"FIDELIUM_CACHE_DIR": str(cache)})}
    run = subprocess.run(arguments, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_the_host_is_as_before_and_the_results_do_not_depend_on_it():
    # the host keeps all that it compiles, had it a cache: ours must not become one
    single = run_host("dnn-mfbo", "sf-ei", jax_persistent_cache_min_compile_time_secs=0.0)
    double = run_host("dnn-mfbo", "sf-ei", jax_enable_x64=True)
    for seen in (single, double):
        assert seen["changed"] == {}
        assert seen["compiled_on_import"] == []
        assert seen["ours"] > 0
        assert seen["kept_for_the_host"] == 0
    assert single["numbers"] == pytest.approx(double["numbers"], rel=1e-9)


def test_a_host_with_a_cache_keeps_it(tmp_path):
    seen = run_host(
        "sf-ei",
        cache=tmp_path / "ours",
        jax_compilation_cache_dir=str(tmp_path / "theirs"),
        jax_persistent_cache_min_compile_time_secs=0.0,
    )
    assert seen["changed"] == {}
    assert seen["ours"] == 0
    assert any((tmp_path / "theirs").glob("*-cache"))


def asked(seed: int) -> list[float]:
    ladder = [fd.Fidelity("low", cost=1), fd.Fidelity("high", cost=4)]
    study = fd.create_study(
        {"x": fd.Real(0, 1)}, ladder, direction="maximize", strategy="sf-ei", seed=seed, initial={"low": 2, "high": 3}
    )
    for _ in range(9):
        trial = study.ask()
        study.tell(trial, -((trial.params["x"] - 0.3) ** 2))
    return [trial.params["x"] for trial in study.trials]


def test_threads_do_not_see_each_other():
    import jax
    import jax.numpy as jnp

    options = dict(jax.config.values)
    alone = [asked(seed) for seed in range(3)]
    ended, seen = threading.Event(), set()

    def host() -> None:
        while not ended.is_set():
            seen.add((str(jnp.ones(1).dtype), str(jax.jit(lambda x: x + 1.0)(jnp.arange(3.0)).dtype)))

    thread = threading.Thread(target=host)
    thread.start()
    try:
        with ThreadPoolExecutor(3) as pool:
            together = list(pool.map(asked, range(3)))
    finally:
        ended.set()
        thread.join()
    assert together == alone
    assert seen == {("float32", "float32")}
    assert dict(jax.config.values) == options
