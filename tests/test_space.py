"""The search space: decode and encode are exact inverses, every value is valid, every bad input one clear sentence."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fidelium.errors import FideliumError, SpaceError
from fidelium.space import Categorical, Integer, Parameter, Real, SearchSpace

ODD_REALS = [
    Real(0, 1),
    Real(-5, 10),
    Real(300, 301),
    Real(-301.5, -300.25),
    Real(1e-12, 1e12, log=True),
    Real(1e-300, 1e300, log=True),
    Real(0.999, 1.001, log=True),
    Real(1.0, 1.0 + 1e-9),
    Real(0.0, 1e-200),
    Real(0.0, 1e-318),
    Real(1e-310, 2e-310, log=True),
    Real(-1e300, 1e300),
    Real(1e15, 1e15 + 1000),
]
ODD_INTEGERS = [
    Integer(0, 1),
    Integer(-3, 3),
    Integer(7, 106),
    Integer(1, 2, log=True),
    Integer(1, 10**6, log=True),
    Integer(10**9, 10**9 + 5),
    Integer(-(2**40), 2**40),
    Integer(1, 2**40, log=True),
]
ODD_CHOICES = [Categorical(["steel", "oak"]), Categorical((None, True, 1, "1", 2.5)), Categorical(range(30))]
ODD_PARAMETERS = [*ODD_REALS, *ODD_INTEGERS, *ODD_CHOICES]

units = st.floats(0, 1)


@st.composite
def reals(draw: st.DrawFn) -> Real:
    log = draw(st.booleans())
    low = draw(st.floats(1e-250 if log else -1e250, 1e250))
    high = draw(st.floats(1e-250 if log else -1e250, 1e250))
    assume(low < high)
    # bounds closer together than this may leave no room for 256 doubles, and are then refused (BAD_PARAMETERS)
    assume(high - low > (1e-9 if log else 1e-11) * max(abs(low), abs(high)))
    return Real(low, high, log)


@st.composite
def integers(draw: st.DrawFn) -> Integer:
    log = draw(st.booleans())
    low = draw(st.integers(1 if log else -(2**40), 2**40 - 1))
    return Integer(low, draw(st.integers(low + 1, 2**40)), log)


categoricals = st.lists(
    st.text(max_size=3) | st.integers() | st.booleans() | st.none(), min_size=2, unique_by=repr
).map(lambda choices: Categorical(tuple(choices)))
parameters = st.sampled_from(ODD_PARAMETERS) | reals() | integers() | categoricals
spaces = st.lists(parameters, min_size=1, max_size=4).map(
    lambda members: SearchSpace({f"p{position}": member for position, member in enumerate(members)})
)


@st.composite
def points(draw: st.DrawFn) -> tuple[SearchSpace, np.ndarray]:
    """A space and any point of its cube."""
    space = draw(spaces)
    return space, np.array(draw(st.lists(units, min_size=space.dimension, max_size=space.dimension)))


@given(points())
def test_encode_inverts_decode_bit_for_bit(case):
    space, unit_x = case
    params = space.decode(unit_x)
    snapped = space.snap(unit_x[None])[0]
    assert space.encode(params).tobytes() == snapped.tobytes()
    assert space.decode(snapped) == params
    assert space.decode(space.encode(params)) == params


@pytest.mark.parametrize("parameter", [Real(0, 1), Real(-1, 1), Real(0, 1e9), Integer(0, 5), Integer(-5, 5)], ids=repr)
def test_minus_zero_is_the_same_point_as_zero(parameter):
    assert parameter.encode(-0.0).tobytes() == parameter.encode(0.0).tobytes()
    assert parameter.snap(np.array([[-0.0]])).tobytes() == parameter.snap(np.array([[0.0]])).tobytes()


@given(points())
def test_snap_is_idempotent_and_stays_in_the_cube(case):
    space, unit_x = case
    once = space.snap(unit_x[None])
    assert np.all((once >= 0) & (once <= 1))
    assert space.snap(once).tobytes() == once.tobytes()


@given(points())
def test_decoded_values_are_valid_and_plain(case):
    space, unit_x = case
    params = space.decode(unit_x)
    assert space.validate(params) == params
    assert list(params) == list(space.names)
    for name, parameter in space.parameters.items():
        if isinstance(parameter, Real):
            assert type(params[name]) is float
            assert parameter.low <= params[name] <= parameter.high
        elif isinstance(parameter, Integer):
            assert type(params[name]) is int
            assert parameter.low <= params[name] <= parameter.high
        elif isinstance(parameter, Categorical):
            assert any(params[name] is choice or params[name] == choice for choice in parameter.choices)


@given(st.sampled_from(ODD_REALS) | reals(), units)
def test_a_real_is_moved_by_at_most_one_step_of_its_grid(parameter, unit):
    snapped = parameter.snap(np.array([[unit]]))[0, 0]
    assert abs(snapped - unit) <= 2.0**-8
    if parameter.high > 2 * abs(parameter.low) and parameter.high > 1e-250:
        assert abs(snapped - unit) <= 2.0**-39


@given(st.data())
def test_encoding_a_value_of_the_user_moves_it_by_less_than_a_billionth_of_the_range(data):
    parameter = data.draw(st.sampled_from([Real(0, 1), Real(-5, 10), Real(300, 301), Real(-1e300, 1e300)]))
    value = data.draw(st.floats(parameter.low, parameter.high))
    kept = parameter.decode(parameter.encode(value))
    assert abs(kept / 2 - value / 2) <= 1e-9 * (parameter.high / 2 - parameter.low / 2)


@pytest.mark.parametrize("parameter", [*ODD_REALS, *ODD_INTEGERS], ids=repr)
def test_the_ends_of_the_cube_are_exactly_the_bounds(parameter):
    assert parameter.decode(np.zeros(1)) == parameter.low
    assert parameter.decode(np.ones(1)) == parameter.high
    assert parameter.decode(np.array([-0.3])) == parameter.low
    assert parameter.decode(np.array([1.7])) == parameter.high
    assert parameter.decode(parameter.encode(parameter.low)) == parameter.low
    assert parameter.decode(parameter.encode(parameter.high)) == parameter.high


@pytest.mark.parametrize("parameter", ODD_REALS, ids=repr)
def test_decode_rises_strictly_from_one_grid_point_to_the_next(parameter):
    values = [parameter.decode(np.array([unit])) for unit in np.linspace(0, 1, 257)]
    assert all(low < high for low, high in pairwise(values))


@given(st.integers(-100, 100), st.integers(1, 300), st.data())
def test_every_integer_owns_an_equal_cell(low, extra, data):
    parameter = Integer(low, low + extra)
    count = extra + 1
    position = data.draw(st.integers(0, extra))
    inside = 1e-9  # of a cell
    assert parameter.decode(np.array([(position + inside) / count])) == low + position
    assert parameter.decode(np.array([(position + 1 - inside) / count])) == low + position
    assert parameter.encode(low + position)[0] == pytest.approx((position + 0.5) / count, rel=1e-12)


def test_all_integers_and_choices_come_equally_often():
    space = SearchSpace({"n": Integer(3, 12), "c": Categorical(tuple("abcd"))})
    sampled = [space.decode(x) for x in space.sample(np.random.default_rng(0), 8000)]
    for name, values in [("n", range(3, 13)), ("c", "abcd")]:
        expected = len(sampled) / len(values)
        counts = np.array([sum(params[name] == value for params in sampled) for value in values])
        chi_square = np.sum((counts - expected) ** 2 / expected)
        degrees = len(values) - 1
        assert chi_square < degrees + 4 * math.sqrt(2 * degrees)


def test_cells_of_a_log_integer_are_the_logarithms_of_half_open_intervals():
    parameter = Integer(1, 100, log=True)
    width = math.log(100.5 / 0.5)
    for value in (1, 2, 10, 100):
        start, end = math.log((value - 0.5) / 0.5) / width, math.log((value + 0.5) / 0.5) / width
        assert parameter.decode(np.array([start + 1e-9])) == value
        assert parameter.decode(np.array([end - 1e-9])) == value


def test_equal_steps_on_a_log_scale_are_equal_ratios():
    parameter = Real(1e-12, 1e12, log=True)
    values = [parameter.decode(np.array([unit])) for unit in np.linspace(0, 1, 25)]
    np.testing.assert_allclose(values, 10.0 ** np.arange(-12, 13), rtol=1e-9)
    linear = Real(-5, 10)
    np.testing.assert_allclose(
        [linear.decode(np.array([u])) for u in np.linspace(0, 1, 16)], np.arange(-5, 11), atol=1e-9
    )


def test_a_category_is_the_column_that_is_highest():
    parameter = Categorical(("a", "b", "c"))
    assert parameter.decode(np.array([0.2, 0.7, 0.6])) == "b"
    np.testing.assert_array_equal(parameter.encode("c"), [0.0, 0.0, 1.0])
    np.testing.assert_array_equal(parameter.snap(np.array([[0.2, 0.1, 0.0]])), [[1.0, 0.0, 0.0]])


def test_true_is_not_the_choice_one():
    parameter = Categorical((1, True, 0, False))
    for position, choice in enumerate(parameter.choices):
        assert parameter.encode(choice)[position] == 1.0
        assert parameter.validate(choice) is choice


def test_size_counts_the_designs():
    assert SearchSpace({"n": Integer(-2, 2), "c": Categorical(("a", "b", "c"))}).size == 15
    assert SearchSpace({"n": Integer(0, 1), "x": Real(0, 1)}).size == math.inf
    assert SearchSpace({"n": Integer(0, 1), "c": Categorical(range(7)), "x": Real(0, 1)}).dimension == 9


@given(st.integers(0, 2**20))
def test_samples_are_valid_designs_already(seed):
    space = SearchSpace({"x": Real(300, 301), "n": Integer(1, 50, log=True), "c": Categorical(("a", "b", "c"))})
    drawn = space.sample(np.random.default_rng(seed), 4)
    assert space.snap(drawn).tobytes() == drawn.tobytes()
    again = np.array([space.encode(space.decode(row)) for row in drawn])
    assert again.tobytes() == drawn.tobytes()


def test_values_of_numpy_become_plain_python():
    space = SearchSpace({"x": Real(0, 1), "n": Integer(0, 9), "c": Categorical(("a", "b"))})
    params = space.validate({"c": np.str_("b"), "n": np.int64(4), "x": np.float32(0.5)})
    assert params == {"x": 0.5, "n": 4, "c": "b"}
    assert [type(value) for value in params.values()] == [float, int, str]
    assert list(params) == ["x", "n", "c"]
    assert space.validate({"x": 1, "n": 3.0, "c": "a"}) == {"x": 1.0, "n": 3, "c": "a"}


HUGE = 10**400


def assert_one_sentence(error: FideliumError) -> None:
    assert str(error)
    assert "\n" not in str(error)
    assert len(str(error)) < 300 + len(str(HUGE))


BAD_PARAMETERS: list[tuple[Any, tuple[Any, ...], str]] = [
    (Real, (1, 0), "low < high"),
    (Real, (1, 1), "low < high"),
    (Real, (0, math.inf), "finite numbers, got inf"),
    (Real, (-math.inf, 0), "finite numbers, got -inf"),
    (Real, (math.nan, 1), "finite numbers, got nan"),
    (Real, ("0", 1), "finite numbers, got '0'"),
    (Real, (None, 1), "finite numbers, got None"),
    (Real, (False, True), "finite numbers, got False"),
    (Real, (0, 1, True), "log=True needs low > 0"),
    (Real, (-1, 1, True), "log=True needs low > 0"),
    (Real, (-1.5e308, 1.5e308), "too wide"),
    (Real, (0, HUGE), "finite numbers"),
    (Real, (1.0, math.nextafter(1.0, 2)), "too close"),
    (Real, (0.0, 5e-324), "too close"),
    (Integer, (3, 3), "low < high"),
    (Integer, (3, 2), "low < high"),
    (Integer, (0.5, 2), "whole numbers, got 0.5"),
    (Integer, (0, 2.0), "whole numbers, got 2.0"),
    (Integer, (0, math.inf), "finite numbers"),
    (Integer, (0, 4, True), "log=True needs low > 0"),
    (Integer, (0, 2**41), "too many values"),
    (Integer, (0, HUGE), "finite numbers"),
    (Real, (1, 2, "no"), "log=True or log=False, got 'no'"),
    (Integer, (1, 2, None), "log=True or log=False, got None"),
    (Categorical, ([],), "at least two choices"),
    (Categorical, (["a"],), "at least two choices"),
    (Categorical, ("ab",), "list or tuple"),
    (Categorical, ({"a"},), "list or tuple"),
    (Categorical, (3,), "list or tuple"),
    (Categorical, (["a", "b", "a"],), "'a' twice"),
    (Categorical, ([1, 1.0],), "1.0 twice"),
    (Categorical, ([[1], [2]],), "hashable"),
    (Categorical, ([math.nan, 1.0],), "nan"),
]


@pytest.mark.parametrize(("kind", "arguments", "match"), BAD_PARAMETERS, ids=lambda value: repr(value)[:40])
def test_a_bad_parameter_is_one_clear_sentence(kind, arguments, match):
    with pytest.raises(SpaceError, match=match) as caught:
        kind(*arguments)
    assert_one_sentence(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ({}, "at least one parameter"),
        ([Real(0, 1)], "a dict of name -> parameter"),
        (None, "a dict of name -> parameter"),
        ({"": Real(0, 1)}, "non-empty string"),
        ({"  ": Real(0, 1)}, "non-empty string"),
        ({1: Real(0, 1)}, "non-empty string"),
        ({"x": (0, 1)}, "'x' must be Real, Integer, Categorical or Catalogue"),
        ({"x": Real}, "'x' must be Real, Integer, Categorical or Catalogue"),
    ],
)
def test_a_bad_space_is_one_clear_sentence(members, match):
    with pytest.raises(SpaceError, match=match) as caught:
        SearchSpace(members)
    assert_one_sentence(caught.value)


GOOD: dict[str, Any] = {"x": 0.5, "n": 3, "c": "a"}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"x": 1.5}, r"'x': expected a number in \[0, 1\], got 1.5"),
        ({"x": math.nan}, "'x': expected a number"),
        ({"x": math.inf}, "'x': expected a number"),
        ({"x": HUGE}, "'x': expected a number"),
        ({"x": "0.5"}, "'x': expected a number"),
        ({"x": True}, "'x': expected a number"),
        ({"x": None}, "'x': expected a number"),
        ({"x": np.array([0.5])}, "'x': expected a number"),
        ({"n": 10}, r"'n': expected a whole number in \[0, 9\], got 10"),
        ({"n": 2.5}, "'n': expected a whole number"),
        ({"n": math.nan}, "'n': expected a whole number"),
        ({"n": -math.inf}, "'n': expected a whole number"),
        ({"n": False}, "'n': expected a whole number"),
        ({"c": "d"}, "'c': expected one of 'a', 'b', got 'd'"),
        ({"c": ["a"]}, "'c': expected one of 'a', 'b'"),
        ({"c": np.array(["a", "b"])}, "'c': expected one of 'a', 'b'"),
        ({"y": 1}, "unknown parameter 'y'"),
    ],
    ids=repr,
)
def test_params_outside_the_space_are_one_clear_sentence(changes, match):
    space = SearchSpace({"x": Real(0, 1), "n": Integer(0, 9), "c": Categorical(("a", "b"))})
    with pytest.raises(SpaceError, match=match) as caught:
        space.validate(GOOD | changes)
    assert_one_sentence(caught.value)


def test_missing_params_and_other_types_are_rejected():
    space = SearchSpace({"x": Real(0, 1), "n": Integer(0, 9)})
    with pytest.raises(SpaceError, match="missing parameter 'n'"):
        space.validate({"x": 0.5})
    with pytest.raises(SpaceError, match="params must be a dict with 'x', 'n'"):
        space.validate([0.5, 3])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("parameter", ODD_PARAMETERS, ids=repr)
def test_parameters_are_values_equal_and_hashable(parameter: Parameter):
    twin = type(parameter)(**{name: getattr(parameter, name) for name in parameter.__dataclass_fields__})  # pyright: ignore
    assert twin == parameter
    assert hash(twin) == hash(parameter)


def test_categoricals_are_equal_if_their_choices_are_of_the_same_kind():
    assert Categorical(["a", 1]) == Categorical(("a", 1))
    assert Categorical([True, 0]) != Categorical([1, 0])
    assert Categorical(["a", "b"]) != Categorical(["a", "b", "c"])
    assert hash(Categorical(["a", 1])) == hash(Categorical(("a", 1)))


@given(st.sampled_from(ODD_PARAMETERS), units)
def test_a_valid_design_is_placed_where_it_is_encoded(parameter, unit):
    space = SearchSpace({"it": parameter})
    params = space.decode(np.full(space.dimension, unit))
    place = space.place(params)
    assert space.contains(params)
    assert place is not None
    np.testing.assert_array_equal(place, space.encode(params))
    assert np.all((place >= 0) & (place <= 1))


@given(reals(), st.floats(-2, 3))
def test_a_number_outside_is_placed_outside_unless_it_is_farther_than_the_margin(parameter, unit):
    start, end = (math.log(bound) if parameter.log else bound for bound in (parameter.low, parameter.high))
    position = start + unit * (end - start)
    assume(not parameter.log or -700 < position < 700)
    value = math.exp(position) if parameter.log else position
    assume(math.isfinite(value))
    assume(not parameter.low <= value <= parameter.high)
    assume(min(abs(unit - edge) for edge in (-0.5, 0, 1, 1.5)) > 1e-3)  # but for rounding
    space = SearchSpace({"it": parameter})
    place = space.place({"it": value})
    assert not space.contains({"it": value})
    assert (place is None) == (not -0.5 <= unit <= 1.5)
    if place is not None:
        assert place[0] == pytest.approx(unit, abs=1e-3)


@pytest.mark.parametrize(
    ("parameter", "value", "place"),
    [
        (Real(0, 1), 1.5, 1.5),
        (Real(0, 1), -0.5, -0.5),
        (Real(0, 1), 1.51, None),
        (Real(1, 100, log=True), 1000, 1.5),
        (Real(1, 100, log=True), 0.0, None),
        (Integer(1, 4), 5, 1.125),
        (Integer(1, 4), 9, None),
        (Integer(1, 4, log=True), -1, None),
        (Categorical(("a", "b")), "c", None),
    ],
)
def test_places_by_hand(parameter, value, place):
    found = SearchSpace({"it": parameter}).place({"it": value})
    assert (found is None) == (place is None)
    if found is not None:
        assert found[0] == pytest.approx(place)


EXTREMES = [5e-324, 1e-320, 2.2e-308, 1e-300, 1e-9, 0.1, 1.0, 3.0, 1e15, 2.0**53, 1e300, 8e307, 1.7e308]
hostile = st.sampled_from(EXTREMES) | st.floats(5e-324, 1.7e308)
farther = st.sampled_from([1 + 2**-52, 1 + 1e-15, 1 + 1e-12, 1 + 1e-9, 1.001, 2.0, 1e3, 1e9]) | st.floats(1, 2)


@st.composite
def hostile_bounds(draw) -> tuple[float, float]:
    """Two numbers, far apart or next to each other, of any magnitude and sign."""
    low = draw(hostile)
    high = min(low * draw(farther), 1.7e308) if draw(st.booleans()) else draw(hostile)
    signs = draw(st.sampled_from([(1, 1), (-1, 1), (-1, -1)]))
    low, high = sorted([signs[0] * low, signs[1] * high])
    return low, high


def whether_made(kind: type, low: float, high: float, log: bool) -> Parameter | None:
    """The parameter, or None if it was refused by a sentence."""
    try:
        return kind(low, high, log=log)
    except SpaceError:
        return None


@settings(max_examples=400)
@given(hostile_bounds(), st.booleans(), st.lists(st.floats(0, 1), min_size=1, max_size=5), st.data())
def test_any_bounds_are_refused_or_encode_and_decode_exactly(bounds, log, units, data):
    low, high = bounds
    parameter = whether_made(Real, low, high, log)
    if parameter is None:
        return
    for unit in [0.0, 1.0, 0.5, 2**-40, *units]:
        column = parameter.snap(np.array([[unit]]))[0]
        value = parameter.decode(column)
        assert low <= value <= high
        assert parameter.encode(value).tobytes() == column.tobytes()
        assert parameter.decode(parameter.encode(value)) == value
    own = data.draw(st.floats(low, high))
    assert 0 <= parameter.encode(own)[0] <= 1
    assert low <= parameter.decode(parameter.encode(own)) <= high


huge = st.sampled_from([0, 1, 2**31, 2**40, 2**53, 2**53 + 1, 2**64, 10**30, 10**400]) | st.integers(1, 2**60)


@settings(max_examples=300)
@given(huge, huge, st.booleans(), st.booleans(), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_any_whole_bounds_are_refused_or_encode_and_decode_exactly(a, b, negative, log, units):
    low, high = sorted([-a if negative else a, b])
    parameter = whether_made(Integer, low, high, log)
    if parameter is None:
        return
    decoded = [parameter.decode(np.array([unit])) for unit in units]
    for value in [low, high, low + 1, high - 1, (low + high) // 2, *decoded]:
        assert low <= value <= high
        assert parameter.decode(parameter.encode(value)) == value
        assert parameter.snap(parameter.encode(value)[None])[0].tobytes() == parameter.encode(value).tobytes()


@pytest.mark.parametrize(("low", "high"), [(1e15, 1e15 + 1), (5e-324, 1e-320), (1.0, 1 + 2**-52)])
def test_log_bounds_that_floats_cannot_resolve_are_refused(low, high):
    with pytest.raises(SpaceError, match=r"log=True.* are too close"):
        Real(low, high, log=True)
