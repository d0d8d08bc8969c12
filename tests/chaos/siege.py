"""One study under fire: its processes are killed at chosen moments and started again, and its storage is watched."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fidelium.errors import FideliumError
from fidelium.history import Trial
from fidelium.storage import open_storage
from fidelium.study.resume import RESTARTS
from tests.chaos.crew import CHOOSERS, FIDELIUM, Crew, Member
from tests.chaos.plan import Plan
from tests.chaos.processes import Process, kill, marked
from tests.chaos.verdict import Finding, Kill, Verdict, judge, look, read_ledger
from tests.postgres import Server

PATIENCE = 240.0
"""Seconds that a study may take to its end after the last kill; it needs ten to thirty."""

_CLEAN_UP = 20.0
"""Seconds that guards may take to end what simulators have left behind."""

_MOST_RESTARTS = 5
"""How often processes that ended with an error are started again."""

_WEIGHTS = {"runner": 4, "worker": 3, "dask-worker": 4, "guard": 3, "simulator": 4}
"""How often a role is chosen, against the others that are alive."""

_DASK = str(Path(FIDELIUM).with_name("dask"))
_SCHEDULER = ("--port", "0", "--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", "scheduler.json")
_DASK_WORKER = ("--scheduler-file", "scheduler.json", "--nthreads", "1", "--no-nanny", "--no-dashboard")

_SIGNS = ("Traceback (most recent", "Fatal Python error", "Exception ignored in", "core dumped")


class Quota:
    """How many kills are left, shared by all studies.

    Args:
        total: how many there are to be.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.taken = 0
        self._lock = threading.Lock()

    @property
    def is_spent(self) -> bool:
        """Whether none is left."""
        return self.taken >= self.total

    def take(self) -> bool:
        """Reserve a kill; returns whether one was left."""
        with self._lock:
            left = self.taken < self.total
            self.taken += left
            return left

    def give_back(self) -> None:
        """A reserved kill hit nobody."""
        with self._lock:
            self.taken -= 1

    def close(self) -> None:
        """Let none be left."""
        with self._lock:
            self.total = self.taken


@dataclass
class Siege:
    """A study under fire.

    Args:
        plan: which study.
        folder: an empty folder of its own.
        url: where it is stored.
        cache: where compiled programs are kept.
        server: the server of its storage, to be restarted now and then; None for SQLite.
    """

    plan: Plan
    folder: Path
    url: str
    cache: Path
    server: Server | None = None
    kills: list[Kill] = field(default_factory=list)
    restarts: int = 0
    findings: list[Finding] = field(default_factory=list)
    seen: Sequence[Trial] = ()
    errors: int = 0

    def __post_init__(self) -> None:
        self.crew = Crew(self.folder, self.cache)
        self.chance: random.Random = self.plan.random()
        self.ledger = self.folder / "ledger"
        self.mark = str(self.folder)

    def run(self, quota: Quota) -> Verdict:
        """Start the study, kill, let it come to its end, and judge."""
        (self.folder / "study.yaml").write_text(self.plan.study_file(self.url))
        storage = open_storage(self.url)
        try:
            self._start()
            while self._is_under_way() and len(self.kills) < self.plan.kills and quota.take():
                if not self._strike():
                    quota.give_back()
                self._tend()
                with contextlib.suppress(FideliumError):  # the server may just be away
                    self._look(storage.open(self.plan.name).trials())
            self._come_to_an_end()
            self._look(storage.open(self.plan.name).trials())
            runs = read_ledger(self.ledger)
            self.findings += judge(self.plan, self.seen, runs, self.kills)
        finally:
            self._clean_up()
            storage.close()
        states = Counter(str(trial.state) for trial in self.seen)
        reruns = len(runs) - len({run.number for run in runs})
        return Verdict(self.plan, tuple(self.kills), self.restarts, states, reruns, tuple(self.findings))

    def give_up(self) -> None:
        """End all processes; from another thread."""
        self.crew.is_closed = True
        for _ in range(3):  # one may just be starting another
            for process in marked(self.mark):
                kill(process, self.mark)
            time.sleep(0.1)

    def _start(self) -> None:
        if self.plan.way == "dask":
            self.crew.start("dask-scheduler", [_DASK, "scheduler", *_SCHEDULER])
            _wait((self.folder / "scheduler.json").exists, 60.0)
            for _ in range(self.plan.helpers + 1):
                self.crew.start("dask-worker", [_DASK, "worker", *_DASK_WORKER])
        self._start_runner()
        if self.plan.way == "worker":
            _wait(self.ledger.exists, 60.0)  # a worker needs a study that was started
            for _ in range(self.plan.helpers):
                self.crew.start("worker", [FIDELIUM, "worker", "study.yaml", "--workers", str(self.plan.slots)])

    def _start_runner(self) -> None:
        options: list[str] = []
        if self.plan.way == "dask":
            options = ["--dask", json.loads((self.folder / "scheduler.json").read_text())["address"]]
        self.crew.start("runner", [FIDELIUM, "run", "study.yaml", *options])

    def _is_under_way(self) -> bool:
        return any(member.role in CHOOSERS for member in self.crew.members)

    def _strike(self) -> bool:
        """Wait for a moment and kill somebody, or restart the server; returns whether a process was killed."""
        self._await_moment()
        if self.server is not None and self.chance.random() < 0.08:
            self.server.restart(self.chance.choice(("fast", "immediate")), self.chance.choice((0.0, 0.0, 1.0, 4.0)))
            self.restarts += 1
            return False
        target = self._choose()
        if target is None:
            return False
        now = time.time()
        if not kill(target, self.mark):
            return False
        self.kills.append(Kill(now, target.role, target.crew, target.number, target.attempt))
        member = self.crew.named(target.crew)
        if member is not None and member.process.pid == target.pid:
            member.killed = True
            member.process.wait()
        return True

    def _await_moment(self) -> None:
        """Any moment, or just after a simulator has started or finished."""
        kind = self.chance.choice(("any", "start", "finish"))
        pause = self.chance.uniform(0.0, 6.0 if self.plan.is_modelled else 1.0)
        size = self._size()
        if kind == "any":
            time.sleep(pause)
            return
        _wait(lambda: self._has_line(kind, size), 3.0)
        time.sleep(self.chance.choice((0.0, 0.005, 0.02, 0.05)))

    def _size(self) -> int:
        return self.ledger.stat().st_size if self.ledger.exists() else 0

    def _has_line(self, event: str, since: int) -> bool:
        if self._size() == since:
            return False
        with self.ledger.open("rb") as file:
            file.seek(since)
            return any(line.startswith(event.encode()) for line in file)

    def _choose(self) -> Process | None:
        """A process of a role that is chosen first: there are more simulators than runners.

        None if there is none, or a trial was hit so often that fidelium would rightly give it up.
        """
        by_role: dict[str, list[Process]] = {}
        crew = {member.process.pid for member in self.crew.members}
        for process in marked(self.mark):
            if process.number is not None or process.pid in crew:  # else a fork that is about to be a guard
                by_role.setdefault(process.role, []).append(process)
            if process.attempt is not None and process.attempt > RESTARTS - 3:
                return None
        roles = [role for role in by_role if role in _WEIGHTS]
        if not roles or (roles == ["runner"] and self.chance.random() < 0.6):  # it starts longer than trials take
            return None
        (role,) = self.chance.choices(roles, [_WEIGHTS[role] for role in roles])
        return self.chance.choice(by_role[role])

    def _tend(self, *, helpers: bool = True) -> None:
        """Start again who was killed; note who ended by itself, and whether it may."""
        for member in [member for member in self.crew.members if not member.is_alive]:
            self.crew.remove(member)
            again = member.killed and (helpers or member.role != "worker")
            if not member.killed:
                again = not self._may_end(member) and self.errors <= _MOST_RESTARTS
            if again:
                self.crew.start(member.role, member.arguments)

    def _may_end(self, member: Member) -> bool:
        """Whether a process that was not killed may end as it did."""
        code, complaint = member.process.returncode, member.complaint
        if member.role in CHOOSERS and code == 0:
            return True
        self.errors += 1
        if not (code == 1 and "times in a row" in complaint):
            last = complaint.strip().splitlines()[-3:]
            self.findings.append(Finding("other", f"{member.name} ended with exit code {code}: {last}"))
        return False

    def _look(self, trials: Sequence[Trial]) -> None:
        self.findings += look(self.plan, self.seen, trials)
        self.seen = trials

    def _come_to_an_end(self) -> None:
        """No more kills: a runner and those who are there spend the rest of the budget."""
        deadline = time.monotonic() + PATIENCE
        self._tend(helpers=False)
        if not self.crew.alive("runner"):
            self._start_runner()
        while self._is_under_way() and time.monotonic() < deadline:
            time.sleep(0.1)
            self._tend(helpers=False)
        for member in self.crew.alive(*CHOOSERS):
            member.process.send_signal(signal.SIGABRT)  # Python's fault handler writes where it is
            member.process.wait(10)
            where = member.complaint[-3000:]
            self.findings.append(Finding("stuck", f"{member.name} did not end in {PATIENCE:g} s: {where}"))

    def _clean_up(self) -> None:
        """Stop the cluster; whatever else is left is a finding, and ended."""
        for member in self.crew.alive("dask-worker", "dask-scheduler"):
            member.process.terminate()
            member.killed = True
        pids = {member.process.pid for member in self.crew.members}
        _wait(lambda: not [p for p in marked(self.mark) if p.pid not in pids], _CLEAN_UP)
        for process in marked(self.mark):
            if process.pid not in pids and not self._is_orphan(process):
                own = [one for one in self.kills if (one.number, one.crew) == (process.number, process.crew)]
                self.findings.append(Finding("left", f"{process} is still there {_CLEAN_UP:g} s after the end; {own}"))
            kill(process, self.mark)
        for member in [*self.crew.members, *self.crew.gone]:
            member.process.wait(_CLEAN_UP)
            if member.role not in CHOOSERS or member.process.returncode == -signal.SIGABRT:
                continue  # what Dask itself says when it is ended is not ours
            if any(sign in member.complaint for sign in _SIGNS):
                self.findings.append(Finding("traceback", f"{member.name}: {member.complaint[-2000:]}"))

    def _is_orphan(self, process: Process) -> bool:
        """Whether both its guard and who had started that were killed: then nobody is left to end it."""
        guard = (process.number, process.attempt)
        guards = any(one.role == "guard" and (one.number, one.attempt) == guard for one in self.kills)
        return guards and any(one.crew == process.crew and one.number is None for one in self.kills)


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until something holds, or the time is over."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.003)
