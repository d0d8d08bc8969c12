"""Engineering problems solved by finite elements: vibrating plates, a thermal conductor, a sandwich panel.

Each is an ordinary problem, and also a program: `python -m fidelium.problems.fem.plate query.json result.json`.
They need scikit-fem, the extra `fem`, which is imported on first use.
"""

from importlib.util import find_spec

from fidelium.errors import SettingError

if find_spec("skfem") is None:
    raise SettingError(
        "the finite-element problems need scikit-fem, which is not installed: pip install 'fidelium[fem]'"
    )
