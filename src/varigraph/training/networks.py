"""Networks to train: the paper's, and one that reads a node's own features first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

from varigraph.errors import GraphError, OptionError
from varigraph.options import seed_of


class PaperNetwork(nn.Module):
    r"""Two GraphSAGE layers, three dense layers, nothing but dropout between them.

    .. math::
        h_u' = C h_u + A \frac{1}{|N(u)|} \sum_{v \in N(u)} h_v + b
        \quad (64, 32), \qquad
        \text{logits} = W_3 W_2 W_1 h \quad (12, 8, \text{classes})

    Activations are linear and every hidden representation goes through dropout, as in the paper.
    The GraphSAGE weights start as in DGL, the library that it used: Glorot with gain √2.

    Args:
        features: numbers per node.
        classes: number of classes.
        dropout: share of each hidden representation dropped.
    """

    def __init__(self, features: int, classes: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.conv1 = SAGEConv(features, 64, aggr="mean")
        self.conv2 = SAGEConv(64, 32, aggr="mean")
        self.dense1 = nn.Linear(32, 12)
        self.dense2 = nn.Linear(12, 8)
        self.dense3 = nn.Linear(8, classes)
        self.dropout = dropout
        for conv in (self.conv1, self.conv2):
            _start(conv)

    def forward(
        self, x: Tensor, edge_index: Tensor
    ) -> Tensor:  # [nodes, features] -> [.., classes]
        """Logits of the classes."""
        x = F.dropout(self.conv1(x, edge_index), p=self.dropout, training=self.training)
        x = F.dropout(self.conv2(x, edge_index), p=self.dropout, training=self.training)
        x = F.dropout(self.dense1(x), p=self.dropout, training=self.training)
        x = F.dropout(self.dense2(x), p=self.dropout, training=self.training)
        logits: Tensor = self.dense3(x)
        return logits


def _start(conv: SAGEConv) -> None:
    for layer in (conv.lin_l, conv.lin_r):
        nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain("relu"))
    nn.init.zeros_(conv.lin_l.bias)


class EncodedSage(nn.Module):
    r"""A dense layer for the features of a node, two GraphSAGE layers, a dense layer for classes.

    .. math::
        h = \operatorname{relu}(E x), \qquad
        h_u' = \operatorname{relu}\Big(C h_u + A \frac{1}{|N(u)|} \sum_{v \in N(u)} h_v + b\Big)
        \quad \text{twice}, \qquad
        \text{logits} = W h''

    Every hidden representation goes through dropout. Neighbours are averaged after the features
    have become few, which is also what makes it cheap.

    Args:
        features: numbers per node.
        classes: number of classes.
        hidden: width of all hidden representations.
        dropout: share of each hidden representation dropped.
    """

    def __init__(
        self, features: int, classes: int, *, hidden: int = 64, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.encode = nn.Linear(features, hidden)
        self.conv1, self.conv2 = SAGEConv(hidden, hidden), SAGEConv(hidden, hidden)
        self.classify = nn.Linear(hidden, classes)
        self.dropout = dropout

    def forward(
        self, x: Tensor, edge_index: Tensor
    ) -> Tensor:  # [nodes, features] -> [.., classes]
        """Logits of the classes."""
        x = F.dropout(self.encode(x).relu(), p=self.dropout, training=self.training)
        for conv in (self.conv1, self.conv2):
            x = F.dropout(conv(x, edge_index).relu(), p=self.dropout, training=self.training)
        logits: Tensor = self.classify(x)
        return logits


def paper_network(graph: Data, *, dropout: float = 0.1, seed: int = 0) -> PaperNetwork:
    """The paper's network, untrained, of the right size for a graph.

    Args:
        graph: its ``x`` gives the number of features, its ``y`` the number of classes.
        dropout: share of each hidden representation dropped.
        seed: draws the first weights; torch's global generator is left alone.

    Example:
        >>> import torch
        >>> graph = Data(x=torch.zeros(4, 5), y=torch.tensor([0, 1, 2, 1]))
        >>> paper_network(graph).dense3
        Linear(in_features=8, out_features=3, bias=True)
    """
    if graph.x is None or graph.y is None:
        raise GraphError(
            "the graph has no features x or no labels y",
            "give it both: Data(x=..., edge_index=..., y=...)",
        )
    if not 0 <= dropout < 1:
        raise OptionError(f"dropout is {dropout}", "choose 0 <= dropout < 1")
    with own_randomness(seed):
        return PaperNetwork(graph.x.size(1), int(graph.y.max()) + 1, dropout=dropout)


_CPU = torch.device("cpu")


@contextmanager
def own_randomness(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Within it torch draws from this seed; afterwards as if nothing had been drawn.

    Args:
        seed: of everything that is drawn.
        device: that draws, besides the CPU.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed_of(seed))
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
