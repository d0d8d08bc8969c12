"""`demo` prints its result and writes its figures."""

from __future__ import annotations

import pytest

from fidelium.cli import main


def test_the_demo_prints_its_result_and_writes_the_figure(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as end:
        main(["demo", "--problem", "park1", "--strategy", "random", "--budget", "60", "--out", str(tmp_path)])
    assert end.value.code == 0
    out = capsys.readouterr().out
    for part in (
        "recommended",
        "best observed",
        "optimum",
        "25.589",
        "high (target)",
        "share",
        "the recommended design: ",
        "overview.png",
    ):
        assert part in out
    # the initial design is cut to a third of the budget: 10 at 1 and 1 at 10; then random search has 4 at 10
    rows = [line.split() for line in out.splitlines()]
    assert ["low", "1", "10", "10", "17%"] in rows
    assert ["high", "(target)", "10", "5", "50", "83%"] in rows
    assert (tmp_path / "overview.html").stat().st_size > 1_000_000
    assert (tmp_path / "overview.png").stat().st_size > 10_000
