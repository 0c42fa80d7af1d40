"""Amounts of memory."""

from __future__ import annotations

import math
import re
from reprlib import repr as shortened

from varigraph.errors import OptionError, TooLargeError

UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def as_bytes(amount: int | str) -> int:
    """Number of bytes in an amount such as ``"2GiB"``.

    Example:
        >>> as_bytes("2GiB"), as_bytes("500 MB"), as_bytes(4096)
        (2147483648, 500000000, 4096)
    """
    match = re.fullmatch(r"\s*(\d{1,30}(?:\.\d+)?)\s*([KMG]i?B|)\s*", str(amount), re.ASCII)
    if match is None or float(match[1]) <= 0:
        raise OptionError(
            f"memory={shortened(amount)} is not an amount of memory", 'write memory="2GiB"'
        )
    return int(float(match[1]) * UNITS[match[2]])


def too_large(what: str, need: float, memory: int, *, otherwise: str = "") -> TooLargeError:
    """A refusal that names the amount that would do.

    Args:
        what: needs too much, with its verb.
        need: bytes.
        memory: the bound.
        otherwise: what else would do.
    """
    total = math.ceil(need / 2**20)
    return TooLargeError(
        f"{what} {total:,} MiB, more than the memory of {memory / 2**20:,.0f} MiB",
        f'memory="{total}MiB" or more{otherwise}',
    )
