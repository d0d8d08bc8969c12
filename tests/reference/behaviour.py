"""Record what fidelium does, and compare two records: for changes that must not change it.

    python tests/reference/behaviour.py record before.json      # about 6 minutes; one strategy: --strategy mf-mes
    python tests/reference/behaviour.py compare before.json after.json

A record holds the first ten queries after the initial design of every strategy on three problems (seed 0), and what
every reading command prints about a stored study. It uses public names only, so any version can run it. Queries depend
on the machine's rounding: compare records of one machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from difflib import unified_diff
from pathlib import Path
from typing import Any

import fidelium as fd

STRATEGIES = (
    "dnn-mfbo",
    "dnn-mfbo-paper",
    "mf-mes",
    "mf-pes",
    "mf-gp-ucb",
    "mf-sko",
    "mtnn-bo",
    "sf-mes",
    "sf-ei",
    "nargp-mes",
    "random",
)
PROBLEMS = ("branin", "park1", "mixed")
QUERIES = 10
TOLERANCE = 1e-9

STUDY = """
name: beam
direction: minimize
budget: 60
parameters:
  height: {type: real, low: 0.02, high: 0.2, log: true}
  layers: {type: integer, low: 1, high: 4}
  core: {type: categorical, choices: [foam, wood]}
fidelities:
  - {name: coarse, cost: 1}
  - {name: fine, cost: 10}
command: ["{python}", simulator.py, "{query}", "{result}"]
initial: {coarse: 6, fine: 2}
"""

SIMULATOR = """
import json, sys
query = json.load(open(sys.argv[1]))
x, fine = query["params"], query["fidelity"] == "fine"
value = (x["height"] - 0.08) ** 2 * 100 + 0.1 * x["layers"] + 0.2 * (x["core"] == "wood") + 0.05 * (not fine)
failed = {"failed": "too many layers"} if x["layers"] == 4 and not fine else {"value": value, "cost": 1.5}
json.dump(failed, open(sys.argv[2], "w"))
"""

COMMANDS = (
    ("status", "study.yaml", "--json"),
    ("best", "study.yaml", "--json"),
    ("recommend", "study.yaml", "--json"),
    ("predict", "study.yaml", "--at", "height=0.1", "--at", "layers=2", "--at", "core=foam", "--json"),
    ("export", "study.yaml", "trials.csv"),
    ("storage", "info", "study.yaml", "--json"),
    ("ask", "study.yaml", "--budget", "200", "--json"),
    ("strategies", "--json"),
    ("problems", "--json"),
    ("schema",),
    ("status", "study.yaml"),
    ("best", "study.yaml"),
    ("recommend", "study.yaml"),
)


def queries(problem_name: str, strategy: str) -> dict[str, Any]:
    """The first queries after the initial design, and the seconds they took without the first."""
    problem = fd.problems.get(problem_name)
    study = fd.create_study(
        problem.space,
        problem.ladder,
        direction=str(problem.direction),
        strategy=strategy,
        seed=0,
        initial=problem.initial,
    )
    first = sum(problem.initial.values())
    seconds = []
    for _ in range(first + QUERIES):
        began = time.perf_counter()
        trial = study.ask()
        seconds.append(time.perf_counter() - began)
        study.tell(trial, problem.value(trial.params, trial.fidelity.name))
    asked = [
        [trial.fidelity.name, trial.params, trial.value] for trial in study.trials[first - 2 :]
    ]  # two of the design as well
    recommended = study.recommend()
    return {
        "asked": asked,
        "recommended": [recommended.params, recommended.mean, recommended.std],
        "seconds": sorted(seconds[first + 1 :])[len(seconds[first + 1 :]) // 2],
    }


def commands() -> dict[str, str]:
    """What the commands print about one stored study."""
    program = str(Path(sys.executable).parent / "fidelium")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "study.yaml").write_text(STUDY)
        (folder / "simulator.py").write_text(SIMULATOR)
        environment = os.environ | {"COLUMNS": "120"}

        def call(*words: str) -> str:
            done = subprocess.run(
                [program, *words], cwd=folder, capture_output=True, text=True, check=False, env=environment
            )
            return _without_times(f"exit {done.returncode}\n{done.stdout}{done.stderr}".replace(name, "FOLDER"))

        said = {"run": call("run", "study.yaml", "--workers", "1")}
        for words in COMMANDS:
            said[" ".join(words)] = call(*words)
            if words[0] == "export":
                said["trials.csv"] = _without_times((folder / "trials.csv").read_text())
        return said


def _without_times(text: str) -> str:
    """The text with seconds since 1970, dates, durations, paths of this machine and names of workers replaced."""
    text = re.sub(r"\b1[5-9]\d{8}(\.\d+)?\b", "TIME", text)
    text = re.sub(r"\b\d\d:\d\d:\d\d\b", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?", "TIME", text)
    text = re.sub(r"\b\d+(\.\d+)? ?(s|min|h)\b", "DURATION", text)
    return re.sub(r"[\w.-]+/\d+/[0-9a-f]{8}", "WORKER", text)


def difference(before: Any, after: Any) -> float:
    """The largest relative difference of two numbers in the same place, infinity if they differ otherwise."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return max((difference(before[key], after[key]) for key in before), default=0.0)
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return max((difference(*pair) for pair in zip(before, after, strict=True)), default=0.0)
    if type(before) is float and type(after) is float:
        return abs(before - after) / max(abs(before), 1.0)
    return 0.0 if before == after else math.inf


def compare(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Print what differs; whether nothing does."""
    same = True
    for case in before["queries"]:
        old, new = before["queries"][case], after["queries"].get(case)
        if new is None:
            print(f"{case}: not in the second record")
            same = False
            continue
        off = difference(old["asked"], new["asked"])
        advised = difference(old["recommended"], new["recommended"])
        ratio = new["seconds"] / old["seconds"]
        print(f"{case}: queries differ by {off:.1e}, recommendation by {advised:.1e}; seconds x {ratio:.2f}")
        same = same and max(off, advised) <= TOLERANCE
    for words in before["commands"]:
        old, new = (_without_times(record["commands"].get(words, "")) for record in (before, after))
        equal = old == new
        print(f"fidelium {words}: {'the same' if equal else 'DIFFERENT'}")
        if not equal:
            print("\n".join(unified_diff(old.splitlines(), new.splitlines(), "before", "after", lineterm="")))
            same = False
    return same


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    record = parts.add_parser("record")
    record.add_argument("out", type=Path)
    record.add_argument("--strategy", action="append")
    record.add_argument("--problem", action="append")
    against = parts.add_parser("compare")
    against.add_argument("before", type=Path)
    against.add_argument("after", type=Path)
    arguments = parser.parse_args()
    if arguments.part == "compare":
        same = compare(json.loads(arguments.before.read_text()), json.loads(arguments.after.read_text()))
        print("the same" if same else "NOT the same")
        sys.exit(0 if same else 1)
    found: dict[str, Any] = {"commands": commands(), "queries": {}}
    for strategy in arguments.strategy or STRATEGIES:
        for problem in arguments.problem or PROBLEMS:
            print(f"{strategy} on {problem}", flush=True)
            found["queries"][f"{strategy} on {problem}"] = queries(problem, strategy)
            arguments.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
