"""Data from another study: what fits and why the rest does not, added exactly once by however many processes."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

import fidelium as fd
from fidelium.definition import StudyDefinition
from fidelium.errors import SettingError, SpaceError
from fidelium.study.transfer import add_missing, fitting
from fidelium.trial_table import ObservationRow

LADDER = [fd.Fidelity("coarse", 1), fd.Fidelity("medium", 5), fd.Fidelity("fine", 10)]
SPACE = {"width": fd.Real(0, 1), "layers": fd.Integer(1, 4)}


@pytest.fixture
def old() -> fd.Study:
    """Six observations, then one that is excluded, a failed and a running trial."""
    study = fd.create_study(SPACE, LADDER, direction="minimize", strategy="random")
    for number, rung in enumerate(["coarse", "coarse", "medium", "fine", "fine", "fine", "fine"]):
        study.add_observation({"width": number / 8, "layers": 1 + number % 2}, rung, float(number))
    study.exclude(6)
    study.tell(study.ask(), failed="no mesh")
    study.ask()
    return study


def definition(space=SPACE, ladder=LADDER) -> StudyDefinition:
    return StudyDefinition.of(space, ladder, "minimize", strategy="random")


def values(transfer) -> list[float]:
    return [row.value for row in transfer.observations]


ENDED = {"excluded": 1, "failed": 1, "running": 1}


def test_the_same_problem_takes_every_observation(old):
    transfer = fitting(old.definition, old.trials, definition())
    assert values(transfer) == [0, 1, 2, 3, 4, 5]
    assert [row.params for row in transfer.observations] == [trial.params for trial in old.trials[:6]]
    assert transfer.left_out == ENDED


@pytest.mark.parametrize(
    ("space", "ladder", "fixed", "kept", "reasons"),
    [
        (SPACE, [LADDER[0], LADDER[2]], {}, [0, 1, 3, 4, 5], {"at fidelity 'medium', which the new study has not": 1}),
        (SPACE, LADDER[::-1], {}, [0, 1, 2, 3, 4, 5], {}),  # other costs and another order: by name
        (
            SPACE | {"width": fd.Real(0.2, 2)},
            LADDER,
            {},
            [2, 3, 4, 5],
            {"with 'width' outside of the new study's values": 2},
        ),
        (SPACE | {"layers": fd.Real(0, 9)}, LADDER, {}, [0, 1, 2, 3, 4, 5], {}),  # a type that takes the old values
        (
            SPACE | {"angle": fd.Real(0, 90)},
            LADDER,
            {},
            [],
            {"without the parameter 'angle' (--fill angle=VALUE says which value they had)": 6},
        ),
        (SPACE | {"angle": fd.Real(0, 90)}, LADDER, {"angle": 45}, [0, 1, 2, 3, 4, 5], {}),
        (
            {"width": fd.Real(0, 1)},
            LADDER,
            {},
            [],
            {"with the parameter 'layers', which the new study has not (--fill layers=VALUE takes one value)": 6},
        ),
        ({"width": fd.Real(0, 1)}, LADDER, {"layers": 2}, [1, 3, 5], {"with another 'layers' than 2": 3}),
    ],
)
def test_what_fits_and_why_the_rest_does_not(old, space, ladder, fixed, kept, reasons):
    rungs = [fd.Fidelity(rung.name, cost) for cost, rung in enumerate(ladder, 1)]
    new = definition(space, rungs)
    transfer = fitting(old.definition, old.trials, new, fixed)
    assert values(transfer) == kept
    assert transfer.left_out == reasons | ENDED
    for row in transfer.observations:
        assert new.space.validate(row.params) == row.params
        assert all(row.params.get(name, value) == value for name, value in fixed.items())


@pytest.mark.parametrize(
    ("fixed", "error", "message"),
    [
        ({"nope": 1}, SettingError, "neither study has a parameter 'nope'"),
        ({"width": 1}, SettingError, "both studies have the parameter 'width'"),
        ({"angle": 91}, SpaceError, r"expected a number in \[0, 90\], got 91"),
        ({"layers": 9}, SpaceError, r"expected a whole number in \[1, 4\], got 9"),
    ],
)
def test_fixed_values_that_make_no_sense_are_refused(old, fixed, error, message):
    new = definition({"width": fd.Real(0, 1), "angle": fd.Real(0, 90)})
    with pytest.raises(error, match=message):
        fitting(old.definition, old.trials, new, fixed)


ROWS = [ObservationRow({"width": number / 40, "layers": 1}, "coarse", float(number % 20)) for number in range(40)]


def test_observations_are_added_once_however_often_and_those_made_twice_twice():
    study = fd.create_study(SPACE, LADDER, direction="minimize", strategy="random")
    rows = [*ROWS[:3], ROWS[0]]
    assert add_missing(study, rows[:2]) == 2  # interrupted here
    study.ask()
    assert add_missing(study, rows) == 2
    assert add_missing(study, rows) == 0
    given = [(trial.params["width"], trial.value) for trial in study.trials if trial.given]
    assert Counter(given) == Counter((row.params["width"], row.value) for row in rows)


def test_the_order_of_the_parameters_does_not_double_an_observation():
    study = fd.create_study(SPACE, LADDER, direction="minimize", strategy="random")
    turned = [ObservationRow(dict(reversed(row.params.items())), row.fidelity, row.value) for row in ROWS]
    assert add_missing(study, ROWS) == 40
    assert add_missing(study, turned) == 0


def test_many_at_once_add_every_observation_once(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    fd.create_study(SPACE, LADDER, direction="minimize", strategy="random", storage=url).close()
    counts = []

    def work() -> None:
        with fd.load_study(url) as study:
            counts.append(add_missing(study, ROWS))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 40
    with fd.load_study(url) as study:
        assert sorted(trial.params["width"] for trial in study.trials) == [row.params["width"] for row in ROWS]
