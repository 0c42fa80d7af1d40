"""Maps before sums, where that leaves fewer numbers to sum."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as gnn

from varigraph.prediction.sampled.messages import sums

#: Layers that map what they have summed over neighbours, and the name of that map.
MAPS = {gnn.SAGEConv: "lin_l", gnn.GraphConv: "lin_rel"}


@contextmanager
def mapped_first(model: nn.Module) -> Iterator[None]:
    r"""While this is open, layers whose map makes features fewer map before they sum.

    :math:`W \sum_v s_{uv} x_v = \sum_v s_{uv} W x_v`: a layer from 256 to 47 features reads a fifth
    for every link. Whoever opens this compares one run with the plain way first.

    Args:
        model: the network. Layers of other kinds stay as they are.
    """
    with ExitStack() as stack:
        for layer in list(model.modules()):
            name = MAPS.get(type(layer), "")
            own = getattr(layer, name, None)
            if isinstance(own, gnn.Linear) and _narrows(layer, own):
                setattr(layer, name, _Shift(own))
                stack.callback(setattr, layer, name, own)
                stack.callback(_map_messages(layer, own).remove)
        yield


def _narrows(layer: Any, own: gnn.Linear) -> bool:
    return sums(layer) and own.weight.shape[0] < own.weight.shape[1]


class _Shift(nn.Module):
    """What is left of a linear map when its matrix has been applied: the bias."""

    def __init__(self, own: gnn.Linear) -> None:
        super().__init__()
        self.own = own

    def forward(self, x: Tensor) -> Tensor:
        """Add it."""
        return x if self.own.bias is None else x + self.own.bias


def _map_messages(layer: Any, own: gnn.Linear) -> Any:
    """Hook in a map of the features that messages carry."""

    def mapped(_: Any, inputs: tuple[Any, Any, dict[str, Any]]) -> Any:
        edge_index, size, kwargs = inputs
        sent, *others = kwargs["x"]
        carried = F.linear(sent, own.weight)
        ends = tuple(carried if end is sent else end for end in others)
        return edge_index, size, {**kwargs, "x": (carried, *ends)}

    return layer.register_propagate_forward_pre_hook(mapped)
