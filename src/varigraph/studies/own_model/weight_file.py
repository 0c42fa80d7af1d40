"""The weights of a network, from a file that cannot run code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from varigraph.data.opened_files import regular
from varigraph.errors import FileError, ModelError, OptionError
from varigraph.studies.own_model.pickles import read_pickle

#: Names under which training scripts keep the weights next to other things.
WRAPPERS = ("state_dict", "model_state_dict", "model")
REMEDY = "save the weights alone: torch.save(model.state_dict(), 'weights.pt')"
#: Names of weights to put into a message.
SHOWN = 4


def load_weights(model: nn.Module, path: Path) -> None:
    """Put the weights of a file into a network; all of them must fit.

    Args:
        model: the network, which takes on float64 where the file has it.
        path: a ``.safetensors`` file, or a state dict by ``torch.save``; of a dict with more in
            it, what stands under one of :data:`WRAPPERS`.

    Raises:
        FileError: if there are no weights in the file, or only with code.
        ModelError: if weights are missing, left over or of another shape.
    """
    state = read_weights(path)
    _check_fit(model, state, path)
    if any(value.dtype == torch.float64 for value in state.values()):
        model.double()
    try:
        model.load_state_dict(dict(state))
    except RuntimeError as error:
        raise ModelError(
            f"{path} does not fit {type(model).__name__}: {str(error).strip().splitlines()[-1]}",
            "give the network the --arguments that it was trained with",
        ) from error


def read_weights(path: Path) -> Mapping[str, Tensor]:
    """The tensors of a file, by their names.

    Args:
        path: as in :func:`load_weights`.
    """
    if path.suffix.lower() == ".safetensors":
        return _safetensors(path)
    state: Any = read_pickle(path, remedy=REMEDY)
    if isinstance(state, dict) and not _is_state(state):
        state = next((state[name] for name in WRAPPERS if _is_state(state.get(name))), state)
    if not _is_state(state):
        raise FileError(path, f"holds {_what(state)}, not a state dict", REMEDY)
    return dict(state)


def _safetensors(path: Path) -> Mapping[str, Tensor]:
    try:
        from safetensors.torch import load_file  # noqa: PLC0415 - optional dependency
    except ModuleNotFoundError as error:
        raise OptionError(
            f"{path} needs safetensors, which is not installed", "pip install safetensors"
        ) from error
    with regular(path):  # kept open, so that what was looked at is not a pipe
        try:
            state: dict[str, Tensor] = load_file(path)
        except Exception as error:  # its own kind, which is not the same in all versions
            raise FileError(path, f"is not a safetensors file: {error}", "save it again") from error
    return state


def _is_state(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and len(value) > 0
        and all(isinstance(name, str) for name in value)
        and all(isinstance(tensor, Tensor) for tensor in value.values())
    )


def _what(value: Any) -> str:
    if isinstance(value, dict):
        return f"a dict of {_some([str(name) for name in value])}" if value else "an empty dict"
    return f"a {type(value).__name__}"


def _check_fit(model: nn.Module, state: Mapping[str, Tensor], path: Path) -> None:
    own = model.state_dict()
    kind = type(model).__name__
    problems = []
    if missing := [name for name in own if name not in state]:
        problems.append(f"lacks {_some(missing)}")
    if unexpected := [name for name in state if name not in own]:
        problems.append(f"has {_some(unexpected)}, unknown to {kind}")
    problems += [
        f"has {name} of shape {tuple(state[name].shape)} where {kind} has {tuple(value.shape)}"
        for name, value in own.items()
        if name in state and not is_lazy(value) and state[name].shape != value.shape
    ][:SHOWN]
    if problems:
        raise ModelError(
            f"{path} does not fit {kind}: it {'; it '.join(problems)}",
            "give the network the --arguments that it was trained with, and the names of weights "
            "as its state_dict() has them",
        )


def _some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
