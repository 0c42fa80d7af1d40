"""The user's own functions: how they may be called, and where they failed."""

from __future__ import annotations

import inspect
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Homes of the code that calls the user's, and is called by it.
LIBRARIES = (
    str(Path(__file__).parent),
    sysconfig.get_path("purelib"),
    sysconfig.get_path("platlib"),
    sysconfig.get_path("stdlib"),
)


def complaint(function: Callable[..., Any], *args: Any, **named: Any) -> str | None:
    """What a call would complain about as far as its signature tells, or None.

    Example:
        >>> complaint(lambda x: x, 1), complaint(lambda x: x, 1, 2)
        (None, 'too many positional arguments')
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions do not tell
        return None
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        return str(error)
    return None


def place_of(error: BaseException) -> str:
    """What went wrong and where, in a line.

    Args:
        error: that was caught.
    """
    said = str(error).strip().splitlines()
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_library(frame.filename)]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {said[0] if said else ''}{where}"


def _is_library(file: str) -> bool:
    """Whether a line of code is not the user's own: nothing could be corrected there."""
    return file.startswith(("<", *LIBRARIES))
