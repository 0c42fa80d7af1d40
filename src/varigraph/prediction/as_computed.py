"""Models and graphs as they come, in a form to compute with: enough digits, written, changeable."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy, deepcopy

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.errors import MissingRuleError, ModelError

#: With fewer digits a variance is lost in the rounding of the mean.
COARSE = (torch.float16, torch.bfloat16)


def as_computed(model: nn.Module, data: Data) -> tuple[nn.Module, Data]:
    """The network itself behind what compiles it; copies in float32 of what is in half precision.

    What was made in inference mode, and cannot be differentiated, is copied too. The user's own
    model and graph stay as they are.

    Args:
        model: what was given, a network or not.
        data: the graph.

    Raises:
        ModelError: the network cannot be copied.
    """
    model = getattr(model, "_orig_mod", model)
    if not isinstance(model, nn.Module):
        return model, data
    wide = computed_in(model, data)
    with torch.inference_mode(False):
        if any(_is_foreign(value) for _, value in data):
            data = _graph(data, wide)
        if any(_is_foreign(tensor) for tensor in _tensors(model)):
            model = _copied(model).to(wide)
    return model, data


def computed_in(model: nn.Module, data: Data) -> torch.dtype:
    """Float64 where the model or the features are in it, else float32."""
    kinds = {data.x.dtype, *(tensor.dtype for tensor in model.parameters())}
    return torch.float64 if torch.float64 in kinds else torch.float32


def is_coarse(model: nn.Module, data: Data) -> bool:
    """Whether the model or the features are in half precision."""
    return data.x.dtype in COARSE or any(each.dtype in COARSE for each in model.parameters())


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def _is_foreign(value: object) -> bool:
    return isinstance(value, Tensor) and (value.dtype in COARSE or value.is_inference())


def _graph(data: Data, wide: torch.dtype) -> Data:
    found = copy(data)
    for name, value in data:
        if _is_foreign(value):
            found[name] = value.to(wide) if value.dtype in COARSE else value.clone()
    return found


def _copied(model: nn.Module) -> nn.Module:
    try:
        return deepcopy(model)
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} is in half precision or was made in inference mode, and "
            f"cannot be copied: {error}",
            "model.float() and graph.x = graph.x.float(), outside of torch.inference_mode()",
        ) from error


def refuse_scripted(model: nn.Module) -> None:
    """Raises where a part of the network is hidden by torch.jit: rules do not see into it."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise MissingRuleError(
                f"{f'layer {name}' if name else 'the model'} was scripted or traced by torch.jit, "
                "which hides what it is made of",
                'give the network that it was made of, or method="sampled"',
            )
