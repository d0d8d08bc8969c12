"""Set up before fidelium or JAX is imported: one thread per worker, a kept cache, shapes checked everywhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

# Two pytest workers share two cores: thread pools of their own would only get in each other's way.
# (XLA_FLAGS=--xla_cpu_multi_thread_eigen=false no longer does this: jaxlib 0.10 goes by PJRT_NPROC.)
os.environ["PJRT_NPROC"] = "1"
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
# Three quarters of the tests' time is compiling: XLA's older way to emit code takes half of that. A version that does
# not know the flag would end the process.
if version("jaxlib").startswith("0.10."):
    os.environ["XLA_FLAGS"] = "--xla_cpu_use_fusion_emitters=false"
# No silent change of shape or type: what is broadcast or converted says so, also in the processes that tests start.
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
# Compiled programs are kept between runs, but apart from the user's own cache.
os.environ["FIDELIUM_CACHE_DIR"] = str(Path(__file__).parent.parent / ".pytest_cache" / "fidelium")

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

from tests.postgres import Server, postgres_server

# Shapes are types: every annotated function of the numerical packages is checked by beartype in every test.
install_import_hook(
    ["fidelium.numerics", "fidelium.surrogates", "fidelium.acquisition", "fidelium.strategies"], "beartype.beartype"
)

# A run of the tests is repeatable, and a busy machine is no failure.
settings.register_profile("fidelium", deadline=None, derandomize=True, database=None)
settings.load_profile("fidelium")

# Tests in these folders call the numerics, and so do it as fidelium does. All others are as a host program, in single
# precision: they would notice a way into the numerics that forgets it.
INSIDE = frozenset({"acquisition", "numerics", "strategies", "surrogates", "tuning"})

if TYPE_CHECKING:
    from fidelium.surrogates.stacked_dnn.variational import StackPosterior


def session_of(node: pytest.Item | pytest.Collector) -> AbstractContextManager[None]:
    if INSIDE.isdisjoint(node.path.relative_to(Path(__file__).parent).parts):
        return nullcontext()
    from fidelium.numerics.backend import jax_session

    return jax_session()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    with session_of(collector):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with session_of(item):
        return (yield)


class Traces:
    """What JAX traces or compiles while it is switched on."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.on = False

    def __call__(self, event: str, duration_secs: float, **details: str | int) -> None:
        if self.on and event.startswith("/jax/core/compile"):
            self.seen.append(f"{event} {details}")


MOST_MAPS = 20_000
"""Memory maps of a process from which JAX's compiled functions are dropped: Linux allows 65,530, and a process that
reaches them crashes."""


@pytest.fixture(autouse=True, scope="module")
def few_memory_maps() -> Iterator[None]:
    """Drops what JAX has compiled after a file, if it is very much."""
    yield
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists() and len(maps.read_bytes().splitlines()) > MOST_MAPS:
        import jax

        jax.clear_caches()


@pytest.fixture
def traces() -> Iterator[Traces]:
    """Watches what JAX traces, once its `on` is set."""
    import jax.monitoring

    watch = Traces()
    jax.monitoring.register_event_duration_secs_listener(watch)
    yield watch
    watch.on = False


@pytest.fixture(scope="session")
def random_stack() -> Callable[..., StackPosterior]:
    """Makes posteriors of a stack whose every number is drawn: smooth, non-linear, with uncertain weights."""
    import equinox as eqx
    import jax.numpy as jnp
    import numpy as np
    from jaxtyping import Array, Float

    from fidelium.numerics.scaling import Scale
    from fidelium.surrogates.stacked_dnn.variational import NetworkLayer, StackPosterior

    class Waves(eqx.Module):
        """phi = [sin(A x), cos(B x + b f), f, 1], the lowest layer without the two of f."""

        of_x_directions: Float[Array, "k d"]
        of_both_directions: Float[Array, "j d"]
        below_directions: Float[Array, " j"]

        def of_x(self, x: Float[Array, " d"]) -> Float[Array, " fx"]:
            return jnp.sin(self.of_x_directions @ x)

        def of_both(self, x: Float[Array, " d"], below: Float[Array, ""] | None) -> Float[Array, " fb"]:
            if below is None:
                return jnp.ones(1)
            waves = jnp.cos(self.of_both_directions @ x + self.below_directions * below)
            return jnp.concatenate([waves, jnp.stack([below, jnp.ones(())])])

    def make(fidelities: int, dimension: int = 2, nodes: int = 5, seed: int = 0) -> StackPosterior:
        generator = np.random.default_rng(seed)

        def normal(*shape: int, scale: float = 1.0) -> Array:
            return jnp.asarray(generator.normal(scale=scale, size=shape))

        layers = []
        for m in range(fidelities):
            features = Waves(normal(8, dimension, scale=3.0), normal(5, dimension), normal(5))
            count = 8 + (7 if m else 1)
            root = jnp.tril(normal(count, count, scale=0.05)) + 0.15 * jnp.eye(count)
            noise_var = jnp.asarray(10.0 ** generator.uniform(-4, -1))
            weight_mean = normal(count, scale=0.3)
            if m:
                weight_mean = weight_mean.at[-2].add(0.8)  # of f: every layer follows the one below
            layers.append(NetworkLayer(features, weight_mean, root, noise_var))
        return StackPosterior.of(layers, [Scale()] * fidelities, nodes)

    return make


@pytest.fixture(scope="session")
def database_server() -> Iterator[Server]:
    """A PostgreSQL server that lives as long as the tests; if it does not start, the tests fail."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres(database_server: Server) -> str:
    """The URL of the server."""
    return database_server.url


@pytest.fixture(scope="session")
def new_database(database_server: Server) -> Callable[[], str]:
    """Makes an empty place on the server, a schema of its own; its URL."""
    return database_server.new_database
