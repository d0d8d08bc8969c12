"""Many inputs: two processes try them out, and whatever is neither accepted nor refused is kept with its seed."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import random
import resource
import signal
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from types import FrameType
from typing import Any

from fidelium.errors import FideliumError
from tests.chaos.inputs.base import Refused, Target

SHARES = {
    "spaces:Spaces": 0.22,
    "results:Results": 0.24,
    "tables:Tables": 0.16,
    "answers:Answers": 0.14,
    "documents:Documents": 0.16,
    "commands:Commands": 0.08,
}
"""Of all inputs: the cheaper one is to try, the more of it."""

SLOW_CPU, SLOW_WALL = 5.0, 60.0
"""Seconds of computing, and in all, after which an input counts as one that hangs."""

_MEMORY = 6 << 30
"""Bytes of address space: an input that takes more is a finding, not the end of the machine."""

_CHUNK = 250
"""Inputs that a process tries before it reports."""

FAULTS = ("tracebacks", "broken laws", "hangs", "crashes")
"""What may be found, in the order of the table."""

DIED = "the process died"

_EXAMPLES = 3
"""Inputs that are kept of each kind of finding."""


class TooSlow(BaseException):
    """An input took too long. No `except Exception` of the program catches it."""


@dataclass(frozen=True)
class Fault:
    """An input that was neither accepted nor refused.

    Args:
        target: what was fuzzed.
        index: which input of this seed: `--repeat TARGET:INDEX` tries it again.
        error: what happened.
        where: the innermost line of fidelium.
        given: the input.
    """

    target: str
    index: int
    error: str
    where: str
    given: str

    @property
    def kind(self) -> tuple[str, str]:
        """The same for inputs that fail in the same way."""
        error, _, message = self.error.partition(":")
        return error, self.where or " ".join(message.split()[:3])


@dataclass
class Tally:
    """What became of the inputs of one target."""

    accepted: int = 0
    refused: int = 0
    faults: list[Fault] = field(default_factory=list)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def tried(self) -> int:
        return self.accepted + self.refused + self.failed

    @property
    def failed(self) -> int:
        return self.kinds.total()

    @property
    def by_fault(self) -> Counter[str]:
        """How many inputs failed, by the columns of the table."""
        columns = {"TooSlow": "hangs", "AssertionError": "broken laws", DIED: "crashes"}
        counts: Counter[str] = Counter()
        for (error, _), times in self.kinds.items():
            counts[columns.get(error, "tracebacks")] += times
        return counts

    def add(self, fault: Fault) -> None:
        """Count a finding; the first of each kind are kept."""
        self.kinds[fault.kind] += 1
        if self.kinds[fault.kind] <= _EXAMPLES:
            self.faults.append(fault)

    def merge(self, other: Tally) -> None:
        self.accepted += other.accepted
        self.refused += other.refused
        known = Counter(self.kinds)
        self.kinds += other.kinds
        for fault in other.faults:
            known[fault.kind] += 1
            if known[fault.kind] <= _EXAMPLES:
                self.faults.append(fault)


def chance_of(seed: int, target: str, index: int) -> random.Random:
    """The random numbers of one input."""
    return random.Random(f"{seed}/{target}/{index}")


def try_one(target: Target, name: str, seed: int, index: int, tally: Tally) -> None:
    """Draw one input, try it out, and count what became of it."""
    given: Any = None
    try:
        given = target.draw(chance_of(seed, name, index))
        with _limited():
            target.try_out(given)
    except (FideliumError, Refused):
        tally.refused += 1
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  that is what is looked for
        tally.add(Fault(name, index, _shown(error), _where(error), repr(given)[:4000]))
    else:
        tally.accepted += 1


def make_target(name: str, folder: Path) -> Target:
    """A target in a folder of its own."""
    module, _, kind = name.partition(":")
    folder.mkdir(parents=True, exist_ok=True)
    return getattr(importlib.import_module(f"tests.chaos.inputs.{module}"), kind)(folder)


@dataclass
class Barrage:
    """All inputs of one command.

    Args:
        seed: the seed of all inputs.
        inputs: how many.
        processes: how many at the same time.
        report: called now and then with what is known so far.
    """

    seed: int
    inputs: int
    processes: int = 2
    report: Callable[[Barrage], None] = lambda barrage: None
    tallies: dict[str, Tally] = field(default_factory=lambda: {name: Tally() for name in SHARES})

    @property
    def tried(self) -> int:
        return sum(tally.tried for tally in self.tallies.values())

    def run(self) -> None:
        """Try all inputs. A process that dies is a finding, and another one takes its place."""
        chunks = self._chunks()
        busy: dict[Connection, _Worker] = {}
        try:
            for _ in range(self.processes):
                self._give_work(_Worker(self.seed), chunks, busy)
            while busy:
                for connection in wait(list(busy)):
                    assert isinstance(connection, Connection)
                    worker = busy.pop(connection)
                    tally = worker.receive()
                    if tally is None:  # it died
                        name, index, stop = worker.last()
                        text = f"{DIED}: its exit code was {worker.process.exitcode}"
                        self.tallies[name].add(Fault(name, index, text, "", "see --repeat"))
                        chunks.append((name, index + 1, stop))
                        worker = _Worker(self.seed)
                    else:
                        self.tallies[worker.chunk[0]].merge(tally)
                    self._give_work(worker, chunks, busy)
                    self.report(self)
        finally:
            for worker in busy.values():
                worker.end()

    def _give_work(self, worker: _Worker, chunks: list[tuple[str, int, int]], busy: dict[Connection, _Worker]) -> None:
        if chunks:
            worker.send(chunks.pop())
            busy[worker.connection] = worker
        else:
            worker.end()

    def _chunks(self) -> list[tuple[str, int, int]]:
        """Target, first and last input of each piece of work, mixed so that progress is even."""
        chunks = []
        counts = {name: round(self.inputs * share) for name, share in SHARES.items()}
        counts[next(iter(counts))] += self.inputs - sum(counts.values())
        for name, count in counts.items():
            chunks += [(name, start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
        random.Random(self.seed).shuffle(chunks)
        return chunks


class _Worker:
    """A process that tries out chunks of inputs."""

    def __init__(self, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        assert isinstance(ours, Connection)
        self.connection: Connection = ours
        self.position = context.Value("q", 0)
        self.chunk = ("", 0, 0)
        self.process = context.Process(target=_work, args=(theirs, self.position, seed), daemon=True)
        self.process.start()
        theirs.close()

    def send(self, chunk: tuple[str, int, int]) -> None:
        self.chunk = chunk
        self.position.value = chunk[1]
        self.connection.send(chunk)

    def receive(self) -> Tally | None:
        """What became of the chunk; None if the process died."""
        try:
            return self.connection.recv()
        except EOFError:
            self.process.join()
            return None

    def last(self) -> tuple[str, int, int]:
        """Where it died."""
        return self.chunk[0], self.position.value, self.chunk[2]

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


def _work(connection: Connection, position: Synchronized[int], seed: int) -> None:
    """Try out chunks until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.RLIM_INFINITY))
    logging.getLogger("fidelium").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    targets: dict[str, Target] = {}
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="chaos-", dir=shared if shared.is_dir() else None) as folder:
        while True:
            try:
                name, start, stop = connection.recv()
            except EOFError:
                return
            if name not in targets:
                targets[name] = make_target(name, Path(folder) / "a" / "b" / name.partition(":")[0])
            tally = Tally()
            for index in range(start, stop):
                position.value = index
                try_one(targets[name], name, seed, index, tally)
            connection.send(tally)


@contextmanager
def _limited() -> Iterator[None]:
    """Interrupt what takes too long."""
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, SLOW_CPU)
    signal.setitimer(signal.ITIMER_REAL, SLOW_WALL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _too_slow(number: int, frame: FrameType | None) -> None:
    del frame
    raise TooSlow(f"took more than {SLOW_CPU if number == signal.SIGPROF else SLOW_WALL:g} s")


def _shown(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {str(error)[:1000]}"
    except Exception:  # noqa: BLE001  an error without a text
        return type(error).__name__


def _where(error: BaseException) -> str:
    """The innermost line of fidelium."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/fidelium/" in frame.filename]
    return f"{frames[-1].filename.rpartition('/fidelium/')[2]}:{frames[-1].lineno}" if frames else ""
