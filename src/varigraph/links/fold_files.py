"""Finished folds on disk: whole or absent, and known by the settings that made them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from varigraph.data.opened_files import opened_arrays
from varigraph.errors import FileError, OptionError
from varigraph.files import replacing
from varigraph.files.whole_file import say_unused
from varigraph.links.fold_settings import Settings
from varigraph.links.judgement import Judgement


class FoldFiles:
    """A folder in which every finished fold is a file, found again by a second call.

    Args:
        folder: where the files are.
        settings: what decides their content.

    Raises:
        OptionError: if the folder holds folds made with other settings.
    """

    def __init__(self, folder: str | os.PathLike[str], settings: Settings) -> None:
        self._folder, self._settings = Path(folder), dict(settings)
        for path in sorted(self._folder.glob("fold-*.npz")):
            self._compare(path)

    def read(self, number: int) -> Judgement | None:
        """The fold as it was written under this number, or None where there is none to trust."""
        stored = _stored(self._path(number))
        if stored is None or stored.number != number:
            say_unused(self._path(number))
            return None
        return stored.fold

    def write(self, number: int, fold: Judgement) -> None:
        """Keeps a finished fold, in one step or not at all.

        Raises:
            FileError: if it cannot be written.
        """
        with replacing(self._path(number)) as stream:
            np.savez(
                stream,
                allow_pickle=False,
                links=fold.links.cpu().numpy(),
                others=fold.others.cpu().numpy(),
                calibration=np.array(fold.calibration),
                settings=np.array(json.dumps(self._settings)),
                number=np.array(number),
            )

    def _path(self, number: int) -> Path:
        return self._folder / f"fold-{number + 1}.npz"

    def _compare(self, path: Path) -> None:
        stored = _stored(path)
        if stored is None:
            return
        held = stored.settings
        differing = [
            f"{name} {held.get(name)}, not {self._settings.get(name)}"
            for name in {**self._settings, **held}
            if held.get(name) != self._settings.get(name)
        ]
        if differing:
            raise OptionError(
                f"{path} was made with {'; '.join(differing)}",
                "choose another folder, or delete the folds in this one",
            )


class _Stored(NamedTuple):
    """What stands in a file, with what made it."""

    fold: Judgement
    settings: dict[str, Any]
    number: int


def _stored(path: Path) -> _Stored | None:
    try:
        with opened_arrays(path) as arrays:
            links, others = (torch.from_numpy(arrays[name]) for name in ("links", "others"))
            fold = Judgement(links, others, str(arrays["calibration"]))
            settings = dict(json.loads(str(arrays["settings"])))
            return _Stored(fold, settings, int(arrays["number"]))
    except FileError:
        return None
