"""What a run has done so far, on disk: started again, it goes on from there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from varigraph.errors import OptionError
from varigraph.files import replacing, write_json
from varigraph.files.fingerprint import fingerprint

FOLDER, MANIFEST = "unfinished", "run.json"


class Unfinished:
    """Where a run keeps what it needs to go on, beside its answer.

    Args:
        out: folder of the answer.
    """

    def __init__(self, out: Path) -> None:
        self.folder = out / FOLDER

    def check(self, meant: Mapping[str, Any]) -> None:
        """Raises if there is something else than what a run like this one has left.

        Args:
            meant: what tells this run from others, as JSON can hold it.
        """
        out = self.folder.parent
        try:
            begun = json.loads((self.folder / MANIFEST).read_text())
        except (OSError, ValueError):
            begun = None
        if begun is None:
            if out.exists() and (not out.is_dir() or {f.name for f in out.iterdir()} - {FOLDER}):
                raise OptionError(
                    f"{out} exists and is not empty", "choose another folder for the answer"
                )
            return
        other = sorted(name for name in meant if begun.get(name) != json_of(meant[name]))
        if other:
            raise OptionError(
                f"{out} holds a run that was not finished, begun with another {other[0]}",
                "start it as it was begun, remove the folder, or choose another",
            )

    def begin(self, meant: Mapping[str, Any]) -> None:
        """Write down what the run is, before it does anything."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / MANIFEST, dict(meant))

    def drop_if_empty(self) -> None:
        """Leave nothing behind of a run that has done nothing."""
        with suppress(OSError):
            if {file.name for file in self.folder.iterdir()} == {MANIFEST}:
                self.end()
                self.folder.parent.rmdir()

    def end(self) -> None:
        """Nothing is left to do."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def work(self, part: int) -> Path:
        """Folder for what is of use until a block of draws is done."""
        return self.folder / f"part-{part:05d}"

    def _file(self, part: int, name: str) -> Path:
        return self.folder / f"part-{part:05d}-{name}.npz"

    def save(self, part: int, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep something of a part."""
        with replacing(self._file(part, name)) as stream:
            arrays: dict[str, Any] = {key: value.numpy() for key, value in tensors.items()}
            np.savez(stream, **arrays)

    def has(self, part: int, name: str) -> bool:
        """Whether that is there."""
        return self._file(part, name).exists()

    def load(self, part: int, name: str) -> dict[str, Tensor]:
        """What was kept."""
        with np.load(self._file(part, name), allow_pickle=False) as held:
            return {key: torch.from_numpy(held[key]) for key in held.files}

    def _sums(self, part: int) -> dict[int, Path]:
        found = self.folder.glob(f"part-{part:05d}-sums-*.npz")
        return {int(file.stem.rpartition("-")[2]): file for file in found}

    def done(self, part: int) -> int:
        """After how many draws the sums of a part were last kept."""
        return max(self._sums(part), default=0)

    def drop_before(self, part: int, draws: int) -> None:
        """Sums of fewer draws are needed no more."""
        for done, file in self._sums(part).items():
            if done < draws:
                with suppress(FileNotFoundError):
                    file.unlink()


def sums_after(draws: int) -> str:
    """The name that sums are kept under."""
    return f"sums-{draws:08d}"


def json_of(value: Any) -> Any:
    """The value as it comes back from a file."""
    return json.loads(json.dumps(value))


def named(meant: Mapping[str, Any]) -> str:
    """A short text that tells a run from others."""
    return fingerprint(dict(meant))
