"""`import fidelium` loads nothing but itself, light use nothing heavy, and every public name is there."""

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


def heavy_after(statements: str) -> list[str]:
    """The heavy modules loaded by `statements` in a new interpreter."""
    program = f"import json, sys\n{statements}\nprint(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
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
    assert heavy_after(statements) == []


def test_the_package_alone_loads_one_module_beside_the_standard_library() -> None:
    program = (
        "import sys\nbefore = set(sys.modules)\nimport fidelium\n"
        "print([m for m in {*sys.modules} - before if m.partition('.')[0] not in sys.stdlib_module_names])"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout == b"['fidelium']\n"
    )


@pytest.mark.parametrize("name", fd.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(fd, name) is not None
    assert name in dir(fd)


def test_public_names_have_one_home() -> None:
    assert set(fd.__all__) == {*fd._HOMES, "problems", "__version__"}


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'fidelium' has no attribute 'Quadratic'"):
        fd.Quadratic  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
