"""SEAL: a link is judged from the subgraph around it, by a network that learnt from the others."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.links.methods import Report
from varigraph.links.subgraphs import Subgraphs, Surroundings

#: Pairs that are scored at a time.
SCORED = 256
#: Share of the training subgraphs that sort pooling leaves whole. With the paper's 0.6 some
#: trainings sort the ends of large subgraphs out of sight: AUC 0.93 on Cora instead of 0.95.
KEPT = 0.95
WIDTHS = (32, 32, 32, 1)
#: Fewest nodes that two convolutions and a pooling leave something of.
FEWEST = 10


class Seal:
    """Log odds that two nodes are linked, learnt from the subgraphs around pairs of nodes.

    The subgraph around a pair never contains the pair's own link, so a link cannot vouch for
    itself. Where attributes are given, each node brings how alike it is to the two ends. Works on
    the CPU, wherever the tensors are. See https://arxiv.org/abs/1802.09691.

    Args:
        links: links that may be seen, each once, in any direction, ``[2, links]``.
        nodes: number of nodes.
        x: attributes of the nodes, ``[nodes, attributes]``, or None to go by the links alone.
        seed: of everything random; torch's global generator is left alone.
        hops: steps from a pair to the rim of its subgraph.
        cap: nodes kept of each step, so that hubs stay small; None keeps all.
        examples: pairs to train on, and held pairs to stop by; where more are given, so many are
            drawn from them.
        epochs: passes over the examples, at most.
        patience: passes without a smaller loss on the held pairs after which it stops.
        batch: examples per step of the optimiser.
        learning_rate: of Adam.

    Example:
        >>> links = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]])  # two triangles
        >>> pairs = torch.tensor([[0, 1, 0, 1], [1, 2, 3, 4]])
        >>> real = torch.tensor([True, True, False, False])
        >>> scorer = Seal(links, nodes=6, epochs=40, learning_rate=1e-2)
        >>> scorer.fit(pairs, real, pairs, real, report=lambda done: None)
        >>> scorer.logits(torch.tensor([[0, 2], [2, 5]])) > 0
        tensor([ True, False])
    """

    def __init__(
        self,
        links: Tensor,
        *,
        nodes: int,
        x: Tensor | None = None,
        seed: int = 0,
        hops: int = 2,
        cap: int | None = 100,
        examples: int = 10_000,
        epochs: int = 20,
        patience: int = 5,
        batch: int = 64,
        learning_rate: float = 5e-4,
    ) -> None:
        _check_options(examples=examples, epochs=epochs, patience=patience, batch=batch)
        if not 0 < learning_rate < math.inf:
            raise OptionError(f"learning_rate={learning_rate}", "learning_rate=5e-4")
        if x is not None:
            _check_attributes(x, nodes)
        self.surroundings = Surroundings(links, nodes=nodes, x=x, hops=hops, cap=cap, seed=seed)
        self.seed, self.examples, self.epochs, self.patience = seed, examples, epochs, patience
        self.batch, self.learning_rate = batch, learning_rate
        self.network: Dgcnn | None = None

    def fit(
        self,
        pairs: Tensor,  # [2, examples]
        real: Tensor,  # [examples] bool
        held: Tensor,  # [2, held]
        held_real: Tensor,  # [held] bool
        report: Report,
    ) -> None:
        """Learn what the surroundings of a link look like.

        Args:
            pairs: linked pairs and others to learn from.
            real: which of them are linked.
            held: pairs to learn nothing from: the weights with the smallest loss on them are kept.
            held_real: which of those are linked.
            report: called with the share of the work that is done.
        """
        _check_examples("pairs", pairs, real)
        _check_examples("held", held, held_real)
        draw = torch.Generator().manual_seed(self.seed)
        examples, unseen = self._some(pairs, real, draw), self._some(held, held_real, draw)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            network = _network(examples.graphs)
            self._train(network, examples, unseen, draw, report)
        # Scores in float64: rounding must not decide in which order the nodes of a pair are read.
        self.network = network.double()
        report(1.0)

    def logits(self, pairs: Tensor) -> Tensor:  # [2, pairs] -> [pairs]
        """Log odds that each pair is linked, were half of all pairs linked.

        Args:
            pairs: any pairs; the order of the two ends makes no difference.
        """
        if self.network is None:
            raise ModelError("this scorer has not learnt anything yet", "call its fit first")
        if pairs.numel() == 0:
            return torch.empty(0, device=pairs.device)
        around, parts = self.surroundings.around, pairs.split(SCORED, dim=1)
        scores = torch.cat([_logits(self.network, around(part)) for part in parts])
        return scores.float().to(pairs.device)

    def _some(
        self, pairs: Tensor, real: Tensor, draw: torch.Generator
    ) -> _Examples:  # [2, pairs], [pairs]
        chosen = torch.randperm(len(real), generator=draw)[: self.examples].to(pairs.device)
        return _Examples(self.surroundings.around(pairs[:, chosen]), real[chosen].cpu().float())

    def _train(
        self,
        network: Dgcnn,
        examples: _Examples,
        held: _Examples,
        draw: torch.Generator,
        report: Report,
    ) -> None:
        optimiser = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        best, best_epoch, weights = math.inf, 0, network.state_dict()
        for epoch in range(1, self.epochs + 1):
            order = torch.randperm(len(examples.real), generator=draw)
            for chosen in order.split(self.batch):
                loss = examples.loss(network, chosen)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            current = F.binary_cross_entropy_with_logits(_logits(network, held.graphs), held.real)
            if current < best:
                best, best_epoch = current.item(), epoch
                weights = copy.deepcopy(network.state_dict())
            report(epoch / self.epochs)
            if epoch - best_epoch >= self.patience:
                break
        if best_epoch == 0:
            raise ModelError("the loss is not a number", "learn more slowly: learning_rate=1e-4")
        network.load_state_dict(weights)


@dataclass(frozen=True, eq=False)
class _Examples:
    """Subgraphs and whether their pairs are linked, as 0 or 1."""

    graphs: Subgraphs
    real: Tensor  # [subgraphs]

    def loss(self, network: Dgcnn, chosen: Tensor) -> Tensor:  # [chosen] -> []
        network.train()
        logits = network(self.graphs.pick(chosen))
        return F.binary_cross_entropy_with_logits(logits, self.real[chosen])


@torch.no_grad()
def _logits(network: Dgcnn, graphs: Subgraphs) -> Tensor:  # -> [subgraphs]
    network.eval()
    parts = torch.arange(len(graphs)).split(SCORED)
    return torch.cat([network(graphs.pick(part)) for part in parts])


def _network(graphs: Subgraphs) -> Dgcnn:
    """A fresh network, as wide as the training examples ask for."""
    sizes = graphs.sizes.sort().values
    kept = int(sizes[math.ceil(KEPT * len(sizes)) - 1])
    return Dgcnn(
        labels=int(graphs.labels.max()) + 1,
        alike=graphs.alike.size(1),
        kept=max(FEWEST, kept),
    )


def _check_options(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise OptionError(f"{name}={count}", f"give at least {name}=1")


def _check_attributes(x: Tensor, nodes: int) -> None:  # [nodes, attributes]
    if x.dim() != 2 or x.size(0) != nodes or not x.is_floating_point():
        raise GraphError(
            f"x is {x.dtype} of shape {tuple(x.shape)}, but there are {nodes} nodes",
            f"give floats of shape ({nodes}, attributes), or x=None",
        )
    if not x.isfinite().all():
        raise GraphError("x has entries that are not numbers", "x = x.nan_to_num()")


def _check_examples(name: str, pairs: Tensor, real: Tensor) -> None:  # [2, pairs], [pairs]
    if real.dtype != torch.bool or real.shape != pairs.shape[1:] or len(real) == 0:
        raise GraphError(
            f"{name} has shape {tuple(pairs.shape)}, but what is real of them is {real.dtype} "
            f"of shape {tuple(real.shape)}",
            "give at least one pair, and for each whether it is linked, as torch.bool",
        )


class Dgcnn(nn.Module):
    r"""A number for each subgraph, whatever the order of its nodes.

    .. math::
        H_{t+1} = \tanh\left(\tilde D^{-1} ((A + I) H_t W_t + b_t)\right),
        \qquad \tilde D = \operatorname{diag}(A 1) + I

    for four layers of widths 32, 32, 32 and 1, from the one-hot labels of the nodes and their
    likeness to the ends. With the layers side by side, the nodes are sorted by the last channel,
    and the first ``kept`` pass through two one-dimensional convolutions and a dense layer.
    See https://doi.org/10.1609/aaai.v32i1.11782.

    Args:
        labels: number of different labels; larger ones count as the largest.
        alike: columns of :attr:`Subgraphs.alike`.
        kept: nodes that sort pooling keeps of a subgraph, at least 10.
        dropout: before the last layer.
    """

    def __init__(self, *, labels: int, alike: int, kept: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.labels, self.kept = labels, kept
        inputs = (labels + alike, *WIDTHS[:-1])
        self.layers = nn.ModuleList(map(_Layer, inputs, WIDTHS))
        # A convolution whose kernel and stride are one node: the same linear map for each.
        self.node = nn.Linear(sum(WIDTHS), 16)
        self.read = nn.Sequential(
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(16, 32, kernel_size=5),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * (kept // 2 - 4), 128),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(128, 1),
        )

    def forward(self, graphs: Subgraphs) -> Tensor:  # -> [subgraphs]
        """Log odds, one for each subgraph."""
        one_hot = F.one_hot(graphs.labels.clamp(max=self.labels - 1), self.labels)
        h = torch.cat([one_hot, graphs.alike], dim=1).to(self.node.weight.dtype)  # [nodes, inputs]
        source, target = graphs.edge_index
        degree = target.bincount(minlength=len(h))
        channels = []
        for layer in self.layers:
            h = layer(h, source, degree)
            channels.append(h)
        pooled = sort_pool(torch.cat(channels, dim=1), graphs.sizes, self.kept)
        logits: Tensor = self.read(self.node(pooled).transpose(1, 2)).squeeze(1)
        return logits


def sort_pool(
    h: Tensor, sizes: Tensor, kept: int
) -> Tensor:  # [nodes, channels], [graphs] -> [graphs, kept, channels]
    """The ``kept`` nodes with the largest last channel, in that order; zeros where there are fewer.

    Args:
        h: nodes of all graphs, one graph after the other.
        sizes: how many nodes each graph has.
        kept: nodes to keep of each.
    """
    graph = torch.repeat_interleave(sizes)  # [nodes]
    order = h[:, -1].detach().argsort(descending=True, stable=True)
    order = order[graph[order].argsort(stable=True)]
    rank = torch.arange(len(h)) - (sizes.cumsum(0) - sizes)[graph]
    chosen = rank < kept
    pooled = h.new_zeros(len(sizes) * kept, h.size(1))
    pooled = pooled.index_copy(0, (graph * kept + rank)[chosen], h[order[chosen]])
    return pooled.view(len(sizes), kept, -1)


class _Layer(nn.Module):
    """One step of the formula above."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.weigh = nn.Linear(inputs, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(
        self, h: Tensor, source: Tensor, degree: Tensor
    ) -> Tensor:  # [nodes, inputs], [edges], [nodes] -> [nodes, width]
        h = self.weigh(h)
        heard = _NeighbourSum.apply(h, source, degree)  # type: ignore[no-untyped-call]
        return torch.tanh((h + heard + self.bias) / (degree + 1).unsqueeze(1))


class _NeighbourSum(torch.autograd.Function):
    """Sum over the neighbours of each node. Links run both ways, so it is its own transpose."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, source: Tensor, degree: Tensor) -> Tensor:
        # An embedding bag adds rows up without copying them first: ten times as fast.
        ctx.source, ctx.starts = source, degree.cumsum(0) - degree
        return F.embedding_bag(source, h, ctx.starts, mode="sum")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return F.embedding_bag(ctx.source, grad.contiguous(), ctx.starts, mode="sum"), None, None
