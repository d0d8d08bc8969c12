"""`enqueue`, `prioritise`, `note` and `tag`."""

from __future__ import annotations

import csv
import json

import pytest


def status(call, path):
    return json.loads(call("status", path, "--json").out)


def changes(call, path):
    return [(c["action"], c["trial"]) for c in json.loads(call("changes", path, "--json").out)]


DESIGN = ("x=0.3", "count=2", "kind=steel")


def test_an_enqueued_design_is_run_next_and_recorded(call, study_file):
    path = study_file(12)
    answer = call("enqueue", path, *DESIGN, "--note", "I believe in it", "--tag", "mine")
    assert (answer.code, answer.out.splitlines()[0]) == (0, f"1 trial (0) queued; run with: fidelium run {path}")
    assert "0 at fine: x = 0.3, count = 2, kind = steel [mine]: I believe in it" in answer.out
    assert call("enqueue", path, "x=0.5", "count=1", "kind=steel", "--fidelity", "coarse", "--priority", "2").code == 0
    now = status(call, path)
    assert [(t["number"], t["fidelity"], t["priority"]) for t in now["queued"]] == [(1, "coarse", 2), (0, "fine", 0)]
    assert (now["reserved"], now["annotated"]) == (6, [{"number": 0, "tags": ["mine"], "note": "I believe in it"}])
    shown = call("status", path).out
    assert all(part in shown for part in ("queued: 2", "priority", "I believe in it", "mine"))
    asked = json.loads(call("ask", path).out)
    assert (asked["number"], asked["params"]["x"]) == (1, 0.5)
    call("tell", path, "1", "--give-back")
    assert call("run", path, "--quiet").code == 0
    assert status(call, path)["best"]["number"] == 0
    # they count as runs of the initial design of 2 and 2
    assert status(call, path)["fidelities"] == [
        {"name": "coarse", "cost_each": 1, "trials": 2, "given": 0, "cost": 2},
        {"name": "fine", "cost_each": 5, "trials": 2, "given": 0, "cost": 10},
    ]
    assert changes(call, path) == [("enqueue", 0), ("enqueue", 1)]
    assert "at fine: I believe in it" in call("changes", path).out


def test_designs_that_are_not_valid_or_not_affordable_are_refused(call, study_file):
    path = study_file(12)
    for wrong, said in (
        (("x=7", "count=2", "kind=steel"), "parameter 'x'"),
        (("x=0.3", "count=2"), "missing parameter 'kind'"),
        (("x=0.3", "x=0.3", "count=2", "kind=steel"), "each name once"),
        ((*DESIGN, "--fidelity", "finest"), "finest"),
        ((*DESIGN, "--priority", "10000000"), "priority"),
        ((*DESIGN, "--tag", "two words"), "tag"),
        ((), "pass a design"),
    ):
        answer = call("enqueue", path, *wrong)
        assert (answer.code, answer.out) == (2, ""), wrong
        assert said in answer.err
        assert len(answer.err.strip().splitlines()) == 1
    assert "has not been started" in call("status", path).err  # nothing was created
    answer = call("enqueue", path, *DESIGN, "--budget", "4.9")
    assert (answer.code, "nothing was queued: raise the budget" in answer.err) == (2, True)
    assert status(call, path)["trials"] == 0
    assert call("enqueue", path, *DESIGN).code == call("enqueue", path, *DESIGN).code == 0
    answer = call("enqueue", path, *DESIGN)
    assert (answer.code, "only 2 of the budget of 12 is left" in answer.err) == (2, True)


def test_designs_come_from_a_csv_file_all_or_none(call, study_file, tmp_path):
    path, file = study_file(12), tmp_path / "designs.csv"
    file.write_text(
        "kind,x,count,fidelity,priority,note,tags\n"
        "steel,0.1,1,coarse,3,first,\n"
        "wood,0.1,1,coarse,,,\n"
        "steel,0.2,9,medium,x,,a b\n"
    )
    answer = call("enqueue", path, "--from", file)
    assert answer.code == 2
    for said in (
        "line 3, column 'kind'",
        "line 4, column 'count'",
        "line 4, column 'fidelity'",
        "'priority'",
        "'tags'",
    ):
        assert said in answer.err
    assert "has not been started" in call("status", path).err
    rows = ["kind,x,count,fidelity,priority,note,tags", 'steel,0.1,1,coarse,3,first,"a,b"', "steel,0.2,2,,,,"]
    file.write_text("\n".join(rows))
    answer = call("enqueue", path, "--from", file, "--fidelity", "coarse", "--note", "from a file", "--json")
    assert json.loads(answer.out) == {"queued": [0, 1]}
    assert [t["number"] for t in status(call, path)["queued"]] == [0, 1]
    assert status(call, path)["annotated"] == [
        {"number": 1, "tags": [], "note": "from a file"},
        {"number": 0, "tags": ["a", "b"], "note": "first"},
    ]
    file.write_text("kind,x,count\nsteel,0.1,1\nsteel,0.2,2\nsteel,0.3,2\n")
    answer = call("enqueue", path, "--from", file)  # three at fine, for 15: none of them
    assert (answer.code, status(call, path)["trials"]) == (2, 2)


def test_a_parameter_constraint_holds_for_enqueued_designs(call, study_file, tmp_path):
    path = study_file(12, fidelities='parameter_constraints: ["x * count <= 0.5"]\nfidelities')
    assert "violates 'x * count <= 0.5'" in call("enqueue", path, *DESIGN).err
    file = tmp_path / "designs.csv"
    file.write_text("kind,x,count\nsteel,0.1,1\nsteel,0.9,2\n")
    answer = call("enqueue", path, "--from", file)
    assert (answer.code, "line 3: the design violates" in answer.err) == (2, True)
    assert "has not been started" in call("status", path).err


def test_what_a_smaller_budget_does_not_pay_for_waits(call, study_file):
    path = study_file(12)
    call("enqueue", path, *DESIGN)
    answer = call("run", path, "--budget", "4")
    assert answer.code == 0
    assert "1 queued trial waits for a larger budget (0): it costs 5" in answer.err
    now = status(call, path)
    assert (now["spent"] <= 4, now["states"]["queued"]) == (True, 1)
    assert call("run", path, "--quiet").code == 0
    assert status(call, path)["states"]["queued"] == 0


def test_queued_trials_are_put_in_order(call, study_file):
    path = study_file(20)
    for x in ("x=0.1", "x=0.2", "x=0.3"):
        call("enqueue", path, x, *DESIGN[1:])
    assert call("prioritise", path, "2", "1", "--to", "5").out == "2 trials (2, 1) with priority 5\n"
    assert [json.loads(call("ask", path).out)["number"] for _ in range(3)] == [1, 2, 0]
    answer = call("prioritise", path, "0", "--to", "7")
    assert (answer.code, "it is running" in answer.err) == (2, True)
    assert call("prioritise", path).code == 2
    assert changes(call, path)[3:] == [("prioritise", 2), ("prioritise", 1)]


def test_notes_and_tags_are_shown_and_exported(call, study_file, tmp_path):
    path = study_file(12)
    call("run", path, "--quiet")
    assert call("note", path, "1", "checked by hand").out == "trial 1: note: checked by hand\n"
    assert call("tag", path, "0", "1", "suspicious").out == "2 trials (0, 1) tagged suspicious\n"
    assert json.loads(call("tag", path, "1", "mesh-3", "--json").out) == [
        {"number": 1, "tags": ["suspicious", "mesh-3"]}
    ]
    assert call("tag", path, "0", "suspicious", "--remove").out == "1 trial (0) no longer tagged suspicious\n"
    assert call("export", path, tmp_path / "all.csv").code == 0
    rows = list(csv.DictReader((tmp_path / "all.csv").read_text().splitlines()))
    assert [(row["priority"], row["note"], row["tags"]) for row in rows[:2]] == [
        ("0", "", ""),
        ("0", "checked by hand", "suspicious,mesh-3"),
    ]
    call("export", path, tmp_path / "all.json")
    assert json.loads((tmp_path / "all.json").read_text())["trials"][1]["tags"] == ["suspicious", "mesh-3"]
    assert call("note", path, "1", "").out == "trial 1: note removed\n"
    assert changes(call, path) == [("note", 1), ("tag", 0), ("tag", 1), ("tag", 1), ("untag", 0), ("note", 1)]
    assert "removed [before: checked by hand]" in call("changes", path).out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("tag", "0", "two words"), "one word"),
        (("tag", "0", "a,b"), "one word"),
        (("tag", "suspicious"), "numbers of the trials"),
        (("tag", "0", "suspicious", "--remove"), "has no tag 'suspicious'"),
        (("tag", "0", "99", "suspicious"), "no trial 99"),
        (("note", "99", "x"), "no trial 99"),
        (("note", "0", "x" * 10_001), "at most 10000 characters"),
        (("prioritise", "0", "--to", "1"), "it is done"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(call, study_file, command, said):
    path = study_file(12)
    call("run", path, "--quiet")
    name, *rest = command
    answer = call(name, path, *rest)
    assert (answer.code, answer.out, len(answer.err.strip().splitlines())) == (2, "", 1)
    assert said in answer.err
    assert changes(call, path) == []


def test_parameters_are_held_by_fix(call, study_file):
    path = study_file(12)
    asked = json.loads(call("ask", path, "--fix", "count=2").out)
    assert asked["params"]["count"] == 2
    call("tell", path, "0", "--give-back")
    assert call("run", path, "--quiet", "--fix", "count=3", "--fix", "kind=steel").code == 0
    assert call("worker", path, "--quiet", "--budget", "20", "--fix", "x=0.25").code == 0
    url = json.loads(call("status", path, "--json").out)
    assert url["states"]["queued"] == 1  # the first one has another count
    found = [trial["params"] for trial in trials(call, path)[1:]]
    assert all((p["count"], p["kind"]) == (3, "steel") or p["x"] == 0.25 for p in found)
    assert len(found) >= 5
    answer = call("recommend", path, "--fix", "x=0.25", "--json")
    assert json.loads(answer.out)["params"]["x"] == 0.25


def trials(call, path):
    out = path.parent / "all.json"
    out.unlink(missing_ok=True)
    assert call("export", path, out).code == 0
    return json.loads(out.read_text())["trials"]


@pytest.mark.parametrize("command", ["ask", "run", "worker", "recommend"])
@pytest.mark.parametrize(
    ("fix", "said"),
    [
        ("count", "--fix must look like name=value"),
        ("cuont=2", "unknown parameter 'cuont'"),
        ("count=9", "parameter 'count': expected a whole number in [1, 3]"),
        ("kind=wood", "parameter 'kind': expected one of"),
    ],
)
def test_what_cannot_be_held_is_refused_in_one_line(call, study_file, command, fix, said):
    path = study_file(12)
    call("ask", path)
    answer = call(command, path, "--fix", fix)
    assert (answer.code, answer.out, len(answer.err.strip().splitlines())) == (2, "", 1)
    assert said in answer.err
    assert json.loads(call("status", path, "--json").out)["trials"] == 1


def test_a_slice_without_a_valid_design_is_an_error_before_anything_is_created(call, study_file):
    path = study_file(12, fidelities='parameter_constraints: ["x * count <= 0.5", "x >= 0.4"]\nfidelities')
    answer = call("run", path, "--fix", "count=3")
    assert (answer.code, "with count = 3: cannot find a design" in answer.err) == (2, True)
    assert "has not been started" in call("status", path).err


def test_rules_of_the_command_line_stop_a_run_which_is_said_and_overruled(call, study_file):
    path = study_file(12, fidelities="stop: {goal: 100}\nfidelities")
    answer = call("run", path)
    assert answer.code == 0
    assert "starting nothing more: trial 2 reaches the goal of 100" in answer.err
    assert len(trials(call, path)) == 3  # two coarse ones, which do not count, and one at fine
    assert "stopped by goal: trial 2 reaches the goal of 100 with" in call("status", path).out
    stopped = status(call, path)["stopped"]
    assert (stopped["rule"], stopped["budget"]) == ("goal", 12)
    assert changes(call, path) == [("stop", None)]
    again = call("run", path)
    assert "stopped before by: goal: trial 2 reaches the goal of 100" in again.err
    assert len(trials(call, path)) == 3
    assert call("run", path, "--no-stop", "--quiet").code == 0
    assert len(trials(call, path)) == 4
    assert status(call, path)["stopped"] is None
    more = call("run", path, "--budget", "17")
    assert "the budget was 12 then: continuing without this rule" in more.err
    assert len(trials(call, path)) == 5


def test_a_run_stops_when_nothing_is_worth_its_cost(call, study_file):
    path = study_file(60)
    answer = call("run", path, "--worth", "0.001")
    assert answer.code == 0
    assert "costs 5" in answer.err
    assert len(trials(call, path)) == 4  # the initial design
    assert call("run", path, "--worth", "-1").err.startswith("error: stop: worth must be a number above 0")
    assert call("run", path, "--goal", "nan").code == 2
