"""The search with SMAC3: over the paper's ranges, told every score, the same every time, and tidy."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from ConfigSpace import Configuration

from fidelium.errors import NoDataError, SettingError
from fidelium.history import Observations
from fidelium.randomness import Key
from fidelium.surrogates.stacked_dnn.architecture import StackArchitecture
from fidelium.tuning import search
from fidelium.tuning.cross_validation import CrossValidation
from fidelium.tuning.search import SmacSearch, best_scored, guiding_fidelities


def observed(*counts: int) -> list[Observations]:
    return [Observations(np.zeros((count, 1)), np.zeros(count)) for count in counts]


def quiet(share: float, score: float) -> None:
    assert 0 <= share <= 1


def test_a_fidelity_that_cannot_be_tested_is_guided_by_the_next_below_that_can():
    assert guiding_fidelities(observed(20, 20, 2)) == (0, 1, 1)
    assert guiding_fidelities(observed(2, 9, 3, 8)) == (1, 1, 1, 3)
    with pytest.raises(NoDataError, match="got 2/2"):
        guiding_fidelities(observed(2, 2))


def test_limits_that_leave_nothing_to_do_are_refused():
    with pytest.raises(SettingError, match="needs a limit"):
        SmacSearch(evaluations=None)
    with pytest.raises(SettingError, match="evaluations must be at least 1, got 0"):
        SmacSearch(evaluations=0)
    with pytest.raises(SettingError, match=r"seconds must be above 0, got 0\.0"):
        SmacSearch(seconds=0.0)


def test_without_smac_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(search, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"pip install 'fidelium\[tune\]'"):
        SmacSearch()


@dataclass(frozen=True)
class Bowl(CrossValidation):
    """A score that is known: best at rate 3e-2 and a first network of depth 8 and width 300."""

    def scores(self, observations, architectures, key, tick=lambda share: None):
        tick(0.5)
        (each,) = architectures
        off = (math.log10(each.learning_rate / 3e-2), (each.depths[0] - 8) / 5, math.log2(each.widths[0] / 300))
        return np.array([-sum(part**2 for part in off)])


@pytest.fixture(scope="module")
def found():
    return SmacSearch(Bowl(), evaluations=8).run(observed(20, 20, 2), Key((1,)), quiet)


def test_the_default_is_scored_first_and_all_are_different_and_in_the_papers_ranges(found):
    assert found[0].architecture == StackArchitecture.default(3)
    assert len({each.architecture for each in found}) == len(found) == 8
    for each in found:
        assert all(2 <= depth <= 12 for depth in each.architecture.depths)
        assert all(32 <= width <= 512 for width in each.architecture.widths)
        assert 1e-5 <= each.architecture.learning_rate <= 1e-1


def test_the_corners_and_the_middle_of_smacs_cube_are_those_of_the_papers_ranges():
    space = search._space([0, 1], seed=0)
    ends = [StackArchitecture((2, 2), (32, 32), 1e-5), StackArchitecture((12, 12), (512, 512), 1e-1)]
    for end, architecture in enumerate(ends):
        at = search._architecture(Configuration(space, vector=np.full(5, float(end))), (0, 1))
        assert (at.depths, at.widths) == (architecture.depths, architecture.widths)
        assert at.learning_rate == pytest.approx(architecture.learning_rate, rel=1e-12)
    middle = search._architecture(Configuration(space, vector=np.full(5, 0.5)), (0, 1))
    assert middle.depths == (7, 7)
    assert middle.widths == (128, 128)  # √(32 · 512): widths and rates are on logarithmic scales
    assert middle.learning_rate == pytest.approx(1e-3, rel=1e-12)


def test_smac_is_told_every_score_and_minimises_its_negative(monkeypatch):
    used = []
    begin = search._smac

    @contextmanager
    def watched(*arguments):
        with begin(*arguments) as (smac, first):
            used.append(smac)
            yield smac, first

    monkeypatch.setattr(search, "_smac", watched)
    scored = SmacSearch(Bowl(), evaluations=4).run(observed(20, 20, 2), Key((1,)), quiet)
    (smac,) = used
    told = [(search._architecture(smac.runhistory.get_config(trial.config_id), (0, 1, 1)), -value.cost)
            for trial, value in smac.runhistory.items()]  # fmt: skip
    assert told == [(each.architecture, each.score) for each in scored]
    (incumbent,) = smac.intensifier.get_incumbents()
    assert search._architecture(incumbent, (0, 1, 1)) == best_scored(scored).architecture


def test_a_target_with_two_observations_has_the_shape_of_the_fidelity_below(found):
    for each in found:
        assert each.architecture.depths[2] == each.architecture.depths[1]
        assert each.architecture.widths[2] == each.architecture.widths[1]
    assert any(each.architecture.depths[0] != each.architecture.depths[1] for each in found)


def test_the_same_key_finds_the_same_and_leaves_no_file(found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Configuration, "__hash__", lambda configuration: -hash(repr(configuration)))  # another salt
    search = SmacSearch(Bowl(), evaluations=8)
    assert search.run(observed(20, 20, 2), Key((1,)), quiet) == found
    assert list(tmp_path.iterdir()) == []
    assert SmacSearch(Bowl(), evaluations=2).run(observed(20, 20, 2), Key((2,)), quiet)[1] != found[1]


def test_when_the_time_is_up_what_is_being_scored_does_not_count_but_the_default_does():
    search = SmacSearch(Bowl(), evaluations=None, seconds=1e-6)
    scored = search.run(observed(20, 20, 2), Key((1,)), quiet)
    assert [each.architecture for each in scored] == [StackArchitecture.default(3)]
