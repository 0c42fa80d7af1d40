"""Finished pieces of a study: each is a file that says what made it, and is trusted by that."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from varigraph.data.opened_files import check_whole, opened_arrays, regular
from varigraph.errors import FileError
from varigraph.files import replacing, write_json
from varigraph.files.fingerprint import fingerprint
from varigraph.files.whole_file import say_unused

Arrays = dict[str, npt.NDArray[Any]]
Record = dict[str, Any]
#: The entry of a piece that tells what made it.
ORIGIN = "origin"
#: The entry beside it, under a name by which ``--weights`` finds weights as well.
STATE = "state_dict"
Content = TypeVar("Content")


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

    def read_record(self, name: str) -> Record | None:
        """A JSON object written earlier, or None where there is none to trust."""
        held = _record(self.folder / name)
        return self._trusted(name, held, held.get(ORIGIN))

    def write_record(self, name: str, record: Record) -> None:
        """Write a JSON object."""
        write_json(self._path(name), {**record, ORIGIN: self._origin(name)})

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
    """Nothing where the file is missing or damaged, as in the next two."""
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
