"""`import fidelium` is quick, loads nothing heavy, and offers every public name."""

import json
import subprocess
import sys

import pytest

import fidelium as fd

HEAVY = (
    "alembic",
    "equinox",
    "jax",
    "jinja2",
    "loky",
    "matplotlib",
    "optax",
    "pandas",
    "plotly",
    "rich",
    "scipy.optimize",
    "sqlalchemy",
    "typer",
)


def loaded_after(statements: str) -> dict[str, float | list[str]]:
    """The heavy modules loaded, and the CPU seconds used, by `statements` in a new interpreter."""
    program = (
        f"import json, sys, time\nstart = time.process_time()\n{statements}\n"
        "seconds = time.process_time() - start\n"
        f"print(json.dumps({{'heavy': [m for m in {HEAVY!r} if m in sys.modules], 'seconds': seconds}}))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    "statements",
    [
        "import fidelium",
        "import fidelium as fd; fd.SearchSpace({'x': fd.Real(0, 1)}); fd.Fidelity('low', cost=1)",
        "import fidelium as fd; fd.problems.get('branin').evaluate({'x1': 0, 'x2': 0}, 'low')",
        "import fidelium as fd; dir(fd); fd.__version__; fd.Trial; fd.TrialState; fd.FideliumError",
    ],
)
def test_light_use_loads_nothing_heavy(statements: str) -> None:
    result = loaded_after(statements)
    assert result["heavy"] == []


def test_import_takes_well_under_half_a_second() -> None:
    result = loaded_after("import fidelium")
    assert isinstance(result["seconds"], float)
    assert result["seconds"] < 0.25


@pytest.mark.parametrize("name", fd.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(fd, name) is not None
    assert name in dir(fd)


def test_public_names_have_one_home() -> None:
    assert set(fd.__all__) == {*fd._HOMES, "problems", "__version__"}


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'fidelium' has no attribute 'Quadratic'"):
        fd.Quadratic  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
