"""`bench` prints and writes its tables."""

from __future__ import annotations

import json

import pytest

from fidelium.cli import main


def test_bench_speed_measures_in_new_processes(capsys, tmp_path):
    file = tmp_path / "speed.json"
    with pytest.raises(SystemExit) as end:
        main(["bench", "speed", "--strategy", "random", "--sizes", "3/2/1", "--steady", "2", "--json", str(file)])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert "3/2/1" in printed
    assert "random: 3 suggestions of a new process" in printed
    report = json.loads(file.read_text())
    (result,) = report["results"]
    assert result["sizes"] == [3, 2, 1]
    assert result["steady"]["total"] > 0
    assert 0 < result["first_filled"] < result["all_seconds"]
    assert result["all_processor"] > 0
    assert result["suggestions"] == 3
    assert 10 < result["peak_mb"] < 1000  # of the measured process alone: random search does not import JAX
    assert set(report["versions"]) == {"python", "fidelium", "jax", "jaxlib", "numpy", "scipy"}
    assert report["machine"]["cores"] >= 1


def test_bench_regret_prints_and_writes_its_tables(capsys, tmp_path):
    file = tmp_path / "table.md"
    common = ["bench", "regret", "--problem", "park1", "--strategy", "random", "--seeds", "0,1", "--budget", "20"]
    for announced in ("2 studies, about", "2 studies, 2 already complete"):  # the second time from the records
        with pytest.raises(SystemExit) as end:
            main([*common, "--out", str(tmp_path / "out"), "--markdown", str(file)])
        assert end.value.code == 0
        out, err = capsys.readouterr()
        assert "park1: simple regret" in out
        assert announced in err
    assert "| strategy | 20 |" in file.read_text()


def test_bench_run_writes_everything_into_one_folder(capsys, tmp_path):
    spec = tmp_path / "small.yaml"
    spec.write_text("{name: small, problems: {park1: {budget: 60}}, strategies: [random], seeds: 0-3}")
    with pytest.raises(SystemExit) as end:
        main(["bench", "run", str(spec), "--quick", "--out", str(tmp_path / "out")])
    assert end.value.code == 0
    assert "park1: recommended design, median over 2 seeds" in " ".join(capsys.readouterr().out.split())
    names = {path.name for path in (tmp_path / "out").iterdir()}
    pictures = {f"small-{what}.{kind}" for what in ("regret", "time") for kind in ("html", "png")}
    records = {f"park1_random_20_seed{seed}.jsonl" for seed in (0, 1)}
    assert names == pictures | records | {"report.md", ".lock"}
    assert "fidelium bench run" in (tmp_path / "out/report.md").read_text()
