"""Results that a script pipes into `fidelium tell STUDY -`."""

from __future__ import annotations

import io
import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import fidelium as fd
from fidelium.cli import ask_tell
from tests.chaos.inputs.base import demand
from tests.chaos.inputs.hostile import anything, encoded, mutated, text

_GOOD = (
    '{"number": 0, "value": 1.5}',
    '{"number": 1, "value": -2, "measured_cost": 3.5}',
    '{"number": 2, "failed": "no mesh"}',
    '{"number": "1", "value": 1e3}',
)
_KEYS = ("number", "value", "failed", "measured_cost")


class Answers:
    """JSON on stdin is refused, or finishes the trial that it names and no other."""

    def __init__(self, folder: Path) -> None:
        del folder
        self.study = _new_study()

    def draw(self, chance: random.Random) -> bytes:
        if chance.random() < 0.5:
            return encoded(chance, mutated(chance, chance.choice(_GOOD)))
        fields = {key: anything(chance, 1) for key in _KEYS if chance.random() < 0.6}
        if chance.random() < 0.7:
            fields["number"] = chance.randint(0, 3)
        try:
            return encoded(chance, json.dumps(fields, ensure_ascii=chance.random() < 0.5))
        except ValueError:  # an integer with too many digits
            return encoded(chance, text(chance))

    def try_out(self, given: bytes) -> None:
        before = self.study.trials
        with self._in_place(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
            try:
                ask_tell.tell("study.yaml", "-")
            finally:
                sys.stdin = stdin
                after = self.study.trials
                if after != before:
                    self.study = _new_study()
        changed = [trial for trial, old in zip(after, before, strict=True) if trial != old]
        demand(len(changed) == 1, f"it changed {changed}")

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """The command finds a study in memory in place of a file's."""

        @contextmanager
        def opened(*_: object, **__: object) -> Iterator[fd.Study]:
            yield self.study

        with mock.patch.multiple(ask_tell, find=lambda *_: None, open_study=opened):
            yield


def _new_study() -> fd.Study:
    ladder = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 4)]
    study = fd.create_study({"x": fd.Real(0, 1)}, ladder, direction="minimize", strategy="random", initial={})
    for _ in range(4):
        study.ask()
    return study
