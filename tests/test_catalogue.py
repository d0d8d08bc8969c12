"""Catalogues: items with descriptors as a parameter, from dicts, files and tables."""

import math
import pickle
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import fidelium as fd
from fidelium.catalogue import Catalogue, catalogue_differences
from fidelium.errors import SpaceError
from fidelium.space import MOST_LISTED, Categorical, Integer, Real, SearchSpace

PROFILES = {
    "IPE80": {"area": 7.64, "inertia": 80.1, "grade": 1},
    "IPE100": {"area": 10.3, "inertia": 171, "grade": 1},
    "IPE160": {"area": 20.1, "inertia": 869, "grade": 1},
    "IPE240": {"area": 39.1, "inertia": 3892, "grade": 1},
    "IPE600": {"area": 156, "inertia": 92080, "grade": 1},
}
CSV = "name,area,maker,inertia\nIPE80,7.64,A,80.1\nIPE100,10.3,B,171\nIPE160,20.1,A,869\n"


def table(seed: int, items: int, descriptors: int) -> Catalogue:
    values = np.random.default_rng(seed).normal(size=(items, descriptors))
    return Catalogue({f"i{i}": {f"d{k}": float(v) for k, v in enumerate(row)} for i, row in enumerate(values)})


@given(seed=st.integers(0, 100), items=st.integers(2, 60), descriptors=st.integers(1, 15), data=st.data())
def test_decoding_inverts_encoding_and_snapping_leads_to_an_item(
    seed: int, items: int, descriptors: int, data: st.DataObject
) -> None:
    catalogue = table(seed, items, descriptors)
    item = data.draw(st.sampled_from(catalogue.choices))
    columns = catalogue.encode(item)
    assert np.all((columns >= 0) & (columns <= 1))
    assert catalogue.decode(columns) == item
    assert np.array_equal(catalogue.snap(columns[None, :])[0], columns)
    anywhere = np.random.default_rng(seed).uniform(-0.2, 1.2, size=(5, catalogue.width))
    snapped = catalogue.snap(anywhere)
    assert np.array_equal(catalogue.snap(snapped), snapped)
    distances = np.sum((anywhere[:, None] - catalogue.rows[None]) ** 2, axis=2)
    assert np.allclose(np.sum((anywhere - snapped) ** 2, axis=1), np.min(distances, axis=1))


def test_similar_items_are_near_each_other() -> None:
    profiles = Catalogue(PROFILES)
    first, second, last = (profiles.encode(name) for name in ("IPE80", "IPE100", "IPE600"))
    assert np.linalg.norm(first - second) < 0.3 * np.linalg.norm(first - last)


def test_each_of_a_few_descriptors_is_a_column_and_intrinsic_dimensions_are_counted() -> None:
    hidden = np.random.default_rng(0).normal(size=(300, 2))
    mixed = hidden @ np.random.default_rng(1).normal(size=(2, 14))
    catalogue = Catalogue({str(i): {f"d{k}": float(v) for k, v in enumerate(row)} for i, row in enumerate(mixed)})
    assert catalogue.width == 14
    assert catalogue.intrinsic_dimension == 2
    assert np.allclose(catalogue.rows.min(axis=0), 0.0)
    assert np.allclose(catalogue.rows.max(axis=0), 1.0)
    assert np.all(np.abs([np.corrcoef(a, b)[0, 1] for a, b in zip(catalogue.rows.T, mixed.T, strict=True)]) > 0.99)


def test_many_correlated_descriptors_take_few_columns_and_distances_stay() -> None:
    hidden = np.random.default_rng(0).normal(size=(300, 2))
    mixed = hidden @ np.random.default_rng(1).normal(size=(2, 30))
    catalogue = Catalogue({str(i): {f"d{k}": float(v) for k, v in enumerate(row)} for i, row in enumerate(mixed)})
    assert catalogue.width == 2
    assert catalogue.intrinsic_dimension == 2
    standard = (mixed - mixed.mean(axis=0)) / mixed.std(axis=0)
    apart = np.linalg.norm(standard[:50, None] - standard[None, 50:100], axis=2)
    encoded = np.linalg.norm(catalogue.rows[:50, None] - catalogue.rows[None, 50:100], axis=2)
    assert np.corrcoef(apart.ravel(), encoded.ravel())[0, 1] > 0.99


def test_a_descriptor_that_spans_decades_is_on_a_log_scale_unless_told_otherwise() -> None:
    assert Catalogue(PROFILES).logarithmic == {"area", "inertia"}
    assert Catalogue(PROFILES, log=[]).logarithmic == frozenset()
    assert Catalogue(PROFILES, log=["area"]).logarithmic == {"area"}


def test_what_is_left_out_is_noted() -> None:
    notes = Catalogue(PROFILES | {"copy": PROFILES["IPE80"]}).notes
    assert notes[0] == "the same for all items, so left out: grade"
    assert "log scale: area, inertia" in notes[1]
    assert "2 items have the descriptors of another one" in notes[2]


def test_items_with_the_same_descriptors_stay_distinct_and_are_the_same_to_a_model() -> None:
    catalogue = Catalogue({f"i{i}": {"d": float(i // 4), "e": float(i // 4) ** 2} for i in range(12)}, log=[])
    assert len({row.tobytes() for row in catalogue.rows}) == 12
    assert [catalogue.decode(catalogue.encode(item)) for item in catalogue.choices] == list(catalogue.choices)
    assert np.max(np.abs(catalogue.rows[0] - catalogue.rows[3])) < 1e-9
    assert np.all((catalogue.rows >= 0) & (catalogue.rows <= 1))


def test_the_value_is_the_name_and_whole_numbers_are_names() -> None:
    catalogue = Catalogue({316: {"d": 1}, 304: {"d": 2}})
    assert catalogue.choices == ("316", "304")
    assert catalogue.validate(316) == catalogue.validate("316") == "316"
    assert catalogue[304] == {"d": 2}
    with pytest.raises(SpaceError, match="'317'"):
        catalogue.validate("317")


def test_an_unknown_item_gets_the_nearest_name() -> None:
    with pytest.raises(SpaceError, match=r"one of the 5 items.*got 'IPE-100'; did you mean 'IPE100'\?"):
        Catalogue(PROFILES).validate("IPE-100")
    with pytest.raises(SpaceError, match="got \\['IPE100'\\]"):
        Catalogue(PROFILES).validate(["IPE100"])


@pytest.mark.parametrize(
    ("items", "log", "message"),
    [
        ([], None, "must be a dict of item -> descriptors"),
        ({"a": {"d": 1}}, None, "needs 2 to 100000 items, got 1"),
        ({"a": {"d": 1}, "b": {}}, None, "descriptor 'd' of item 'b' is missing"),
        ({"a": {"d": 1}, "b": {"d": None}}, None, "descriptor 'd' of item 'b' is missing"),
        ({"a": {"d": 1}, "b": {"d": 1, "e": 2}}, None, "item 'b' has the descriptor 'e'"),
        ({"a": {"d": 1}, "b": {"d": "two"}}, None, "'d' of item 'b' must be a number, got 'two'"),
        ({"a": {"d": 1}, "b": {"d": True}}, None, "must be a number, got True"),
        ({"a": {"d": 1}, "b": {"d": math.nan}}, None, "must be finite, got nan"),
        ({"a": {"d": 1}, "b": {"d": 10**400}}, None, "must be finite"),
        ({"a": {"d": 1}, "b": 2}, None, "item 'b' must be a dict"),
        ({"a": {}, "b": {}}, None, "need 1 to 1000 descriptors, got 0"),
        ({"a": {"d": 1}, " ": {"d": 2}}, None, "name of an item must be a text that is not blank"),
        ({"a": {"d": 1}, 2.5: {"d": 2}}, None, "name of an item must be a text"),
        ({1: {"d": 1}, "1": {"d": 2}}, None, "the same name"),
        ({"a": {"d": 1}, "b": {"d": 1}}, None, "no descriptor differs"),
        ({"a": {"d": 1}, "b": {"d": -1}}, ["d"], "not above 0 for every item"),
        ({"a": {"d": 1}, "b": {"d": 2}}, ["e"], "log names the descriptor 'e'; the catalogue has d"),
        ({"a": {"d": 1}, "b": {"d": 2}}, "d", "log must be a list"),
    ],
)
def test_a_bad_catalogue_is_one_clear_sentence(items: object, log: object, message: str) -> None:
    with pytest.raises(SpaceError, match=message) as caught:
        Catalogue(items, log)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_csv_file_is_a_catalogue(tmp_path: Path) -> None:
    path = tmp_path / "profiles.csv"
    path.write_text(CSV)
    catalogue = Catalogue.from_csv(path, item="name")
    assert catalogue.choices == ("IPE80", "IPE100", "IPE160")
    assert catalogue["IPE100"] == {"area": 10.3, "inertia": 171}  # the makers are not numbers
    assert isinstance(catalogue["IPE100"]["inertia"], int)
    assert catalogue == Catalogue.from_csv(path)
    assert Catalogue.from_csv(path, descriptors=["area"]).descriptors == ("area",)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (CSV, {"item": "nam"}, "no column 'nam'; did you mean 'name'"),
        (CSV, {"descriptors": ["weight"]}, "no column 'weight'"),
        (CSV, {"descriptors": ["maker"]}, r"line 2: the descriptor 'maker' of item 'IPE80' must be a finite number"),
        (CSV, {"descriptors": ["name"]}, "holds the names"),
        (CSV + "IPE80,1,A,2\n", {}, "line 5: the item 'IPE80' is there twice"),
        (CSV + "IPE90,,A,2\n", {}, "line 5: the descriptor 'area' of item 'IPE90' is missing"),
        (CSV + "IPE90,NaN,A,2\n", {}, "line 5: the descriptor 'area' of item 'IPE90' is missing"),
        (CSV + "IPE90,1e999,A,2\n", {}, "line 5: .* must be a finite number, got '1e999'"),
        (CSV + ",1,A,2\n", {}, "line 5: the item has no name"),
        (CSV + "IPE90,1,A\n", {}, "line 5: expected 4 cells"),
        ("name,maker\na,x\nb,y\n", {}, "no column beside 'name' holds numbers"),
        ("name\na\n", {}, "expected a header"),
        ("name,d,d\na,1,2\n", {}, "the column 'd' is there twice"),
        ("", {}, "expected a header"),
        ("name,d\na,1\n", {}, "needs 2 to 100000 items, got 1"),
    ],
)
def test_a_bad_csv_file_is_one_clear_sentence(tmp_path: Path, text: str, options: dict, message: str) -> None:
    path = tmp_path / "profiles.csv"
    path.write_text(text)
    with pytest.raises(SpaceError, match=message):
        Catalogue.from_csv(path, **options)


def test_a_file_that_cannot_be_read_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="cannot read the catalogue"):
        Catalogue.from_csv(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes("größe,d\n".encode("latin-1"))
    with pytest.raises(SpaceError, match="not UTF-8"):
        Catalogue.from_csv(tmp_path / "latin.csv")


def test_a_dataframe_is_a_catalogue() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"name": ["a", "b", "c"], "d": [1, 2, 3], "e": [0.5, 0.1, 0.7]})
    assert Catalogue.from_dataframe(frame, item="name")["b"] == {"d": 2, "e": 0.1}
    assert Catalogue.from_dataframe(frame, descriptors=["d"]).choices == ("0", "1", "2")
    frame.loc[1, "e"] = math.nan
    with pytest.raises(SpaceError, match="descriptor 'e' of item 'b' is missing"):
        Catalogue.from_dataframe(frame, item="name")
    with pytest.raises(SpaceError, match="no column 'nme'"):
        Catalogue.from_dataframe(frame, item="nme")


def test_all_designs_of_a_table_are_listed_once() -> None:
    space = SearchSpace({"profile": Catalogue(PROFILES), "count": Integer(1, 3), "core": fd.Categorical(("a", "b"))})
    assert space.table is not None
    assert len(space.table) == space.size == 5 * 3 * 2
    assert len({tuple(space.decode(row).values()) for row in space.table}) == 30
    assert np.array_equal(space.snap(space.table), space.table)
    assert SearchSpace({"profile": Catalogue(PROFILES), "length": Real(0, 1)}).table is None
    assert SearchSpace({"core": fd.Categorical(("a", "b"))}).table is None
    assert SearchSpace({"profile": Catalogue(PROFILES), "n": Integer(1, MOST_LISTED)}).table is None


def test_every_item_is_drawn_equally_often() -> None:
    space = SearchSpace({"x": Real(0, 1), "profile": Catalogue(PROFILES)})
    names = [space.decode(row)["profile"] for row in space.sample(np.random.default_rng(0), 2000)]
    counts = np.array([names.count(name) for name in PROFILES])
    assert np.all(np.abs(counts - 400) < 4 * math.sqrt(2000 * 0.2 * 0.8))


def test_spread_items_are_different_and_represent_all() -> None:
    catalogue = table(0, 400, 2)
    generator = np.random.default_rng(0)
    chosen = catalogue.spread(40, generator)
    assert len(set(chosen.tolist())) == 40
    nearest = lambda some: np.mean(np.min(np.linalg.norm(catalogue.rows[:, None] - some[None], axis=2), axis=1))  # noqa: E731
    random = np.mean([nearest(catalogue.rows[generator.permutation(400)[:40]]) for _ in range(20)])
    assert nearest(catalogue.rows[chosen]) < random
    assert sorted(catalogue.spread(400, generator)) == list(range(400))
    twice = np.bincount(catalogue.spread(900, generator))
    assert set(twice.tolist()) == {2, 3}


def test_constraints_may_be_about_items_and_descriptors() -> None:
    profiles = Catalogue(PROFILES)
    space = SearchSpace(
        {"length": Real(0.1, 10), "profile": profiles}, ["profile.area * length <= 100", 'profile != "IPE80"']
    )
    drawn = [space.decode(row) for row in space.sample(np.random.default_rng(0), 300)]
    assert {design["profile"] for design in drawn} == set(PROFILES) - {"IPE80"}
    assert all(PROFILES[d["profile"]]["area"] * d["length"] <= 100 for d in drawn)
    with pytest.raises(SpaceError, match=r"violates 'profile\.area \* length <= 100'"):
        space.validate({"length": 10, "profile": "IPE600"})
    with pytest.raises(SpaceError, match="violates 'profile != \"IPE80\"': 'IPE80'"):
        space.validate({"length": 1, "profile": "IPE80"})
    repaired = space.decode(space.repair(space.encode({"length": 10, "profile": "IPE600"})[None])[0])
    space.validate(repaired)
    alone = SearchSpace({"profile": profiles}, ["10 <= profile.area <= 40"])
    assert alone.table is not None
    assert {alone.decode(row)["profile"] for row in alone.table} == {"IPE100", "IPE160", "IPE240"}
    with pytest.raises(SpaceError, match="cannot find a design"):
        SearchSpace({"profile": profiles}, ["profile.area <= 1"])
    with pytest.raises(SpaceError, match=r"unknown parameter 'profile\.weight'"):
        SearchSpace({"profile": profiles}, ["profile.weight <= 1"])


def test_a_slice_of_a_table_has_the_held_item_or_choice_only() -> None:
    parameters = {"profile": Catalogue(PROFILES), "steel": Categorical(("s235", "s355"))}
    whole = SearchSpace(parameters, ["profile.area <= 40"])
    one, many = whole.holding({"profile": "IPE100"}), whole.holding({"steel": "s355"})
    assert one.table is None  # no items to compare
    assert {tuple(one.decode(row).values()) for row in one.sample(np.random.default_rng(0), 20)} == {
        ("IPE100", "s235"),
        ("IPE100", "s355"),
    }
    assert many.table is not None
    listed = [many.decode(row) for row in many.table]
    assert {design["steel"] for design in listed} == {"s355"}
    assert len(listed) == sum(each["area"] <= 40 for each in PROFILES.values())


def test_a_catalogue_survives_pickling_and_prints_shortly() -> None:
    catalogue = Catalogue(PROFILES)
    assert pickle.loads(pickle.dumps(catalogue)) == catalogue
    assert hash(Catalogue(dict(PROFILES))) == hash(catalogue)
    assert catalogue != Catalogue(PROFILES, log=[])
    assert catalogue != 3
    assert repr(catalogue) == "Catalogue(5 items, 3 descriptors)"


def test_differences_are_said_in_words() -> None:
    old = Catalogue(PROFILES)
    turned = Catalogue(dict(reversed(PROFILES.items())))
    assert catalogue_differences("profile", old, turned) == []
    more = Catalogue({**{k: v for k, v in PROFILES.items() if k != "IPE80"}, "HEA100": PROFILES["IPE100"]})
    assert catalogue_differences("profile", old, more) == ["items of profile: added 'HEA100' and removed 'IPE80'"]
    heavier = Catalogue(PROFILES | {"IPE80": PROFILES["IPE80"] | {"area": 8.0}})
    assert catalogue_differences("profile", old, heavier) == ["descriptors of profile: changed for 'IPE80'"]
    fewer = Catalogue({name: {"area": each["area"]} for name, each in PROFILES.items()}, log=[])
    assert catalogue_differences("profile", old, fewer) == [
        "descriptors of profile: area, inertia, grade -> area",
        "log scale of profile: area, inertia -> none",
    ]
