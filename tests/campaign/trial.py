"""One case on trial: it is built, asked, and held against the laws."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from campaign.cases import Case, case, known_reason
from campaign.choices import Choices, FromSeed
from campaign.laws import ALWAYS, SOMETIMES, Law
from campaign.traces import differences, traces

#: Seconds that a case may take; the usual one takes a quarter of a second.
LONGEST = 120
ASKED_AGAIN = 3
#: Share of refused cases beyond which laws would hold because nothing is answered.
MOST_REFUSED = 0.1


@dataclass
class Verdict:
    """What became of a case, or of many.

    Args:
        cases: how many there were.
        laws: how often each law had something to say.
        refusals: errors of ours by their reason, each of which was known to be possible.
        failures: what was broken, and how, by the number of the case.
    """

    cases: int = 0
    laws: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    failures: dict[int, tuple[str, str]] = field(default_factory=dict)

    def __iadd__(self, other: Verdict) -> Verdict:
        self.cases += other.cases
        self.laws += other.laws
        self.refusals += other.refusals
        self.failures |= other.failures
        return self

    @property
    def refused(self) -> float:
        """Share of the cases that were refused."""
        return sum(self.refusals.values()) / max(1, self.cases)


class BrokenLawError(AssertionError):
    """A law does not hold."""

    def __init__(self, law: str, how: str) -> None:
        super().__init__(f"{law}: {how}")
        self.law, self.how = law, how


def tried(number: int, device: str) -> Verdict:
    """The verdict on the case of a number."""
    choose = FromSeed(number)
    try:
        with _no_longer_than(LONGEST):
            return judged(case(choose).on(device), choose)
    except BrokenLawError as broken:
        return Verdict(1, failures={number: (broken.law, broken.how)})
    except Exception as error:
        return Verdict(1, failures={number: ("is a case", f"{type(error).__name__}: {error}")})


def judged(case: Case, choose: Choices) -> Verdict:
    """Hold a case against all cheap laws and some of the others.

    Raises:
        BrokenLawError: at the first law that does not hold.
    """
    verdict, before = Verdict(1), traces(case)
    pred = _held("answers", case, case.answer)
    _check_untouched(case, before)
    if isinstance(pred, str):
        verdict.refusals[pred] += 1
    else:
        for law in (*ALWAYS, *_some(choose)):
            verdict.laws[law.__name__] += _held(law.__name__, case, law, case, pred) is True
    _check_untouched(case, before)
    verdict.laws["untouched"] += 1
    return verdict


def _check_untouched(case: Case, before: dict[str, Any]) -> None:
    touched = differences(before, traces(case))
    if touched:
        raise BrokenLawError("untouched", ", ".join(touched[:5]))


def _some(choose: Choices) -> list[Law]:
    first = choose.integer(0, len(SOMETIMES) - 1)
    step = choose.one_of((1, 2, 3, 4))
    return [SOMETIMES[(first + step * k) % len(SOMETIMES)] for k in range(ASKED_AGAIN)]


def _held(law: str, case: Case, check: Callable[..., Any], *args: Any) -> Any:
    """What a law says, or the reason of a refusal that was to be expected; all else breaks it."""
    try:
        return check(*args)
    except AssertionError as error:
        raise BrokenLawError(law, str(error)) from error
    except Exception as error:
        reason = known_reason(error, case)
        if reason is None:
            raise BrokenLawError(law, f"{type(error).__name__}: {error}") from error
        return reason


@contextmanager
def _no_longer_than(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"no answer in {seconds} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
