"""Architectures found on the initial data: which data those are, that the answer is kept, and that it is used."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from fidelium import create_study
from fidelium.acquisition.base import Designs
from fidelium.acquisition.entropy import EntropySearch, paper_gain
from fidelium.errors import FidelityError, UnknownNameError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Query, Trial, TrialState
from fidelium.randomness import Key, trial_key
from fidelium.space import Real, SearchSpace
from fidelium.strategies.base import Modelled, Strategy
from fidelium.strategies.dnn_mfbo import DnnMfbo, dnn_mfbo_paper
from fidelium.strategies.initial_design import default_sizes
from fidelium.strategies.searched import SearchedStrategy, initial_data
from fidelium.surrogates.stacked_dnn.architecture import StackArchitecture
from fidelium.surrogates.stacked_dnn.variational import VariationalStack
from fidelium.tuning import memory
from fidelium.tuning.search import QuickChoice, Scored, SmacSearch

SPACE = SearchSpace({"a": Real(0, 1), "b": Real(0, 1), "c": Real(0, 1)})
LADDER = FidelityLadder((Fidelity("low", 1), Fidelity("high", 10)))
SIZES = {"low": 5, "high": 2}
DEFAULT = StackArchitecture.default(2)


@dataclass(frozen=True)
class Told:
    """A search that prefers an architecture whose width says how many observations it saw, and counts its runs."""

    runs: list[int] = field(default_factory=list, repr=False)

    def run(self, observations, key, watch):
        seen = sum(len(each) for each in observations)
        self.runs.append(seen)
        return Scored(DEFAULT, -1.0), Scored(StackArchitecture((2, 2), (seen, seen), 1e-2), 0.0)


def tiny(architecture: StackArchitecture) -> DnnMfbo:
    designs = Designs(pool=12, local=0, starts=4)
    acquisition = EntropySearch(paper_gain, draws=4, draw_starts=4, designs=designs, raise_to_incumbent=False)
    return DnnMfbo(replace(VariationalStack.of(architecture), epochs=20), acquisition)


@pytest.fixture(autouse=True)
def _fresh_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("FIDELIUM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(memory, "_found", {})


def value(params, fidelity: Fidelity) -> float:
    return float(np.sin(3 * params["a"]) + params["b"] - 0.1 * fidelity.cost * params["c"])


def trials(*fidelities: str, given: bool = False, state: TrialState = TrialState.DONE, first: int = 0) -> list[Trial]:
    """Trials at these fidelities, numbered from `first`, at points that differ."""
    made: list[Trial] = []
    for number, name in enumerate(fidelities, first):
        params, rung = SPACE.decode(np.random.default_rng(number).random(3)), LADDER[LADDER.index(name)]
        done = state is TrialState.DONE
        reason = "crashed" if state is TrialState.FAILED else None
        made.append(Trial(number, params, rung, state, value(params, rung) if done else None, reason, given))
    return made


def history(*parts: list[Trial]) -> History:
    together = [trial for part in parts for trial in part]
    return History(SPACE, LADDER, Direction.MAXIMIZE, tuple(replace(t, number=n) for n, t in enumerate(together)))


DESIGN = trials(*["low"] * 5, *["high"] * 2)
LATER = trials("high", "low", "high", first=7)


def counts(*arguments) -> list[int] | None:
    data = initial_data(*arguments)
    return None if data is None else [len(seen) for seen in data]


# --- which data are the initial ones ---


def test_they_are_the_first_trials_up_to_the_sizes_of_the_design_and_stay_the_same():
    assert counts(history(DESIGN), SIZES) == [5, 2]
    assert counts(history(DESIGN, LATER), SIZES) == [5, 2]
    for before, after in zip(
        initial_data(history(DESIGN), SIZES) or (), initial_data(history(DESIGN, LATER), SIZES) or (), strict=True
    ):
        np.testing.assert_array_equal(before.unit_x, after.unit_x)
        np.testing.assert_array_equal(before.y, after.y)


def test_without_sizes_they_are_those_of_a_studys_default_design():
    sizes = default_sizes(SPACE, LADDER)
    design = trials(*["low"] * sizes["low"], *["high"] * sizes["high"])
    assert counts(history(design, LATER), None) == list(sizes.values())
    assert counts(history(design[:-1]), None) is None


def test_data_that_were_given_before_the_first_query_belong_to_them_and_later_ones_do_not():
    given = trials("low", "low", "high", given=True)
    assert counts(history(given, LATER), {}) == [2, 1]
    assert counts(history(given, LATER, given), {}) == [2, 1]
    assert counts(history(DESIGN, given, LATER, given), SIZES) == [7, 3]
    assert counts(history(given, DESIGN, LATER), SIZES) == [7, 2]  # given ones count: a high one of the design is left
    assert counts(history(LATER), {}) == [0, 0]


def test_they_are_waited_for_while_one_is_missing_or_running():
    assert counts(history(DESIGN[:-1]), SIZES) is None
    assert counts(history(DESIGN[:-1], trials("high", state=TrialState.RUNNING)), SIZES) is None


def test_a_failed_trial_counts_and_is_not_learned_from():
    assert counts(history(DESIGN[1:], trials("low", state=TrialState.FAILED), LATER), SIZES) == [4, 2]


def test_sizes_of_an_unknown_fidelity_are_refused():
    with pytest.raises(FidelityError, match="medium"):
        initial_data(history(DESIGN), {"medium": 3})


# --- what is done with them ---


def test_the_architecture_is_searched_once_and_kept_while_the_data_grow():
    search = Told()
    strategy = SearchedStrategy(search, tiny, SIZES)
    assert strategy.architecture(history(DESIGN)) == StackArchitecture((2, 2), (7, 7), 1e-2)
    assert strategy.architecture(history(DESIGN, LATER)) == StackArchitecture((2, 2), (7, 7), 1e-2)
    assert search.runs == [7]


def test_before_the_data_are_complete_or_with_too_few_the_default_serves():
    search = Told()
    assert SearchedStrategy(search, tiny, SIZES).architecture(history(DESIGN[:-1])) == DEFAULT
    few = trials("low", "low", "low", "high", "high", "high", given=True)
    assert SearchedStrategy(search, tiny, {}).architecture(history(few)) == DEFAULT
    assert search.runs == []


def test_another_process_finds_the_answer_in_its_file(monkeypatch):
    first = SearchedStrategy(Told(), tiny, SIZES).architecture(history(DESIGN))
    monkeypatch.setattr(memory, "_found", {})
    search = Told()
    assert SearchedStrategy(search, tiny, SIZES).architecture(history(DESIGN, LATER)) == first
    assert search.runs == []


def test_other_data_or_another_search_are_another_answer(tmp_path):
    @dataclass(frozen=True)
    class Other(Told):
        pass

    searches = Told(), Other()
    for search in searches:
        SearchedStrategy(search, tiny, SIZES).architecture(history(DESIGN))
    SearchedStrategy(searches[0], tiny, {"low": 4}).architecture(history(DESIGN))
    assert [search.runs for search in searches] == [[7, 4], [7]]
    assert len(list((tmp_path / "cache" / "architectures").iterdir())) == 3


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", '{"depths": [3, 3]}', '{"depths": [1], "widths": [1], "learning_rate": 1}']
)
def test_a_file_that_makes_no_sense_is_as_good_as_none(tmp_path, monkeypatch, broken):
    SearchedStrategy(Told(), tiny, SIZES).architecture(history(DESIGN))
    (file,) = (tmp_path / "cache" / "architectures").iterdir()
    file.write_text(broken)
    monkeypatch.setattr(memory, "_found", {})
    search = Told()
    found = SearchedStrategy(search, tiny, SIZES).architecture(history(DESIGN))
    assert found == StackArchitecture((2, 2), (7, 7), 1e-2)
    assert search.runs == [7]


@pytest.mark.parametrize("folder", ["", "/dev/null/no/folder"])
def test_without_a_cache_folder_it_is_remembered_in_the_process(monkeypatch, folder):
    monkeypatch.setenv("FIDELIUM_CACHE_DIR", folder)
    search = Told()
    for data in (history(DESIGN), history(DESIGN, LATER)):
        SearchedStrategy(search, tiny, SIZES).architecture(data)
    assert search.runs == [7]


def test_queries_and_model_are_those_of_the_strategy_with_that_architecture():
    strategy, data = SearchedStrategy(Told(), tiny, SIZES), history(DESIGN, LATER)
    inside = tiny(StackArchitecture((2, 2), (7, 7), 1e-2))
    assert isinstance(strategy, Strategy)
    assert isinstance(strategy, Modelled)
    pending = [Query(SPACE.decode(np.full(3, 0.5)), 0)]
    assert strategy.propose(data, pending, trial_key(0, 9)) == inside.propose(data, pending, trial_key(0, 9))
    points = np.random.default_rng(0).random((4, 3))
    for ours, theirs in zip(
        strategy.model(data, Key((5,))).predict(points, 1),
        inside.model(data, Key((5,))).predict(points, 1),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_a_study_searches_once_and_a_resumed_one_repeats(monkeypatch):
    def run() -> tuple[list, Told]:
        search = Told()
        strategy = SearchedStrategy(search, tiny, SIZES)
        study = create_study(SPACE, LADDER, direction="maximize", strategy=strategy, seed=4, initial=SIZES)
        study.optimize(lambda params, fidelity: value(params, fidelity), budget=40, progress=False)
        return [(trial.params, trial.fidelity.name) for trial in study.trials], search

    first, search = run()
    assert search.runs == [7]
    monkeypatch.setattr(memory, "_found", {})
    again, search = run()
    assert again == first
    assert search.runs == []


# --- how a user says it ---


def test_the_papers_strategy_without_a_search_is_what_it_always_was():
    chosen = StackArchitecture((2, 3), (64, 32), 3e-3)
    for architecture, surrogate in ((None, VariationalStack()), (chosen, VariationalStack.of(chosen))):
        strategy = dnn_mfbo_paper(architecture)
        assert isinstance(strategy, DnnMfbo)
        assert strategy.surrogate == surrogate


def test_the_quick_choice_is_a_word_and_other_words_are_refused():
    strategy = dnn_mfbo_paper("quick", initial=SIZES)
    assert isinstance(strategy, SearchedStrategy)
    assert strategy.search == QuickChoice()
    assert strategy.initial == SIZES
    assert strategy.strategy_of(DEFAULT).surrogate == VariationalStack.of(DEFAULT)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(UnknownNameError, match="'search', 'quick' or a StackArchitecture, got 'slow'"):
        dnn_mfbo_paper("slow")


def test_the_search_with_smac_is_limited_by_evaluations_alone():
    pytest.importorskip("smac")
    strategy = dnn_mfbo_paper("search")
    assert isinstance(strategy, SearchedStrategy)
    assert strategy.search == SmacSearch(evaluations=50, seconds=None)
