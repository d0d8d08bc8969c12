"""The mass of a helical spring, with a penalty: python spring.py query.json result.json"""

import json
import math
import sys

FORCE, SHEAR, STRENGTH, TRAVEL, DENSITY = 500.0, 8.0e10, 7.0e8, 0.02, 7850.0


def spring(wire: float, coil: float, turns: int, fidelity: str) -> float:
    """Kilograms; each percent of too much stress or too little travel counts as a percent more."""
    index = coil / wire
    wahl = 1.0 if fidelity == "handbook" else (4 * index - 1) / (4 * index - 4) + 0.615 / index
    stress = wahl * 8 * FORCE * coil / (math.pi * wire**3)
    travel = 8 * FORCE * coil**3 * turns / (SHEAR * wire**4)
    mass = DENSITY * math.pi**2 / 4 * wire**2 * coil * (turns + 2)
    return mass * (1 + max(stress / STRENGTH - 1, 0) + max(1 - travel / TRAVEL, 0)) ** 2


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        query = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump({"value": spring(fidelity=query["fidelity"], **query["params"])}, file)
