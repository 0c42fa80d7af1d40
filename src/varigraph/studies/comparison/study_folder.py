"""The folder of a comparison: taken up again only where that is asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from varigraph.errors import OptionError
from varigraph.files import locked, write_json
from varigraph.studies.comparison.options import Options
from varigraph.studies.folder import CONFIG, claim, read_config

#: What a comparison writes; nothing else is ever removed.
FOLDERS = ("cells", "networks", "links")
FILES = ("results.json", "results.csv", "tables.md", "tables.tex", "table-*.md", "table-*.tex")


@contextmanager
def claimed_study(options: Options, *, resume: bool, fresh: bool) -> Iterator[None]:
    """Within it, a folder is that of one comparison, new or taken up.

    Args:
        options: of the comparison, and its folder.
        resume: go on with what the folder holds.
        fresh: remove it first.

    Raises:
        OptionError: if the folder holds something and neither is asked for, or both are; if it
            holds anything but a comparison with these options; if another process is at work in it.
    """
    if resume and fresh:
        raise OptionError("--resume keeps what --fresh removes", "choose one of the two")
    with locked(options.folder):
        if (options.folder / CONFIG).is_file():
            _take_up(options, resume=resume, fresh=fresh)
        claim(options.folder, options.record())
        yield


def _take_up(options: Options, *, resume: bool, fresh: bool) -> None:
    folder = options.folder
    _check_kind(folder)
    if fresh:
        _clear(folder)
        write_json(folder / CONFIG, options.record())
    elif not resume:
        raise OptionError(
            f"{folder} holds a study already",
            "go on with it by --resume, or replace it by --fresh",
        )


def _check_kind(folder: Path) -> None:
    if (read_config(folder) or {}).get("study") != "paper":
        raise OptionError(
            f"{folder} holds something else than a study of the paper's tables",
            "choose another folder with --out",
        )


def _clear(folder: Path) -> None:
    for name in FOLDERS:
        shutil.rmtree(folder / name, ignore_errors=True)
    for pattern in FILES:
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
