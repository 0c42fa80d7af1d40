"""The folder of a study: one process works there, a second run finds what the first finished."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from varigraph.data.opened_files import check_whole, opened_arrays, regular
from varigraph.errors import FileError, OptionError
from varigraph.files import locked, replacing, write_json
from varigraph.files.fingerprint import fingerprint
from varigraph.files.locks import LOCK, unusable
from varigraph.files.whole_file import say_unused

CONFIG = "config.json"
#: Where the probabilities of links are computed: in the folder of a run, or in the present one.
LINKS_FOLDER = "links"
FOLDS = "fold-*.npz"
#: What studies write, by patterns; folds, which identify their folder, go last. The options stay
#: until those of the next run take their place: killed at any moment, a folder is one of a run.
_OURS = (
    *("predictions-*.npz", "uncertainty.png", "table.md", "results.json", "training.json"),
    *("sensitivity.csv", "sensitivity.png", "brute_force.json", "report.html"),
    *("model.pt", "links.tsv", "links.csv", "quality.json", "reliability.png", FOLDS),
)
Arrays = dict[str, npt.NDArray[Any]]
Record = dict[str, Any]
#: The entry of a piece that says what made it.
ORIGIN = "origin"
#: The entry beside it, under a name by which ``--weights`` finds weights as well.
STATE = "state_dict"
Content = TypeVar("Content")


@contextmanager
def claimed(folder: Path, config: dict[str, Any], *, fresh: bool = False) -> Iterator[Pieces]:
    """Within it, a folder is that of one run; its pieces, those of an earlier call included.

    Args:
        folder: where the run writes.
        config: its options, as a JSON object.
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
        config: its options, as a JSON object.
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
    """The error about a file that is not a configuration."""
    return FileError(
        path, "holds no options of a run", "choose another folder, or replace the run by --fresh"
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
    if list((folder / LINKS_FOLDER).glob(FOLDS)):
        with locked(folder / LINKS_FOLDER):
            _clear(folder / LINKS_FOLDER)
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


@dataclass(frozen=True)
class Pieces:
    """Finished pieces in a folder, read back only where the same options made them.

    Args:
        folder: that holds them.
        options: everything that decides their content, as JSON has it.
    """

    folder: Path
    options: Mapping[str, Any]

    def read_arrays(self, name: str, *, network: str | None = None) -> Arrays | None:
        """Arrays written earlier, or None where there are none to trust.

        Args:
            name: of the file, ``.npz``; a piece under the name of another one is not trusted.
            network: fingerprint of the weights that the arrays depend on, if they do.
        """
        held = _arrays(self.folder / name)
        return self._trusted(name, held, str(held.pop(ORIGIN, None)), network)

    def write_arrays(self, name: str, arrays: Arrays, *, network: str | None = None) -> None:
        """Write named arrays, without pickles.

        Args:
            name: of the file, ``.npz``.
            arrays: by name.
            network: as in :meth:`read_arrays`.
        """
        origin = np.array(self._origin(name, network))
        with replacing(self._path(name)) as stream:
            np.savez(stream, allow_pickle=False, **arrays, **{ORIGIN: origin})

    def read_weights(self, name: str) -> dict[str, Tensor] | None:
        """Weights written earlier, or None where there are none to trust."""
        held = _saved(self.folder / name)
        return self._trusted(name, held.get(STATE), held.get(ORIGIN))

    def write_weights(self, name: str, state: Mapping[str, Tensor]) -> None:
        """Write the weights of a network."""
        packed = io.BytesIO()  # by itself torch answers a full disk with errors of its own
        torch.save({STATE: dict(state), ORIGIN: self._origin(name)}, packed)
        with replacing(self._path(name)) as stream:
            stream.write(packed.getbuffer())

    def read_record(self, name: str, *, network: str | None = None) -> Record | None:
        """A JSON object written earlier, or None where there is none to trust.

        Args:
            name: of the file, ``.json``.
            network: as in :meth:`read_arrays`.
        """
        held = _record(self.folder / name)
        return self._trusted(name, held, held.get(ORIGIN), network)

    def write_record(self, name: str, record: Record, *, network: str | None = None) -> None:
        """Write a JSON object.

        Args:
            name: of the file, ``.json``.
            record: what to write.
            network: as in :meth:`read_arrays`.
        """
        write_json(self._path(name), {**record, ORIGIN: self._origin(name, network)})

    def _trusted(
        self, name: str, content: Content, origin: object, network: str | None = None
    ) -> Content | None:
        if origin == self._origin(name, network):
            return content
        say_unused(self.folder / name)
        return None

    def _origin(self, name: str, network: str | None = None) -> str:
        return fingerprint({"options": dict(self.options), "piece": name, "network": network})

    def _path(self, name: str) -> Path:
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(
                path, f"cannot be written: {error.strerror}", "choose another folder with --out"
            ) from error
        return path


def _arrays(path: Path) -> Arrays:
    """Nothing where the file is missing or damaged, as in the next two functions."""
    try:
        with opened_arrays(path) as stored:
            return {name: stored[name] for name in stored.files}
    except FileError:
        return {}


def _saved(path: Path) -> dict[str, Any]:
    try:
        with regular(path) as stream:
            check_whole(path, stream)
            held = torch.load(stream, map_location="cpu", weights_only=True)
    except Exception:  # a damaged archive fails in any way that its bytes happen to suggest
        return {}
    state = held.get(STATE) if isinstance(held, dict) else None
    whole = isinstance(state, dict) and all(isinstance(value, Tensor) for value in state.values())
    return held if whole else {}


def _record(path: Path) -> Record:
    try:
        with regular(path) as stream:
            held = json.load(stream)
    except (FileError, ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}
