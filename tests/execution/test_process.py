"""Programs that hang, fork, flood and crash: a failed trial with its reason, and no process left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from fidelium.errors import EvaluationError, SetupError
from fidelium.execution.result_rules import Pattern

FAMILY = """
import os, signal, sys, time
def here():
    open(os.path.join(os.environ["PIDS"], str(os.getpid())), "w").close()
if os.fork() == 0:      # a child that holds the pipes open
    if os.fork() == 0:  # and a daemon in its own session that ignores SIGTERM
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    here()
    time.sleep(1000)
here()
while len(os.listdir(os.environ["PIDS"])) < 3:
    time.sleep(0.01)
"""


def reason(call, *arguments, error: type[Exception] = EvaluationError, **settings):
    with pytest.raises(error) as caught:
        call(*arguments, **settings)
    return str(caught.value)


def until_gone(living, expected):
    """Processes that are still alive after ten seconds: a kill by another process may take a moment."""
    until = time.monotonic() + 10
    while living(expected) and time.monotonic() < until:
        time.sleep(0.02)
    return living(expected)


@contextmanager
def at_most(seconds):
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("exit 3", "exit code 3"),
        ("echo mesh; echo 'no  element' >&2; exit 3", "exit code 3; stderr ends with: no  element"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("true", "the program wrote no result.json"),
        ("echo license >&2", "the program wrote no result.json; stderr ends with: license"),
        ("mkdir result.json", "cannot read result.json: not a regular file"),
        ("mkfifo result.json", "cannot read result.json: not a regular file"),
        ("echo '{\"value\": NaN}' > result.json", "value is nan, not a finite number"),
        ("echo '{\"value\": 1e999}' > result.json", "value is inf, not a finite number"),
        ('echo \'{"value": "big"}\' > result.json', "value is 'big', not a number"),
        ("echo '{\"value\": true}' > result.json", "value is True, not a number"),
        ('echo \'{"value": 1, "cost": "x"}\' > result.json', "cost is 'x', not a number"),
        ("echo '[1]' > result.json", 'result.json must contain {"value": number}, got [1]'),
        ("echo FAIL > result.json", "result.json says FAIL"),
        ("echo ' FAIL: no mesh' > result.json", "no mesh"),
        ('echo \'{"failed": "buckled"}\' > result.json', "buckled"),
        ('echo \'{"failed": "buckled"}\' > result.json; exit 1', "exit code 1: buckled"),
        ("echo '{\"value\": 1}' > result.json; exit 1", "exit code 1"),
    ],
)
def test_the_reason_says_what_happened(lab, line, expected):
    assert reason(lab.shell, line) == expected
    assert json.loads((lab.trial / "outcome.json").read_text())["failed"] == expected


def test_a_result_that_is_not_json_is_reported(lab):
    assert reason(lab.shell, "echo FAILURES > result.json").startswith("result.json is not JSON: ")  # another word
    assert reason(lab.shell, "head -c 5000 /dev/urandom > result.json").startswith("result.json is not JSON: ")
    assert "exit code 9; stderr ends with: ..." in reason(lab.shell, "head -c 99999 /dev/zero | tr '\\0' x >&2; exit 9")


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("no-such-simulator", "cannot start 'no-such-simulator': not found; install it"),
        ("{here}/data.txt", "permission denied; make it executable"),
        ("{here}/empty.sh", "not an executable format; a script needs a first line"),
    ],
)
def test_a_program_that_cannot_be_started(lab, program, expected):
    (lab.folder / "data.txt").write_text("x")
    (lab.folder / "empty.sh").write_text("x")
    (lab.folder / "empty.sh").chmod(0o755)
    assert expected in reason(lab.run, (program,), error=SetupError)


def test_arguments_that_are_too_long(lab):
    lab.shell("echo '{\"value\": 1}' > result.json", params={"x": "x" * 200_000})  # a long value that is in query.json
    assert "its arguments are too many or too long; let it read query.json" in reason(
        lab.run, ("true", "{x}"), params={"x": "x" * 200_000}
    )


def test_a_program_that_hangs_is_ended_with_all_it_has_started(lab, living):
    with at_most(20):
        text = f"{FAMILY}print('hello', flush=True); time.sleep(1000)"
        assert reason(lab.python, text, timeout=2.5, grace=0.3) == "timed out after 2.5 s"
    assert living(3) == []
    assert (lab.trial / "stdout.txt").read_text() == "hello\n"
    outcome = json.loads((lab.trial / "outcome.json").read_text())
    assert (outcome["stopped"], outcome["signal"]) == ("timeout", "SIGTERM")
    assert 1 < outcome["seconds"] < 15


def test_a_program_may_clean_up_within_the_grace_time(lab):
    text = """
import signal, sys, time
def clean(*_):
    print("cleaned", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, clean)
time.sleep(1000)
"""
    assert reason(lab.python, text, timeout=2.5, grace=5.0) == "timed out after 2.5 s"
    assert (lab.trial / "stdout.txt").read_text() == "cleaned\n"


def test_processes_left_behind_by_a_program_are_ended(lab, living):
    with at_most(20):
        measured = lab.python(f"{FAMILY}print('v=2')", result=Pattern("v=(.*)"), grace=0.3)
    assert measured.value == 2
    assert living(3) == []


def test_a_cancelled_program_ends_promptly(lab, living):
    cancelled = threading.Event()
    canceller = threading.Thread(target=lambda: (living(3), cancelled.set()))
    canceller.start()
    with at_most(20):
        assert reason(lab.python, f"{FAMILY}time.sleep(1000)", cancelled=cancelled, grace=0.3).startswith("cancelled")
    canceller.join()
    assert living(3) == []


CHILD = """
from pathlib import Path
import os, resource, sys
from fidelium.execution.command import Command
from fidelium.execution.program import ExternalProgram
from fidelium.fidelity import Fidelity
from fidelium.history import Trial
program = ExternalProgram({"fine": Command((sys.executable, "-S", *sys.argv[1:]), grace=0.3)}, Path("runs"), Path("."))
trial = Trial(0, {}, Fidelity("fine", cost=1))
"""


def fidelium(folder, code, *arguments):
    """Runs fidelium in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", CHILD + textwrap.dedent(code), *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_no_process_is_left_when_fidelium_is_killed(lab, living):
    (lab.folder / "family.py").write_text(f"{FAMILY}time.sleep(1000)")
    with fidelium(lab.folder, "program.run(trial)", "../../family.py") as process:
        assert len(living(3)) == 3
        process.kill()
    assert until_gone(living, 3) == []


def test_no_process_is_left_even_if_a_fork_of_fidelium_holds_the_pipe(lab, living):
    (lab.folder / "hang.py").write_text(f"{FAMILY}time.sleep(1000)")
    code = """
        import threading, time, warnings
        warnings.simplefilter("ignore")
        threading.Thread(target=program.run, args=(trial,), daemon=True).start()
        while len(os.listdir(os.environ["PIDS"])) < 3:
            time.sleep(0.02)
        fork = os.fork()
        if fork == 0:
            time.sleep(60)
        print(fork, flush=True)
        time.sleep(60)
    """
    with fidelium(lab.folder, code, "../../hang.py") as process:
        assert len(living(3)) == 3
        assert process.stdout is not None
        fork = int(process.stdout.readline())
        process.kill()
        assert until_gone(living, 3) == []
        os.kill(fork, signal.SIGKILL)


def test_a_guard_that_is_killed_is_a_failure(lab, living):
    text = """
import os, signal, time
open(os.path.join(os.environ["PIDS"], str(os.getpid())), "w").close()
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(1000)
"""
    with at_most(20):
        assert "its guard process was killed" in reason(lab.python, text)
    assert until_gone(living, 1) == []


def test_a_flood_of_output_fills_neither_memory_nor_disk(lab):
    flood = "import sys\nfor i in range(100):\n  sys.stdout.write(chr(33 + i % 90) * 1_000_000)\nsys.exit(3)"
    (lab.folder / "flood.py").write_text(flood)
    code = """
        from fidelium.errors import EvaluationError
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            program.run(trial)
        except EvaluationError as error:
            print(error, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    with fidelium(lab.folder, code, "../../flood.py") as process:
        out, err = process.communicate(timeout=60)
    assert out.startswith("exit code 3 "), err
    assert int(out.split()[-1]) < 20_000  # kilobytes; the program wrote 100,000
    kept = (lab.trial / "stdout.txt").read_bytes()
    assert kept == b"!" * 1_000_000 + b"\n[fidelium left out 98000000 bytes]\n" + bytes([33 + 99 % 90]) * 1_000_000


def test_output_that_cannot_be_written_ends_the_program(lab, living):
    """A file size limit stands in for a full disk, which needs permission to mount one."""
    (lab.folder / "flood.py").write_text(f"{FAMILY}\nwhile True: print('x' * 1000)")
    code = """
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        program.run(trial)
    """
    with at_most(30), fidelium(lab.folder, code, "../../flood.py") as process:
        err = process.communicate(timeout=30)[1]
    expected = "(File too large): repair that and run again"
    assert any(line.endswith(expected) for line in err.splitlines())  # under `make coverage` its own error may follow
    assert living(3) == []


def test_twenty_evaluations_leave_no_descriptor_open(lab):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        reason(lab.run, ("false",))
        reason(lab.run, ("no-such-program",), error=SetupError)
    assert len(os.listdir("/proc/self/fd")) <= before  # what earlier tests left may be closed meanwhile
    assert len(list(Path(lab.runs).iterdir())) == 20


def test_a_daemon_that_kills_its_guard_is_ended(lab, living):
    text = f"""{FAMILY}
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(1000)
"""
    assert "its guard process was killed" in reason(lab.python, text)
    assert until_gone(living, 3) == []


def test_an_outcome_is_not_written_through_a_link(lab):
    outside = lab.folder / "precious.txt"
    outside.write_text("precious")
    lab.shell(
        f"ln -s {outside} outcome.json; ln -s {outside} .outcome.json.partial; echo '{{\"value\": 1}}' > result.json"
    )
    assert outside.read_text() == "precious"
    assert json.loads((lab.trial / "outcome.json").read_text())["value"] == 1
    assert not (lab.trial / "outcome.json").is_symlink()


def test_an_outcome_is_not_written_to_a_folder_that_a_link_leads_to(lab):
    elsewhere = lab.folder / "elsewhere"
    elsewhere.mkdir()
    line = f'echo v=1; rm -r "$PWD"; ln -s {elsewhere} "$PWD"'
    reason(lab.shell, line)
    assert list(elsewhere.iterdir()) == []


def test_a_pipe_in_place_of_the_log_does_not_block(lab):
    assert reason(lab.shell, "rm stderr.txt; mkfifo stderr.txt; exit 3") == "exit code 3"


def test_a_program_that_suspends_its_guard_does_not_stop_the_study(lab):
    line = "kill -STOP $PPID; echo '{\"value\": 1}' > result.json"
    with at_most(20):
        assert lab.shell(line).value == 1
