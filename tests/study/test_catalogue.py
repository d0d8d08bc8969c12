"""Studies over catalogues: suggestions are items, each once; storage, redefinition, files, programs."""

import math
from pathlib import Path

import numpy as np
import pytest

import fidelium as fd
from fidelium.catalogue import Catalogue
from fidelium.errors import ConfigError, NotWorthwhileError, SettingError
from fidelium.strategies.registry import strategy_names

LADDER = [fd.Fidelity("low", cost=1), fd.Fidelity("high", cost=10)]


def items(count: int, seed: int = 0) -> Catalogue:
    values = np.random.default_rng(seed).uniform(size=(count, 3))
    return Catalogue({f"i{k}": dict(zip("abc", row, strict=True)) for k, row in enumerate(values.tolist())})


def value(catalogue: Catalogue, item: str, fidelity: str) -> float:
    a, b, c = catalogue[item].values()
    return -((a - 0.7) ** 2) - (b - 0.2) ** 2 + 0.2 * math.sin(5 * c) + (0.1 * c if fidelity == "low" else 0.0)


@pytest.mark.parametrize("strategy", strategy_names())
def test_every_strategy_asks_each_item_once_per_fidelity_and_ends_with_a_sentence(strategy: str) -> None:
    catalogue = items(6)
    study = fd.create_study(
        fd.SearchSpace({"item": catalogue}), LADDER, direction="maximize", strategy=strategy, seed=0,
        initial={"low": 3, "high": 2},
    )  # fmt: skip
    asked: list[tuple[str, str]] = []
    while sum(fidelity == "high" for _, fidelity in asked) < 6:
        trial = study.ask()
        asked.append((trial.params["item"], trial.fidelity.name))
        study.tell(trial, value(catalogue, trial.params["item"], trial.fidelity.name))
    with pytest.raises(NotWorthwhileError, match="all 6 designs have been run at 'high'"):
        study.ask()
    assert len(set(asked)) == len(asked)
    assert {item for item, fidelity in asked if fidelity == "high"} == set(catalogue.choices)
    assert study.best is not None
    if strategy == "dnn-mfbo-paper":  # its stack takes six values for noisy ones
        assert study.recommend().params["item"] in catalogue.choices
    else:
        assert study.recommend().params == study.best.params


def test_optimize_ends_when_every_item_has_been_run(caplog: pytest.LogCaptureFixture) -> None:
    catalogue = items(5)
    study = fd.create_study(
        fd.SearchSpace({"item": catalogue}), LADDER, direction="maximize", strategy="random", seed=0,
        initial={"low": 0, "high": 2},
    )  # fmt: skip
    study.optimize(lambda params, fidelity: value(catalogue, params["item"], fidelity.name), budget=1000)
    assert len(study.trials) == 5
    assert study.spent == 50
    assert "all 5 designs have been run at 'high'" in caplog.text


def test_the_best_of_a_table_is_found_without_running_all(tmp_path: Path) -> None:
    catalogue = items(300)
    best = max(catalogue.choices, key=lambda item: value(catalogue, item, "high"))
    study = fd.create_study(
        fd.SearchSpace({"item": catalogue}), LADDER, direction="maximize", seed=0,
        storage=f"sqlite:///{tmp_path / 'table.db'}", name="table",
    )  # fmt: skip
    while study.best is None or study.best.params["item"] != best:
        trial = study.ask()
        study.tell(trial, value(catalogue, trial.params["item"], trial.fidelity.name))
        assert study.spent < 300
    assert study.recommend().params == {"item": best}
    assert fd.load_study(f"sqlite:///{tmp_path / 'table.db'}", "table").best == study.best


def test_a_catalogue_beside_real_parameters_is_searched(tmp_path: Path) -> None:
    catalogue = items(200)
    space = fd.SearchSpace({"x": fd.Real(0, 1), "item": catalogue}, ["item.a <= 0.9"])

    def objective(params: dict[str, object], fidelity: fd.Fidelity) -> float:
        return value(catalogue, str(params["item"]), fidelity.name) - (float(params["x"]) - 0.4) ** 2  # type: ignore[arg-type]

    study = fd.optimize(objective, space, LADDER, direction="maximize", budget=90, seed=0)
    top = sorted(value(catalogue, item, "high") for item in catalogue.choices if catalogue[item]["a"] <= 0.9)
    assert study.best is not None
    assert study.best.value is not None
    assert study.best.value > top[-6] - 0.01
    assert all(catalogue[trial.params["item"]]["a"] <= 0.9 for trial in study.trials)


def test_constraints_on_outcomes_and_failures_work_with_a_catalogue() -> None:
    catalogue = items(30)

    def objective(params: dict[str, str], fidelity: fd.Fidelity) -> dict[str, float]:
        return {"value": value(catalogue, params["item"], fidelity.name), "a": catalogue[params["item"]]["a"]}

    study = fd.create_study(
        fd.SearchSpace({"item": catalogue}), LADDER, direction="maximize", seed=0, constraints=["a <= 0.5"]
    )
    study.optimize(objective, budget=120)
    allowed = [value(catalogue, item, "high") for item in catalogue.choices if catalogue[item]["a"] <= 0.5]
    assert study.best is not None
    assert study.best.value == max(allowed)


def test_the_same_seed_repeats_after_a_resume(tmp_path: Path) -> None:
    catalogue = items(40)
    space = fd.SearchSpace({"item": catalogue})

    def asked(url: str | None, interrupted: bool) -> list[tuple[str, str]]:
        study = fd.create_study(space, LADDER, direction="maximize", seed=3, storage=url, name="s")
        found = []
        for number in range(24):
            if interrupted and number == 21 and url is not None:
                study = fd.load_study(url, "s")
            trial = study.ask()
            found.append((trial.params["item"], trial.fidelity.name))
            study.tell(trial, value(catalogue, *found[-1]))
        return found

    assert asked(f"sqlite:///{tmp_path / 'a.db'}", True) == asked(None, False)


def test_the_whole_table_is_stored_and_a_changed_one_is_taken_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url, old = f"sqlite:///{tmp_path / 'a.db'}", items(6)

    def study_of(catalogue: Catalogue) -> fd.Study:
        space = fd.SearchSpace({"item": catalogue})
        return fd.create_study(
            space, LADDER, direction="maximize", seed=0, storage=url, name="s", initial={}, load_if_exists=True
        )

    first = study_of(old)
    assert fd.load_study(url, "s").space == first.space
    for item in old.choices:
        first.add_observation({"item": item}, "high", value(old, item, "high"))
    best = first.best
    assert best is not None
    without = {name: each for name, each in old.table.items() if name != best.params["item"]}
    again = study_of(Catalogue({**without, "new": {"a": 0.1, "b": 0.2, "c": 0.3}}))
    assert f"items of item: added 'new' and removed {best.params['item']!r}" in caplog.text
    assert len(again.trials) == 6  # the record stays
    assert again.best is not None
    assert again.best.params != best.params
    assert again.ask().params["item"] != best.params["item"]
    assert again.changes()[-1].action == "redefine"


def test_ten_thousand_items_are_stored_and_loaded_quickly(tmp_path: Path) -> None:
    import time

    values = np.random.default_rng(0).normal(size=(10_000, 14))
    catalogue = Catalogue({f"i{k}": {f"d{j}": v for j, v in enumerate(row)} for k, row in enumerate(values.tolist())})
    url = f"sqlite:///{tmp_path / 'a.db'}"
    fd.create_study(fd.SearchSpace({"item": catalogue}), LADDER, direction="maximize", storage=url, name="s")
    start = time.process_time()
    loaded = fd.load_study(url, "s")
    assert time.process_time() - start < 5.0  # 0.4 s where it was written
    assert loaded.space.parameters["item"] == catalogue


STUDY = """
name: beam
direction: minimize
budget: 20
parameters:
  length: {type: real, low: 1, high: 2}
  profile: {catalogue: profiles.csv, item: name, log: [inertia]}
parameter_constraints: [profile.area <= 30]
fidelities:
  - {name: coarse, cost: 1}
  - {name: fine, cost: 5}
initial: {coarse: 2, fine: 1}
command: ["{python}", "{here}/beam.py", "{profile}", "{profile.area}"]
environment: {INERTIA: "{profile.inertia}"}
templates: {input.txt: input.j2}
"""
PROFILES = "name,area,inertia\nIPE80,7.64,80.1\nIPE100,10.3,171\nIPE160,20.1,869\nIPE600,156,92080\n"
PROGRAM = """
import json, os, sys
from pathlib import Path
name, area = sys.argv[1:]
query = json.loads(Path("query.json").read_text())
assert query["params"]["profile"] == name
assert query["descriptors"]["profile"]["area"] == float(area)
assert Path("input.txt").read_text() == f"{name} {area} {os.environ['INERTIA']}"
Path("result.json").write_text(json.dumps({"value": query["params"]["length"] * float(area)}))
"""


@pytest.fixture
def beam(tmp_path: Path) -> Path:
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "profiles.csv").write_text(PROFILES)
    (tmp_path / "beam.py").write_text(PROGRAM)
    (tmp_path / "input.j2").write_text("{{ profile }} {{ profile.area }} {{ descriptors.profile.inertia }}")
    return tmp_path / "study.yaml"


def test_a_study_file_names_a_csv_and_programs_get_names_and_descriptors(beam: Path) -> None:
    from fidelium.config.load import load_study_file

    file = load_study_file(beam)
    profile = file.definition.space.parameters["profile"]
    assert isinstance(profile, Catalogue)
    assert profile.log == ["inertia"]
    trial = fd.Trial(0, {"length": 1.5, "profile": "IPE160"}, file.definition.ladder[0])
    assert file.program.run(trial).value == pytest.approx(1.5 * 20.1)


def test_the_command_line_runs_a_study_with_a_catalogue(beam: Path) -> None:
    from typer.testing import CliRunner

    from fidelium.cli.app import app

    run = CliRunner()
    checked = run.invoke(app, ["check", str(beam)])
    assert checked.exit_code == 0, checked.output
    assert "profile: 4 items, 2 descriptors; on a log scale: inertia" in " ".join(checked.output.split())
    done = run.invoke(app, ["run", str(beam)])
    assert done.exit_code == 0, done.output
    table = beam.parent / "trials.csv"
    assert run.invoke(app, ["export", str(beam), str(table)]).exit_code == 0
    assert "IPE600" not in table.read_text()
    more = beam.parent / "more.csv"
    more.write_text("length,profile,fidelity,value\n1.25, IPE100,fine,12.9\n")
    imported = run.invoke(app, ["import", str(beam), str(more)])
    assert imported.exit_code == 0, imported.output
    more.write_text("length,profile,fidelity,value\n1.25,IPE101,fine,12.9\n")
    refused = run.invoke(app, ["import", str(beam), str(more)])
    assert isinstance(refused.exception, SettingError)
    assert "line 2, column 'profile': expected one of the 4 items" in str(refused.exception)
    designs = beam.parent / "designs.csv"
    designs.write_text("length,profile\n1.5,IPE80\n")
    predicted = run.invoke(app, ["predict", str(beam), "--designs", str(designs)])
    assert predicted.exit_code == 0, predicted.output


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("catalogue: profiles.csv", "catalogue: profile.csv", "cannot read the catalogue"),
        ("item: name", "item: nam", "no column 'nam'; did you mean 'name'"),
        ("item: name", "items: name", "unknown key; did you mean item?"),
        ("log: [inertia]", "log: [weight]", "log names the descriptor 'weight'"),
        ("log: [inertia]", "descriptors: [weight]", "no column 'weight'"),
        ("catalogue: profiles.csv, item: name", "item: name", "type is missing"),
        ("catalogue: profiles.csv", "catalogue: {a: {area: 1, inertia: 2}}", "item names a column of a CSV file"),
        ("{catalogue: profiles.csv, item: name,", "{catalogue: {a: {inertia: 2}},", "needs 2 to 100000 items, got 1"),
        ("profile.area <= 30", "profile.weight <= 30", "unknown parameter 'profile.weight'"),
        ('"{profile.area}"', '"{profile.weight}"', "unknown name {profile.weight}"),
    ],
)
def test_a_bad_catalogue_in_a_study_file_is_one_sentence_with_its_line(
    beam: Path, before: str, after: str, message: str
) -> None:
    from fidelium.config.load import load_study_file

    beam.write_text(STUDY.replace(before, after))
    with pytest.raises(ConfigError) as caught:
        load_study_file(beam)
    assert message in str(caught.value)
    assert "study.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_items_may_be_in_the_study_file_itself(beam: Path) -> None:
    from fidelium.config.load import load_study_file

    inline = (
        "{catalogue: {80: {area: 7.6, inertia: 80}, 100: {area: 10.3, inertia: 171}}, descriptors: [area, inertia],"
    )
    beam.write_text(STUDY.replace("{catalogue: profiles.csv, item: name,", inline))
    profile = load_study_file(beam).definition.space.parameters["profile"]
    assert isinstance(profile, Catalogue)
    assert profile.table == {"80": {"area": 7.6, "inertia": 80}, "100": {"area": 10.3, "inertia": 171}}
