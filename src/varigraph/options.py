"""What users give: options, and code of their own; errors that name the culprit and the remedy."""

from __future__ import annotations

import inspect
import math
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from varigraph.errors import OptionError

Choice = TypeVar("Choice", bound=str)

#: Where code is ours, and not the user's.
PACKAGE = str(Path(__file__).parent)
#: As many as torch's generators can tell apart.
SEEDS = 2**63


def one_of(name: str, value: Choice, known: Sequence[Any]) -> Choice:
    """A word that is known.

    Args:
        name: of the option.
        value: what was given.
        known: all words that it can be.
    """
    if not isinstance(value, str) or value not in known:
        raise OptionError(f"{name}={shortened(value)} is unknown", f"one of {list(known)}")
    return value


def whole(name: str, value: Any, *, least: int = 0, most: int | None = None, remedy: str) -> int:
    """A whole number, of Python, numpy or torch; True and 1.0 are none.

    Args:
        name: of the option.
        value: what was given.
        least: the smallest that it can be.
        most: the largest, where there is one.
        remedy: a value that would do.
    """
    found = _scalar(value)
    if isinstance(found, bool) or not isinstance(found, Integral):
        raise OptionError(f"{name}={shortened(value)} is not a whole number", remedy)
    if int(found) < least or (most is not None and int(found) > most):
        bounds = f"from {least} on" if most is None else f"from {least} to {most}"
        raise OptionError(f"{name}={shortened(int(found))} is not {bounds}", remedy)
    return int(found)


def number(name: str, value: Any, fits: Callable[[float], bool], *, remedy: str) -> float:
    """A finite number, of Python, numpy or torch; True and ``"0.1"`` are none.

    Args:
        name: of the option.
        value: what was given.
        fits: whether it makes sense.
        remedy: a value that would do.
    """
    found = _scalar(value)
    try:
        if not isinstance(found, bool) and isinstance(found, Real):
            as_float = float(found)
            if math.isfinite(as_float) and fits(as_float):
                return as_float
    except OverflowError:  # a whole number beyond all floats
        pass
    raise OptionError(f"{name}={shortened(value)} makes no sense", remedy)


def switch(name: str, value: Any, *, remedy: str) -> bool:
    """True or False, of Python, numpy or torch; 1 and ``"yes"`` are neither.

    Args:
        name: of the option.
        value: what was given.
        remedy: a value that would do.
    """
    found = _scalar(value)
    if not isinstance(found, (bool, np.bool_)):
        raise OptionError(f"{name}={shortened(value)} is neither True nor False", remedy)
    return bool(found)


def text(name: str, value: Any, *, remedy: str) -> str:
    """Text that a file can hold; bytes and halves of characters are none.

    Args:
        name: of the option.
        value: what was given.
        remedy: a value that would do.
    """
    if not isinstance(value, str):
        raise OptionError(f"{name}={shortened(value)} is not text", remedy)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise OptionError(
            f"{name} holds {value[error.start]!r}, half a character", remedy
        ) from error
    return value


def path_of(name: str, value: Any, *, remedy: str) -> Path:
    """A path that may begin at home, ``~``; numbers, bytes and None are none.

    Args:
        name: of the option.
        value: what was given.
        remedy: a value that would do.
    """
    try:
        return Path(value).expanduser()
    except TypeError as error:
        raise OptionError(f"{name}={shortened(value)} is not a path", remedy) from error
    except RuntimeError as error:  # ~somebody whom this system does not know
        raise OptionError(f"{name}={shortened(value)} begins at no home", remedy) from error


def seed_of(value: Any) -> int:
    """A seed: a whole number that torch's generators can be given."""
    return whole("seed", value, most=SEEDS - 1, remedy="give a whole number from 0 on: seed=0")


def check_progress(progress: object, *said: str) -> None:
    """Raises unless what reports progress can be called with these.

    Args:
        progress: what was given; None for nothing.
        said: what it is called with, in words.
    """
    if progress is None or (callable(progress) and complaint(progress, *said) is None):
        return
    names = ", ".join(said)
    raise OptionError(
        f"progress cannot be called with ({names})", f"progress=lambda {names}: print({names})"
    )


def _scalar(value: Any) -> Any:
    """What a tensor or array without dimensions holds; anything else as it is."""
    if isinstance(value, Tensor) and value.is_meta:
        return value
    return value.item() if isinstance(value, (Tensor, np.ndarray)) and value.ndim == 0 else value


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


def warn(message: str, kind: type[Warning] = UserWarning) -> None:
    """Warn about the line of the user's own code that called into this package."""
    frame, number, level = sys._getframe(), 1, 1
    while frame.f_back is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            level = number + 1
        frame, number = frame.f_back, number + 1
    warnings.warn(message, kind, stacklevel=level)
