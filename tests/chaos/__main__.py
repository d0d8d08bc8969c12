"""`make chaos`: kill the processes of many studies, fuzz every input, print what was tried and what was found."""

from __future__ import annotations

import argparse
import datetime
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from fidelium.errors import FideliumError
from tests.chaos.fuzz import SHARES, Barrage, chance_of, make_target
from tests.chaos.inputs.base import Refused
from tests.chaos.kills import LANES, Campaign
from tests.chaos.progress import progress
from tests.chaos.report import Outcome
from tests.chaos.verdict import Finding


def main(arguments: list[str]) -> int:
    """Run the command; the exit code: 1 if anything was found, 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    if options.repeat:
        return _repeat(options.seed, options.repeat)
    for number in (signal.SIGINT, signal.SIGTERM):  # a table also then; a shell's background jobs ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    began, interrupted = time.monotonic(), False
    campaign = Campaign(options.seed, options.kills, options.lanes, only=tuple(options.study) or None)
    barrage = Barrage(options.seed, options.inputs, options.processes)
    try:
        if options.kills:
            _kill(campaign)
        if options.inputs:
            _fuzz(barrage)
    except KeyboardInterrupt:
        interrupted = True
    minutes = (time.monotonic() - began) / 60
    command = f"make chaos SEED={options.seed} KILLS={options.kills} INPUTS={options.inputs}"
    today = f"{datetime.date.today():%Y-%m-%d}"
    outcome = Outcome(command, today, minutes, tuple(campaign.verdicts), barrage.tallies)
    _print(outcome, interrupted)
    if options.report and not interrupted:
        outcome.write(options.report)
    return 130 if interrupted else 0 if outcome.is_clean else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of all choices and inputs")
    parser.add_argument("--kills", type=int, default=1000, help="processes to kill, 0 for none")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs to try, 0 for none")
    parser.add_argument("--lanes", type=int, default=LANES, help="studies at the same time")
    parser.add_argument("--processes", type=int, default=2, help="processes that try inputs")
    parser.add_argument("--study", type=int, nargs="*", default=(), help="only these studies of the seed")
    parser.add_argument("--repeat", metavar="TARGET:INDEX", help="try one input again, and show its traceback")
    parser.add_argument("--report", type=Path, help="write the tables into this page, as docs/chaos.md")
    return parser


def _kill(campaign: Campaign) -> None:
    told: list[Finding] = []
    with progress("kills", campaign.kills) as show:

        def note(now: Campaign) -> None:
            found = [finding for verdict in now.verdicts for finding in verdict.findings]
            for finding in found[len(told) :]:
                print(f"finding: {finding}", file=sys.stderr, flush=True)
            told[:] = found
            show(now.quota.taken, f"{len(now.verdicts)} studies ended, {len(found)} findings")

        campaign.report = note
        campaign.run()


def _fuzz(barrage: Barrage) -> None:
    with progress("inputs", barrage.inputs) as show:

        def note(now: Barrage) -> None:
            show(now.tried, f"{sum(tally.failed for tally in now.tallies.values())} findings")

        barrage.report = note
        barrage.run()


def _print(outcome: Outcome, interrupted: bool) -> None:
    print(outcome.markdown())
    if findings := outcome.findings():
        print(findings)
    print("interrupted: that was so far" if interrupted else "clean" if outcome.is_clean else "there are findings")


def _repeat(seed: int, text: str) -> int:
    """Try one input again."""
    name, _, index = text.rpartition(":")
    if name not in SHARES:
        print(f"--repeat must look like {next(iter(SHARES))}:17, with one of {', '.join(SHARES)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        target = make_target(name, Path(folder) / "a" / "b" / name.partition(":")[0])
        print(repr(target.draw(chance_of(seed, name, int(index)))))
        try:
            target.try_out(target.draw(chance_of(seed, name, int(index))))
        except Refused:
            print("refused")
        except FideliumError as error:
            print(f"refused: {error}")
        except BaseException:  # noqa: BLE001  whatever it is, it is shown
            traceback.print_exc()
            return 1
        else:
            print("accepted")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
