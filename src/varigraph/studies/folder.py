"""The folder of a run: files that are whole or absent, and found again by a second run."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from varigraph.errors import OptionError

CONFIG = "config.json"
#: The folder within that of a run in which the probabilities of its links are computed.
LINKS = "links"
FOLDS = "fold-*.npz"
Arrays = dict[str, npt.NDArray[Any]]


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content takes the place of ``path`` when the block ends well, or vanishes.

    Args:
        path: the file to write; its folder must exist.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            yield stream
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as stream:
        stream.write(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON; numbers that JSON does not have are refused."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write named arrays, ``.npz``, without pickles."""
    with replacing(path) as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def write_weights(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write the weights of a network."""
    with replacing(path) as stream:
        torch.save(dict(state), stream)


def read_arrays(path: Path) -> Arrays | None:
    """Arrays written earlier, or ``None`` where there are none to trust."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except Exception:  # a damaged archive fails in any way that its bytes happen to suggest
        return None


def read_weights(path: Path) -> dict[str, Tensor] | None:
    """Weights written earlier, or ``None`` where there are none to trust."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:  # torch itself does not look at the checksums
                return None
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # as above
        return None
    return state if isinstance(state, dict) else None


def claim(folder: Path, config: dict[str, Any], *, fresh: bool = False) -> None:
    """Make the folder of a run, or take up one with the same options.

    Args:
        folder: where the run writes.
        config: its options, as JSON has them.
        fresh: remove what an earlier run wrote there (and nothing else).

    Raises:
        OptionError: where the folder holds anything but a run with these options.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"{folder} cannot be used: {error.strerror}", "choose another folder with --out"
        ) from error
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


#: What studies write, by patterns. What a folder is known by goes last.
_OURS = (
    *("predictions-*.npz", "uncertainty.png", "table.md", "results.json", "training.json"),
    *("sensitivity.csv", "sensitivity.png", "report.html"),
    *("model.pt", "links.tsv", "quality.json", "reliability.png", FOLDS, CONFIG),
)


def claim_folds(folder: Path, *, fresh: bool = False) -> None:
    """Make sure that a folder is free for the folds of links, or holds some.

    Args:
        folder: where they are written; it need not exist.
        fresh: remove what an earlier study wrote there (and nothing else).

    Raises:
        OptionError: where the folder holds anything else.
    """
    held = _held(folder) if folder.exists() else []
    if held and not list(folder.glob(FOLDS)):
        raise OptionError(
            f"{folder} is not empty and holds no {FOLDS}, so it has no folds of links",
            "choose another folder with --out",
        )
    if fresh:
        _clear(folder)


def _held(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.suffix != ".tmp"]
    except OSError as error:
        raise OptionError(
            f"{folder} cannot be used: {error.strerror}", "choose another folder with --out"
        ) from error


def _clear(folder: Path) -> None:
    if list((folder / LINKS).glob(FOLDS)):
        _clear(folder / LINKS)
    for pattern in _OURS:
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)


def _compare(folder: Path, config: dict[str, Any]) -> None:
    try:
        held, wanted = _flat(json.loads((folder / CONFIG).read_text())), _flat(config)
    except (ValueError, TypeError, AttributeError, OSError) as error:
        raise OptionError(
            f"{folder / CONFIG} cannot be read", "choose another folder with --out, or use --fresh"
        ) from error
    differing = [name for name in {**wanted, **held} if held.get(name) != wanted.get(name)]
    if differing:
        changes = (f"{name} {held.get(name)}, not {wanted.get(name)}" for name in differing)
        raise OptionError(
            f"{folder} holds a run with {'; '.join(changes)}",
            "choose another folder with --out, or replace that run with --fresh",
        )


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """The options and, one by one, the versions."""
    return {**config, **config.get("versions", {}), "versions": None}
