"""The lightest plate: its frequency against that of `plate`, and the optimality of the stored design."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fidelium import problems
from fidelium.problems.fem.plate import FINE, frequency, plate_coarse, plate_fine
from fidelium.problems.fem.plate_mass import plate_mass_coarse, plate_mass_fine, price
from fidelium.problems.fem.program import run_program

MATERIAL = {"youngs_modulus": 200e9, "poissons_ratio": 0.3, "density": 8000.0}
BEST = problems.get("plate-mass").optimisers[0]


def test_with_thickness_one_it_is_the_plate() -> None:
    coarse, fine = plate_mass_coarse(thickness=1.0, **MATERIAL), plate_mass_fine(thickness=1.0, **MATERIAL)
    assert coarse["frequency"] == plate_coarse(**MATERIAL)
    assert fine["frequency"] == plate_fine(**MATERIAL)
    assert coarse["value"] == fine["value"] == pytest.approx(800.0)


def test_twice_as_large_in_all_directions_is_half_the_frequency() -> None:
    """A thin plate has a frequency proportional to its thickness; a thick one less, because of its shear."""
    thin, thick = (frequency(replace(FINE, thickness=t), 2e11, 0.3, 8e3) for t in (0.5, 1.0))
    assert 1.85 < thick / thin < 2.0


def test_the_stored_design_satisfies_the_conditions_of_an_optimum() -> None:
    """The gradient of the mass is a positive combination of those of the active constraints (Karush, Kuhn, Tucker)."""
    names = ("thickness", "youngs_modulus", "density")
    rows = []
    for name in names:
        step = 1e-4 * BEST[name]
        ahead, behind = (plate_mass_fine(**{**BEST, name: BEST[name] + side * step}) for side in (1, -1))
        rows.append([(ahead[key] - behind[key]) / 2e-4 for key in ("value", "frequency", "price")])
    mass, higher, dearer = np.array(rows).T
    multipliers, residual, _, _ = np.linalg.lstsq(np.column_stack([higher, -dearer]), mass, rcond=None)
    assert np.all(multipliers > 0)
    assert residual[0] < (1e-3 * np.linalg.norm(mass)) ** 2
    softer = plate_mass_fine(**{**BEST, "poissons_ratio": 0.485})
    assert softer["frequency"] < 60  # so the largest ratio is the best one


def test_the_price_rises_with_stiffness_and_lightness() -> None:
    assert price(1.0, 2e11, 5e3) == pytest.approx(300)
    assert price(1.0, 4e11, 5e3) == pytest.approx(600)
    assert price(0.5, 2e11, 2.5e3) == pytest.approx(300)


def test_the_program_writes_outcomes_beside_the_value(tmp_path: Path) -> None:
    query, result = tmp_path / "query.json", tmp_path / "result.json"
    query.write_text(f'{{"params": {{"thickness": 1, {str(MATERIAL)[1:-1]}}}, "fidelity": "coarse"}}'.replace("'", '"'))
    assert run_program(problems.get("plate-mass"), [str(query), str(result)]) == 0
    written = result.read_text()
    assert '"value": 800.0' in written
    assert '"frequency": 44.93' in written
