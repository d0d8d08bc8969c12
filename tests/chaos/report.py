"""The tables of what was tried and found, on the terminal and in docs/chaos.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import fuzz, verdict
from tests.chaos.fuzz import Tally
from tests.chaos.verdict import Verdict

BEGIN, END = "<!-- written by make chaos -->", "<!-- end -->"
"""What `--report` writes stands between these lines."""

_WAYS = {"run": "`fidelium run`", "worker": "with `fidelium worker`", "dask": "`run --dask`"}
_INPUTS = {
    "spaces": "spaces, ladders, designs",
    "results": "result files, all rules",
    "tables": "CSV to import, designs",
    "answers": "JSON for `tell -`",
    "documents": "study files (YAML)",
    "commands": "command lines",
}
_LEFT = {"left": "processes left", "traceback": "tracebacks"}


@dataclass(frozen=True)
class Outcome:
    """Everything that one command has tried and found.

    Args:
        command: how to repeat it.
        date: when.
        minutes: how long it took.
        verdicts: of the studies under fire.
        tallies: of the inputs, by target.
    """

    command: str
    date: str
    minutes: float
    verdicts: Sequence[Verdict]
    tallies: dict[str, Tally]

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not any(found.findings for found in self.verdicts) and not any(t.failed for t in self.tallies.values())

    def markdown(self) -> str:
        """The tables."""
        parts = [
            f"`{self.command}` on {self.date}, {self.minutes:.0f} minutes.",
            "",
            *_table(_kill_rows(self.verdicts)),
        ]
        parts += ["", *_table(_target_rows(self.verdicts)), "", *_table(_input_rows(self.tallies))]
        return "\n".join(parts) + "\n"

    def findings(self) -> str:
        """Every finding with what repeats it."""
        lines: list[str] = []
        for found in self.verdicts:
            for finding in found.findings:
                lines.append(f"{finding.fault}: study {found.plan.number} ({found.plan}): {finding.text}")
        for name, tally in self.tallies.items():
            lines += [f"{times} x {name} {error} at {where}" for (error, where), times in tally.kinds.items()]
            lines += [
                f"--repeat {fault.target}:{fault.index}: {fault.error}\n    {fault.given}" for fault in tally.faults
            ]
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        """Put the tables into a page, in place of those of the last time."""
        page = path.read_text(encoding="utf-8") if path.exists() else f"# Chaos\n\n{BEGIN}\n{END}\n"
        before, _, rest = page.partition(BEGIN)
        _, _, after = rest.partition(END)
        path.write_text(f"{before}{BEGIN}\n{self.markdown()}{END}{after}", encoding="utf-8")


def _kill_rows(verdicts: Sequence[Verdict]) -> list[list[str]]:
    head = ["studies under fire", "studies", "kills", "server restarts", "trials done", "failed", "run again"]
    rows = [[*head, *(_LEFT.get(fault, fault) for fault in verdict.FAULTS)]]
    cells = sorted({(found.plan.storage, found.plan.way, found.plan.is_modelled) for found in verdicts})
    for storage, way, modelled in cells:
        own = [v for v in verdicts if (v.plan.storage, v.plan.way, v.plan.is_modelled) == (storage, way, modelled)]
        name = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[storage]
        rows.append([f"{name}, {_WAYS[way]}{', with a model' if modelled else ''}", *_kill_cells(own)])
    return [*rows, ["**all**", *_kill_cells(verdicts)]]


def _kill_cells(verdicts: Sequence[Verdict]) -> list[str]:
    states = sum((found.states for found in verdicts), Counter[str]())
    faults = Counter(finding.fault for found in verdicts for finding in found.findings)
    counts = [
        len(verdicts),
        sum(len(found.kills) for found in verdicts),
        sum(found.restarts for found in verdicts),
        states["done"],
        states["failed"],
        sum(found.reruns for found in verdicts),
        *(faults[fault] for fault in verdict.FAULTS),
    ]
    return [f"{count:,}" for count in counts]


def _target_rows(verdicts: Sequence[Verdict]) -> list[list[str]]:
    kills = Counter(kill.role for found in verdicts for kill in found.kills)
    return [["killed", "times"], *([role, f"{times:,}"] for role, times in kills.most_common())]


def _input_rows(tallies: dict[str, Tally]) -> list[list[str]]:
    rows = [["inputs", "tried", "accepted", "refused", *fuzz.FAULTS]]
    total: list[int] = []
    for name, tally in tallies.items():
        faults = tally.by_fault
        counts = [tally.tried, tally.accepted, tally.refused, *(faults[fault] for fault in fuzz.FAULTS)]
        rows.append([_INPUTS[name.partition(":")[0]], *(f"{count:,}" for count in counts)])
        total = [a + b for a, b in zip(total, counts, strict=True)] if total else counts
    return [*rows, ["**all**", *(f"{count:,}" for count in total)]]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown, aligned for a terminal as well."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join([row[0].ljust(widths[0]), *_right(row, widths)]) + " |" for row in rows]
    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]) + "|"
    return [lines[0], rule, *lines[1:]]


def _right(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
