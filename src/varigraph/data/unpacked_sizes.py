"""How large a packed file may become, so that a small one cannot fill the memory."""

from __future__ import annotations

import os
from pathlib import Path

from varigraph.errors import FileError, OptionError

#: Megabytes that any packed file may become, whatever its own size; the defaults are below.
VARIABLE = "VARIGRAPH_UNPACKED_MB"
#: Times its own size that any packed file may become; tables of links reach 5 to 30.
RATIO = 100
#: Bytes of text, each of which takes many in memory once it is a link.
TEXT = 1 << 24
#: Bytes of arrays; bags of words are mostly zeros, which zip shrinks several hundred times.
ARRAYS = 1 << 30


def most_unpacked(packed: int, *, always: int) -> int:
    """``max(always, RATIO * packed)`` bytes, where ``$VARIGRAPH_UNPACKED_MB`` replaces ``always``.

    Args:
        packed: bytes of the file.
        always: bytes that it may become in any case, :data:`TEXT` or :data:`ARRAYS`.

    Raises:
        OptionError: if the variable is set to something that is no number.
    """
    asked = os.environ.get(VARIABLE)
    if asked and not asked.isdecimal():
        raise OptionError(f"${VARIABLE} is {asked!r}", f"a whole number of MB: {VARIABLE}=4000")
    return max(int(asked) * 10**6 if asked else always, RATIO * packed)


def check_unpacked(path: Path, unpacked: int, *, packed: int, always: int) -> None:
    """Raises if a file becomes too large; see :func:`most_unpacked`.

    Args:
        path: the file, for the message.
        unpacked: bytes that it becomes, as far as is known.
        packed: bytes that it has.
        always: as in :func:`most_unpacked`.
    """
    most = most_unpacked(packed, always=always)
    if unpacked > most:
        raise FileError(
            path,
            f"its {packed:,} bytes unpack to more than {most:,}",
            f"if you trust it, allow that many MB: {VARIABLE}={unpacked // 10**6 + 1}",
        )
