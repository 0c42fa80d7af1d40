"""Networks: layers × activations × norms × dropouts × depth, ready-made and written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as gnn

from campaign.choices import Choices

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "celu": nn.CELU,
    "selu": nn.SELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "prelu": nn.PReLU,
    "identity": nn.Identity,
}
NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm1d,
    "batch of graphs": gnn.BatchNorm,
    "layer": nn.LayerNorm,
    "layer of nodes": lambda width: gnn.LayerNorm(width, mode="node"),
    "layer of graphs": lambda width: gnn.LayerNorm(width, mode="graph"),
    "graph": gnn.GraphNorm,
}
APPROXIMATE = (nn.LayerNorm, gnn.LayerNorm, gnn.GraphNorm)
DROPOUTS = (0.0, 0.0, 0.5, 0.1, 0.9)


def _gin(entering: int, leaving: int) -> nn.Module:
    first = nn.Linear(entering, leaving)
    layer: nn.Module = gnn.GINConv(nn.Sequential(first, nn.ReLU(), nn.Linear(leaving, leaving)))
    return layer


class _ThenPropagated(nn.Module):
    """APPNP behind the linear map that it is always used with."""

    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__()
        self.map, self.propagate = nn.Linear(entering, leaving), gnn.APPNP(K=2, alpha=0.2)

    def forward(self, x: Tensor, links: Tensor) -> Any:
        return self.propagate(self.map(x), links)


class _Dense(nn.Module):
    """A dense layer between others that look at neighbours."""

    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__()
        self.map = nn.Linear(entering, leaving)

    def forward(self, x: Tensor, links: Tensor) -> Any:
        return self.map(x)


LAYERS: dict[str, Callable[[int, int], nn.Module]] = {
    "sage": gnn.SAGEConv,
    "gcn": gnn.GCNConv,
    "graph conv": gnn.GraphConv,
    "gin": _gin,
    "sage of sums": lambda entering, leaving: gnn.SAGEConv(entering, leaving, aggr="sum"),
    "sage without root": lambda i, o: gnn.SAGEConv(i, o, root_weight=False),
    "mean graph conv": lambda entering, leaving: gnn.GraphConv(entering, leaving, aggr="mean"),
    "gcn without loops": lambda i, o: gnn.GCNConv(i, o, add_self_loops=False),
    "sgc": lambda entering, leaving: gnn.SGConv(entering, leaving, K=2),
    "appnp": _ThenPropagated,
    "dense": _Dense,
    "attention": gnn.GATConv,
}


class HandWritten(nn.Module):
    """Layers, norms, activations and dropout in a row, as people write them."""

    def __init__(
        self,
        layers: list[nn.Module],
        norms: list[nn.Module],
        activation: nn.Module,
        *,
        dropout: float,
        residual: bool,
        jumping: gnn.JumpingKnowledge | None,
        head: nn.Module | None,
        ending: str,
    ) -> None:
        super().__init__()
        self.layers, self.norms = nn.ModuleList(layers), nn.ModuleList(norms)
        self.activation, self.dropout, self.residual = activation, dropout, residual
        self.jumping, self.head, self.ending = jumping, head, ending

    def forward(self, x: Tensor, links: Tensor) -> Tensor:
        """One value per class or output for each node."""
        reached = []
        for number, layer in enumerate(self.layers):
            out = layer(x, links)
            if number < len(self.norms):  # nothing bends behind the last layer of all
                out = self.activation(self.norms[number](out))
                out = F.dropout(out, self.dropout, training=self.training)
            x = out + x if self.residual and out.shape == x.shape else out
            reached.append(x)
        x = self.jumping(reached) if self.jumping is not None else x
        x = self.head(x) if self.head is not None else x
        return _ENDINGS[self.ending](x)


_ENDINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda x: x,
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: F.log_softmax(x, dim=-1),
}


def network(choose: Choices, features: int) -> nn.Module:
    """A network whose weights, biases and running statistics are all drawn."""
    kind = choose.one_of(("by hand", "by hand", "by hand", "ready-made"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(choose.integer(0, 10_000))
        model: nn.Module = (
            by_hand(choose, features) if kind == "by hand" else ready_made(choose, features)
        )
        _as_if_trained(model)
    return model.train(choose.happens(20))


def by_hand(choose: Choices, features: int) -> nn.Module:
    """One kind of layer, or a mixture."""
    depth, width, outputs = (
        choose.one_of((1, 2, 2, 3, 4)),
        choose.one_of((4, 3, 8, 1)),
        _outputs(choose),
    )
    jumping = choose.one_of(("", "", "", "", "cat", "max")) if depth > 1 else ""
    headed = bool(jumping) or choose.happens(40)
    kinds = list(LAYERS)[: -1 if not choose.happens(20) else None]
    kinds = (
        [choose.one_of(kinds)] * depth
        if choose.happens(60)
        else [choose.one_of(kinds) for _ in range(depth)]
    )
    widths = [features, *[width] * (depth - 1), width if headed else outputs]
    layers = [LAYERS[kind](*widths[place : place + 2]) for place, kind in enumerate(kinds)]
    norm = NORMS[choose.one_of(list(NORMS))] if choose.happens(40) else nn.Identity
    endings = ("softmax", "log_softmax") if outputs > 1 and choose.happens(12) else ("",)
    return HandWritten(
        layers,
        [norm(width) for _ in range(depth if headed else depth - 1)],
        ACTIVATIONS[choose.one_of(list(ACTIVATIONS))](),
        dropout=choose.one_of(DROPOUTS),
        residual=choose.happens(20),
        jumping=gnn.JumpingKnowledge(jumping) if jumping else None,
        head=nn.Linear(width * (depth if jumping == "cat" else 1), outputs) if headed else None,
        ending=choose.one_of(endings),
    )  # fmt: skip


def ready_made(choose: Choices, features: int) -> Any:
    """torch_geometric's own networks, with their options."""
    kind = choose.one_of((gnn.GraphSAGE, gnn.GCN, gnn.GIN, gnn.MLP))
    activation = ACTIVATIONS[choose.one_of(list(ACTIVATIONS))]()
    depth, width, outputs = choose.one_of((2, 1, 3)), choose.one_of((4, 8)), _outputs(choose)
    rate = choose.one_of(DROPOUTS)
    norm = choose.one_of((None, None, "batch_norm", "layer_norm", "graph_norm"))
    if kind is gnn.MLP:
        norm = norm if norm != "graph_norm" else None  # wants to be told the graph of each node
        channels = [features, *[width] * (depth - 1), outputs]
        return gnn.MLP(channels, dropout=rate, act=activation, norm=norm)
    jumping = choose.one_of((None, None, None, "last", "cat", "max"))
    return kind(features, width, depth, outputs, rate, act=activation, norm=norm, jk=jumping)


def _outputs(choose: Choices) -> int:
    return choose.one_of((2, 1, 3, 5))


def _as_if_trained(model: nn.Module) -> None:
    """Biases and statistics that are not those of a new network: zeros and ones hide mistakes."""
    for name, values in (*model.named_parameters(), *model.named_buffers()):
        if name.endswith(("bias", "running_mean", "mean_scale")):
            values.data.normal_(0, 0.3)
        elif name.endswith("running_var") or (values.dim() == 1 and name.endswith("weight")):
            values.data.uniform_(0.5, 2)


def parts(model: nn.Module, *kinds: type[nn.Module]) -> Iterator[Any]:
    """All parts of these kinds, however deep."""
    return (module for module in model.modules() if isinstance(module, kinds))


def has_rules(model: nn.Module) -> bool:
    """Whether every layer has a rule; attention has none, and none for links."""
    return not any(parts(model, gnn.GATConv))


def is_approximate(model: nn.Module) -> bool:
    """Whether closed forms promise little: by norms, the largest of values, or attention."""
    return takes_maxima(model) or freezes_statistics(model) or not has_rules(model)


def freezes_statistics(model: nn.Module) -> bool:
    """Whether the network has norms whose rules take their statistics as certain."""
    return any(parts(model, *APPROXIMATE))


def is_linear(model: nn.Module) -> bool:
    """Whether nothing bends on the way."""
    bends = tuple(kind for kind in ACTIVATIONS.values() if kind is not nn.Identity)
    return not is_approximate(model) and has_rules(model) and not any(parts(model, *bends))


def comes_back(model: nn.Module) -> bool:
    """Whether messages may pass the same coin twice in one layer: to first order it is two."""
    return any(parts(model, gnn.SGConv, gnn.APPNP))


def takes_maxima(model: nn.Module) -> bool:
    """Whether the network takes the largest of several numbers, as if they were independent."""
    return any(knowledge.mode == "max" for knowledge in parts(model, gnn.JumpingKnowledge))


def dropout_of(model: nn.Module) -> float:
    """The rate of the network's own dropout."""
    rates = [module.p for module in parts(model, nn.Dropout)]
    rates += [module.dropout for module in parts(model, HandWritten)]
    rates += [max(module.dropout) for module in parts(model, gnn.MLP)]
    return max(rates, default=0.0)


def sees_whole_graph(model: nn.Module) -> bool:
    """Whether a node's answer hangs on nodes that no link leads to, through statistics."""
    whole = any(norm.mode == "graph" for norm in parts(model, gnn.LayerNorm))
    return whole or any(parts(model, gnn.GraphNorm))


def sends_messages(model: nn.Module) -> bool:
    """Whether links matter to the network."""
    return any(parts(model, gnn.MessagePassing))
