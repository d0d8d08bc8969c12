"""`tune`: one-line errors, and a table with code to paste."""

from __future__ import annotations

import json

import pytest

from fidelium.cli import main
from fidelium.surrogates.stacked_dnn.architecture import StackArchitecture
from fidelium.tuning import search


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing option '--problem'"),
        (["--problem", "nope"], "unknown problem 'nope'"),
        (["--problem", "park1", "--method", "grid"], "unknown method 'grid'"),
        (["--problem", "park1", "--splits", "0"], "greater than or equal to 1"),
        (["--problem", "park1", "--method", "smac", "--seconds", "0"], "seconds must be above 0, got 0.0"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        main(["tune", *arguments])
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err.strip().splitlines()[-1]


def test_the_quick_choice_is_printed_and_written(capsys, tmp_path, monkeypatch):
    few = (StackArchitecture((2, 2), (4, 4)), StackArchitecture((2, 2), (3, 3), 1e-2))
    monkeypatch.setattr(search, "few_architectures", lambda fidelities: few)
    file = tmp_path / "tuned.json"
    options = ["--problem", "park1", "--splits", "1", "--epochs", "20", "--json", str(file)]
    with pytest.raises(SystemExit) as end:
        main(["tune", *options])
    assert end.value.code == 0
    out, _ = capsys.readouterr()
    (found,) = json.loads(file.read_text())
    scores = [each["score"] for each in found["scored"]]
    winner = few[scores.index(max(scores))]
    for text in ("default", "2x4 / 2x4, rate 0.001", f"{scores[0]:.3f}", f"{max(scores):.3f}"):
        assert text in out
    assert f"architecture: {{depths: {list(winner.depths)}, widths: {list(winner.widths)}, " in out
