"""The axis of a catalogue in the slices of a model."""

import numpy as np

import fidelium as fd
from fidelium.plots.slices import _grid, _position, _slice, _x_axis

CATALOGUE = fd.Catalogue({f"i{k}": {"d": float(value)} for k, value in enumerate((5, 1, 4, 2, 3, 4))}, log=[])


def test_items_are_in_the_order_of_their_first_column_each_at_its_own_place() -> None:
    assert [_position(CATALOGUE, item) for item in CATALOGUE.choices] in (
        [5.0, 0.0, 3.0, 1.0, 2.0, 4.0],
        [5.0, 0.0, 4.0, 1.0, 2.0, 3.0],  # i2 and i5 have the same descriptors
    )
    shown = _grid(CATALOGUE, 6)
    assert [_position(CATALOGUE, item) for item in shown] == list(range(6))
    assert len(_grid(CATALOGUE, 3)) == 3
    axis = _x_axis(CATALOGUE, "item", titled=True)
    assert [_position(CATALOGUE, item) for item in axis["ticktext"]] == axis["tickvals"] == [0, 2, 3, 5]


def test_a_slice_goes_through_all_items() -> None:
    space = fd.SearchSpace({"item": CATALOGUE, "x": fd.Real(0, 1)})
    study = fd.create_study(space, [fd.Fidelity("low", cost=1)], direction="maximize", seed=0, initial={})
    for k, item in enumerate(CATALOGUE.choices):
        study.add_observation({"item": item, "x": 0.1 * k}, "low", float(k))
    found = _slice(study, {"item": "i3", "x": 0.3}, "item", "low", None, 20)
    assert found.x.tolist() == list(range(6))
    assert np.all(np.isfinite(found.mean))
