"""Generated cases against laws, for as long as asked.

Run from the root of the repository with PYTHONPATH=tests; needs what the package itself needs.
"""

from __future__ import annotations

import argparse
import sys
import time

from campaign.cases import case
from campaign.choices import FromSeed
from campaign.runs import PER_SEED, run
from campaign.trial import MOST_REFUSED, Verdict, tried

SECONDS_BETWEEN_LINES = 60


def main() -> int:
    """Run what is asked for; the exit status is 1 if any case failed or too many were refused."""
    asked = _asked()
    if asked.case is not None:
        print(case(FromSeed(asked.case)))
        verdict = tried(asked.case, asked.device)
        _tell_failures(verdict, asked.device)
        return int(bool(verdict.failures))
    verdict = run(
        seed=asked.seed,
        cases=asked.cases,
        minutes=asked.minutes,
        processes=asked.processes,
        device=asked.device,
        watch=_Watch(asked.device),
    )
    return _summed_up(verdict)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="stop after so long")
    parser.add_argument("--cases", type=int, default=PER_SEED, help="stop after so many")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="of all cases; each has a number")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--case", type=int, help="run the case of this number alone, and show it")
    return parser.parse_args()


class _Watch:
    """Prints failures as they come, and now and then how far the campaign is."""

    def __init__(self, device: str) -> None:
        self._device, self._last = device, time.monotonic()

    def __call__(self, found: Verdict, all_so_far: Verdict) -> None:
        _tell_failures(found, self._device)
        if time.monotonic() > self._last + SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            print(_line(all_so_far), flush=True)


def _tell_failures(verdict: Verdict, device: str) -> None:
    on = "" if device == "cpu" else f" --device {device}"
    for number, (law, how) in verdict.failures.items():
        print(f"FAILED {law}: {how}\n  again: python -m campaign --case {number}{on}", flush=True)


def _line(verdict: Verdict) -> str:
    refused = sum(verdict.refusals.values())
    return f"{verdict.cases:,} cases, {len(verdict.failures)} failed, {refused} refused"


def _summed_up(verdict: Verdict) -> int:
    for law, times in sorted(verdict.laws.items()):
        print(f"{times:8,}  {law}")
    for kind, times in sorted(verdict.refusals.items()):
        print(f"{times:8,}  refused: {kind}")
    print(_line(verdict))
    too_many = verdict.refused > MOST_REFUSED
    if too_many:
        print(f"FAILED: {verdict.refused:.0%} of the cases were refused")
    return int(bool(verdict.failures) or too_many)


if __name__ == "__main__":
    sys.exit(main())
