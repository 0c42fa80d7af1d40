"""Objects of the user's own Python, by ``package.module:name`` or ``path/to/file.py:name``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from varigraph.errors import OptionError
from varigraph.user_code import place_of

WAYS = "write package.module:name or path/to/file.py:name"


def named_object(spec: str) -> Any:
    """What a module or a file of Python has under a name.

    The module is imported, as ``import`` would: that is the user's own code.

    Args:
        spec: ``torch_geometric.nn:GraphSAGE``, ``networks.py:build`` and the like. Modules are
            looked for in the current folder first.

    Raises:
        OptionError: if there is no such module, file or name, or it cannot be imported.
    """
    home, colon, name = spec.rpartition(":")
    if not (colon and home and name):
        raise OptionError(f"{spec} names no object of Python", _way_of(Path(spec)))
    module = _file(Path(home).expanduser()) if home.endswith(".py") else _module(home)
    try:
        return reduce(getattr, name.split("."), module)
    except AttributeError as error:
        public = [known for known in vars(module) if not known.startswith("_")]
        near = get_close_matches(name, public, n=1) or public[:5]
        raise OptionError(
            f"{home} has no {name!r}", f"name one of its own, such as {', '.join(near)}"
        ) from error


def _way_of(path: Path) -> str:
    if path.suffix in {".pt", ".pth", ".safetensors"}:
        return (
            "weights do not say which network they belong to: give it as file.py:factory or "
            f"package.module:Class, and the file by --weights {path}"
        )
    return f"{WAYS}, or the folder of a run"


def _module(name: str) -> ModuleType:
    with _importable(Path.cwd()), _explained(name):
        return importlib.import_module(name)


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise OptionError(f"there is no file {path}", "correct the path")
    name = f"own_{path.stem}"  # a file may be called like a module that others need
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path.resolve()):
        return known  # a second object of the same file
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and torch_geometric's layers look for it there
    try:
        with _importable(path.resolve().parent), _explained(str(path)):
            spec.loader.exec_module(module)
    except OptionError:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Within it, modules of a folder are found, as in a script that lies there."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise OptionError(
            f"{what} cannot be imported: {place_of(error)}",
            "correct the name, install it, or go to the folder that it lies in",
        ) from error
    except (Exception, SystemExit) as error:
        raise OptionError(
            f"{what} cannot be imported: {place_of(error)}",
            "make it importable: what a script does goes under if __name__ == '__main__':",
        ) from error
