"""The folder of a comparison: taken up again only where that is asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from varigraph.errors import OptionError
from varigraph.studies import folder as files
from varigraph.studies.comparison.options import Options

#: What a comparison writes; nothing else is ever removed.
FOLDERS = ("cells", "networks", "links")
FILES = ("results.json", "results.csv", "tables.md", "tables.tex", "table-*.md", "table-*.tex")


def claim_study(options: Options, *, resume: bool, fresh: bool) -> None:
    """Make the folder of a comparison, or take up the one that is there.

    Args:
        options: of the comparison, and its folder.
        resume: go on with what the folder holds.
        fresh: remove it first.

    Raises:
        OptionError: if the folder holds something and neither is asked for, or both are; or if it
            holds anything but a comparison with these options.
    """
    if resume and fresh:
        raise OptionError("--resume keeps what --fresh removes", "choose one of the two")
    folder = options.folder
    if (folder / files.CONFIG).is_file():
        _check_kind(folder)
        if fresh:
            _clear(folder)
            files.write_json(folder / files.CONFIG, options.record())
        elif not resume:
            raise OptionError(
                f"{folder} holds a study already",
                "go on with it by --resume, or replace it by --fresh",
            )
    files.claim(folder, options.record())


def _check_kind(folder: Path) -> None:
    try:
        kind = json.loads((folder / files.CONFIG).read_text()).get("study")
    except (OSError, ValueError, AttributeError):
        kind = None
    if kind != "paper":
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
