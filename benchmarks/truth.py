"""Brute force through the unmodified torch_geometric model, sharing no code with any method."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import to_torch_csr_tensor

#: Draws of the logits that are kept, to see how many of them intervals cover.
KEPT = 300


@dataclass
class Truth:
    """Running moments of logits and probabilities around a first guess."""

    nodes: Tensor
    kept: list[Tensor] = field(default_factory=list)
    count: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)
    start: dict[str, Tensor] = field(default_factory=dict)

    def add(self, logits: Tensor) -> None:
        logits = logits[self.nodes]
        values = {"logits": logits.double()}
        values["probabilities"] = values["logits"].softmax(-1)
        for name, value in values.items():
            shift = self.start.setdefault(name, value)
            for power in (1, 2, 3, 4):
                key = f"{name}{power}"
                self.sums[key] = self.sums.get(key, 0) + (value - shift) ** power
        self.count += 1
        if self.count <= KEPT:
            self.kept.append(logits.cpu())

    def _raw(self, name: str) -> list[Tensor]:
        return [self.sums[f"{name}{power}"] / self.count for power in (1, 2, 3, 4)]

    def var(self, name: str) -> Tensor:
        first, second, *_ = self._raw(name)
        return ((second - first**2) * self.count / (self.count - 1)).cpu()

    def error(self, name: str) -> Tensor:
        """Standard error of the variance, from the fourth moment."""
        a, b, c, d = self._raw(name)
        fourth = d - 4 * a * c + 6 * a**2 * b - 3 * a**4
        return ((fourth - (b - a**2) ** 2).clamp_min(0) / self.count).sqrt().cpu()


@torch.no_grad()
def brute_force(
    model: nn.Module, graph: Data, *, draws: int, device: str, drop: bool = False, seed: int = 1
) -> Truth:
    """Draw whatever the graph says is uncertain, noise at full size, and dropout if asked to."""
    torch.manual_seed(seed)
    model, graph = model.to(device), graph.clone().to(device)
    truth = Truth(graph.test_mask)
    std = torch.as_tensor(graph.get("x_var", 0.0)).sqrt().to(device)
    prob = graph.get("edge_prob")
    links = graph.edge_index if prob is not None else adjacency(graph)
    coins = _Coins(model, graph, prob) if prob is not None else None
    for module in model.modules():
        module.training = drop
    for _ in range(draws):
        if coins is not None:
            coins.toss()
        x = graph.x if float(std) == 0 else graph.x + std * torch.randn_like(graph.x)
        truth.add(model(x, links))
    if coins is not None:
        coins.remove()
    model.eval().cpu()
    return truth


@torch.no_grad()
def removed_links(
    model: nn.Module, graph: Data, *, draws: int, device: str, seed: int = 1
) -> Truth:
    """Graphs from which links were taken out, both ways at once, and noise at full size."""
    torch.manual_seed(seed)
    model, graph = model.to(device).eval(), graph.clone().to(device)
    truth, coins = Truth(graph.test_mask), _Coins(model, graph, graph.edge_prob)
    coins.remove()  # what they show is enough: no message is silenced
    std = torch.as_tensor(graph.get("x_var", 0.0)).sqrt().to(device)
    for _ in range(draws):
        coins.toss()
        x = graph.x if float(std) == 0 else graph.x + std * torch.randn_like(graph.x)
        truth.add(model(x, graph.edge_index[:, coins.keep > 0]))
    model.cpu()
    return truth


def adjacency(graph: Data) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        size = (graph.num_nodes, graph.num_nodes)
        return to_torch_csr_tensor(graph.edge_index.flip(0), size=size)


class _Coins:
    """One coin per undirected link, the same in every layer; loops a layer adds are certain."""

    def __init__(self, model: nn.Module, graph: Data, prob: Tensor) -> None:
        low, high = graph.edge_index.min(0).values, graph.edge_index.max(0).values
        pairs, self.coin = (low * graph.num_nodes + high).unique(return_inverse=True)
        self.prob = torch.zeros(len(pairs), device=prob.device).scatter_(0, self.coin, prob)
        layers = [m for m in model.modules() if isinstance(m, MessagePassing)]
        self.handles = [m.register_message_forward_hook(self._silence) for m in layers]

    def toss(self) -> None:
        self.keep = (torch.rand_like(self.prob) < self.prob)[self.coin].float()

    def _silence(self, layer: Any, inputs: Any, message: Tensor) -> Tensor:
        own = message.new_ones(len(message) - len(self.keep))
        return message * torch.cat([self.keep, own])[:, None]

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


@torch.no_grad()
def exact_variance(model: nn.Module, graph: Data, nodes: Tensor) -> Tensor:  # [nodes, classes]
    """Variance of a linear network's logits under feature noise, from its exact Jacobian.

    The network is affine in x, so a row of the Jacobian is the gradient of one logit, in double
    precision; with noise of one variance for all features it is that times its squared length.
    """
    model, x = model.double(), graph.x.double()
    found = []
    with torch.enable_grad():
        x.requires_grad_()
        logits = model(x, graph.edge_index)
        for node in nodes.tolist():
            rows = [
                torch.autograd.grad(value, x, retain_graph=True)[0].square().sum()
                for value in logits[node]
            ]
            found.append(torch.stack(rows))
    model.float()
    return torch.stack(found) * float(graph.x_var)
