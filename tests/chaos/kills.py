"""Many kills: studies under fire, several at a time, until the wanted number of processes was killed."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.chaos.plan import Plan, plan_study
from tests.chaos.siege import Quota, Siege
from tests.chaos.verdict import Finding, Verdict
from tests.postgres import Server, postgres_server

LANES = 4
"""Studies at the same time: two cores are busy, and each study still comes forward between two kills."""


@dataclass
class Campaign:
    """All studies of one command.

    Args:
        seed: the seed of all choices.
        kills: how many processes to kill.
        lanes: how many studies at the same time.
        report: called several times a second.
        only: the numbers of the studies to run, None for as many as the kills need.
    """

    seed: int
    kills: int
    lanes: int = LANES
    report: Callable[[Campaign], None] = lambda campaign: None
    only: tuple[int, ...] | None = None
    verdicts: list[Verdict] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.quota = Quota(self.kills)
        self._numbers = iter(itertools.count() if self.only is None else self.only)
        self._lock = threading.Lock()
        self._sieges: list[Siege] = []

    def run(self) -> None:
        """Run all studies.

        Raises:
            KeyboardInterrupt: after Ctrl-C; studies that have not ended are given up.
        """
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True)))
            server = stack.enter_context(postgres_server())
            shared = server.new_database()
            lanes = [
                threading.Thread(target=self._lane, args=(folder, server, shared), daemon=True)
                for _ in range(self.lanes)
            ]
            for lane in lanes:
                lane.start()
            try:
                while any(lane.is_alive() for lane in lanes):
                    time.sleep(0.2)
                    self.report(self)
            except KeyboardInterrupt:
                self.quota.close()
                for siege in tuple(self._sieges):
                    siege.give_up()
                raise

    def _lane(self, folder: Path, server: Server, shared: str) -> None:
        while not self.quota.is_spent and (number := self._next()) is not None:
            plan = plan_study(self.seed, number)
            own = folder / plan.name
            own.mkdir()
            verdict = self._besiege(plan, own, folder / "cache", server, shared)
            with self._lock:
                self.verdicts.append(verdict)
                last = self.verdicts[-2 * self.lanes :]
                if len(last) == 2 * self.lanes and not any(each.states.total() for each in last):
                    self.quota.close()  # nothing runs at all: the findings say why, more of them do not help
            shutil.rmtree(own, ignore_errors=True)

    def _next(self) -> int | None:
        with self._lock:
            return next(self._numbers, None)

    def _besiege(self, plan: Plan, folder: Path, cache: Path, server: Server, shared: str) -> Verdict:
        is_local = plan.storage == "sqlite"
        url = f"sqlite:///{folder}/study.db" if is_local else shared
        siege = Siege(plan, folder, url, cache, None if is_local else server)
        self._sieges.append(siege)
        try:
            return siege.run(self.quota)
        except Exception:  # noqa: BLE001  the harness goes on with the next study, and says what happened to this one
            found = Finding("other", f"the harness failed: {traceback.format_exc()}")
            return Verdict(plan, tuple(siege.kills), siege.restarts, findings=(*siege.findings, found))
        finally:
            self._sieges.remove(siege)
