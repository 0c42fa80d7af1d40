"""The folder of a run: one process works in it, and a second run finds what the first finished."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from varigraph.data.opened_files import regular
from varigraph.errors import FileError, OptionError
from varigraph.files import locked, write_json
from varigraph.files.locks import LOCK, unusable
from varigraph.studies.pieces import Pieces

CONFIG = "config.json"
#: The folder within that of a run in which the probabilities of its links are computed.
LINKS = "links"
FOLDS = "fold-*.npz"


@contextmanager
def claimed(folder: Path, config: dict[str, Any], *, fresh: bool = False) -> Iterator[Pieces]:
    """Within it, a folder is that of one run; its pieces, those of an earlier call included.

    Args:
        folder: where the run writes.
        config: its options, as JSON has them.
        fresh: remove what an earlier run wrote there (and nothing else).

    Raises:
        OptionError: where the folder holds anything but a run with these options, or another
            process is at work in it.
    """
    with locked(folder):
        claim(folder, config, fresh=fresh)
        yield Pieces(folder, config)


def claim(folder: Path, config: dict[str, Any], *, fresh: bool = False) -> None:
    """Make a folder that of a run, or take up one with the same options.

    Args:
        folder: where the run writes; it exists, and is locked.
        config: its options, as JSON has them.
        fresh: remove what an earlier run wrote there (and nothing else).

    Raises:
        OptionError: where the folder holds anything but a run with these options.
    """
    held = _held(folder)
    if held and not (folder / CONFIG).is_file():
        raise OptionError(
            f"{folder} is not empty and holds no {CONFIG}, so it is not a run",
            "choose another folder with --out",
        )
    if fresh:
        _clear(folder)
    elif held:
        _compare(folder, config)
    write_json(folder / CONFIG, config)


def read_config(folder: Path) -> dict[str, Any] | None:
    """The options that a folder holds, whatever they are; None where there are none.

    Args:
        folder: of a study.

    Raises:
        FileError: if they cannot be read.
    """
    path = folder / CONFIG
    if not path.exists():
        return None
    try:
        with regular(path) as stream:
            return {**json.load(stream)}
    except (ValueError, TypeError, RecursionError) as error:
        raise unreadable(path) from error


def unreadable(path: Path) -> FileError:
    """The error about a configuration that is none."""
    return FileError(
        path, "holds no options of a run", "choose another folder, or replace the run by --fresh"
    )


#: What studies write, by patterns; folds, by which their folder is known, go last. The options stay
#: until those of the next run take their place: killed at any moment, a folder is one of a run.
_OURS = (
    *("predictions-*.npz", "uncertainty.png", "table.md", "results.json", "training.json"),
    *("sensitivity.csv", "sensitivity.png", "report.html"),
    *("model.pt", "links.tsv", "quality.json", "reliability.png", FOLDS),
)


@contextmanager
def claimed_folds(folder: Path, *, fresh: bool = False) -> Iterator[None]:
    """Within it, a folder is that of the folds of links of one study.

    Args:
        folder: where they are written; it need not exist.
        fresh: remove what an earlier study wrote there (and nothing else).

    Raises:
        OptionError: where the folder holds anything else, or another process is at work in it.
    """
    with locked(folder):
        if _held(folder) and not list(folder.glob(FOLDS)):
            raise OptionError(
                f"{folder} is not empty and holds no {FOLDS}, so it has no folds of links",
                "choose another folder with --out",
            )
        if fresh:
            _clear(folder)
        yield


def _held(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.suffix != ".tmp" and path.name != LOCK]
    except OSError as error:
        raise unusable(folder, error.strerror) from error


def _clear(folder: Path) -> None:
    if list((folder / LINKS).glob(FOLDS)):
        with locked(folder / LINKS):
            _clear(folder / LINKS)
    try:
        for pattern in _OURS:
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)
    except OSError as error:
        raise unusable(folder, f"{path.name} cannot be removed: {error.strerror}") from error


def _compare(folder: Path, config: dict[str, Any]) -> None:
    held, wanted = _flat(read_config(folder) or {}), _flat(config)
    differing = [name for name in {**wanted, **held} if held.get(name) != wanted.get(name)]
    if differing:
        changes = (f"{name} {held.get(name)}, not {wanted.get(name)}" for name in differing)
        raise OptionError(
            f"{folder} holds a run with {'; '.join(changes)}",
            "choose another folder with --out, or replace that run with --fresh",
        )


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """The options and, one by one, the versions."""
    versions = config.get("versions")
    return {**config, **(versions if isinstance(versions, dict) else {}), "versions": None}
