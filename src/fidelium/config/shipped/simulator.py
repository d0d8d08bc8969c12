"""A small simulator: how heavy a sandwich beam is, and how much it bends. Replace it by your own program.

    python simulator.py query.json result.json

It knows nothing of fidelium: it reads a query, computes with a coarse or a fine mesh, and writes a result.
"""

import json
import sys

CORES = {"foam": (60.0, 2.0e7), "balsa": (150.0, 1.2e8), "honeycomb": (90.0, 6.0e7)}  # kg/m3, shear modulus in Pa
SPAN, LOAD = 2.0, 4000.0  # metres, newton per metre
LAYER, SKIN_MODULUS, SKIN_DENSITY = 0.0005, 6.0e10, 1800.0  # metres, Pa, kg/m3
CELLS = {"coarse": 2, "fine": 400}


def mass(height: float, layers: int, core: str) -> float:
    """Kilograms per square metre."""
    return 2 * layers * LAYER * SKIN_DENSITY + height * CORES[core][0]


def deflection(height: float, layers: int, core: str, cells: int) -> float:
    """The beam's largest deflection in metres: the virtual work of moment and shear, by the midpoint rule."""
    stiffness = SKIN_MODULUS * layers * LAYER * height**2 / 2
    shear = CORES[core][1] * height
    step = SPAN / 2 / cells
    total = 0.0
    for cell in range(cells):
        x = (cell + 0.5) * step
        total += step * (LOAD * x * (SPAN - x) / 2 * x / stiffness + LOAD * (SPAN / 2 - x) / shear)
    return total


def main(query_file: str, result_file: str) -> None:
    """Answer the query in one file with a result in another."""
    with open(query_file, encoding="utf-8") as file:
        query = json.load(file)
    params, cells = query["params"], CELLS[query["fidelity"]]
    result = {"value": mass(**params), "deflection": deflection(**params, cells=cells)}
    with open(result_file, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
