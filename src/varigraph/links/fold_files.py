"""Finished folds on disk: whole or absent, and known by the settings that made them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import torch

from varigraph.errors import OptionError
from varigraph.links.fold_settings import Settings
from varigraph.links.judgement import Judgement


class FoldFiles:
    """A folder in which every finished fold is a file, found again by a second call.

    Args:
        folder: where the files are; made if it is missing.
        settings: what decides their content.

    Raises:
        OptionError: if the folder cannot be written, or holds folds made with other settings.
    """

    def __init__(self, folder: str | os.PathLike[str], settings: Settings) -> None:
        self._folder, self._settings = Path(folder), dict(settings)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            files = sorted(self._folder.glob("fold-*.npz"))
        except OSError as error:
            raise OptionError(
                f"the folder {self._folder} cannot be used: {error.strerror}", "choose another one"
            ) from error
        for path in files:
            self._compare(path)

    def read(self, number: int) -> Judgement | None:
        """The fold as it was written, or None where there is none to trust."""
        stored = _stored(self._path(number))
        if stored is None:
            return None
        return Judgement(
            torch.from_numpy(stored["links"]),
            torch.from_numpy(stored["others"]),
            str(stored["calibration"]),
        )

    def write(self, number: int, fold: Judgement) -> None:
        """Keeps a finished fold, in one step or not at all.

        Raises:
            OptionError: if it cannot be written.
        """
        path = self._path(number)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as stream:
                np.savez(
                    stream,
                    allow_pickle=False,
                    links=fold.links.cpu().numpy(),
                    others=fold.others.cpu().numpy(),
                    calibration=np.array(fold.calibration),
                    settings=np.array(json.dumps(self._settings)),
                )
            os.replace(temporary, path)
        except OSError as error:
            raise OptionError(
                f"{path} cannot be written: {error.strerror}", "choose another folder"
            ) from error
        finally:
            temporary.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"fold-{number + 1}.npz"

    def _compare(self, path: Path) -> None:
        stored = _stored(path)
        if stored is None:
            return
        held = json.loads(str(stored["settings"]))
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


def _stored(path: Path) -> dict[str, np.ndarray] | None:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return {name: archive[name] for name in ("links", "others", "calibration", "settings")}
    except Exception:  # a damaged archive fails in any way that its bytes happen to suggest
        return None
