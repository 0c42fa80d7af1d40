"""How studies tell how far they are."""

from __future__ import annotations

from collections.abc import Callable

#: Told a stage, the steps done and the number of steps.
Progress = Callable[[str, int, int], None]


def quiet(stage: str, done: int, total: int) -> None:
    """Tells nobody."""


def in_hundredths(tell: Progress, stage: str) -> Callable[[float, str], None]:
    """What takes a fraction of the work and tells it as steps of a stage.

    Args:
        tell: of the study.
        stage: whose work it is.
    """
    return lambda fraction, what: tell(stage, round(100 * fraction), 100)
