"""The variational graph auto-encoder (Kipf and Welling, 2016): vectors that predict links."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from varigraph.baselines.gcn import glorot, lean, normalised
from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.links.link_pairs import link_pairs, non_links
from varigraph.sparse import Sparse


class Vgae(nn.Module):
    r"""Mean and log standard deviation of each node's vector.

    .. math:: h = \mathrm{ReLU}(\hat A X W_0), \qquad
        \mu = \hat A h W_\mu, \qquad \log \sigma = \hat A h W_\sigma

    Args:
        features: per node.
        hidden: width of the hidden layer.
        size: of a node's vector.
        generator: draws the first weights; torch's own is left alone.
    """

    def __init__(
        self, features: int, hidden: int, size: int, *, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.first = glorot(features, hidden, generator)
        self.mean = glorot(hidden, size, generator)
        self.log_std = glorot(hidden, size, generator)

    def forward(
        self, x: Tensor | Sparse, adjacency: Sparse
    ) -> tuple[Tensor, Tensor]:  # [nodes, size], [nodes, size]
        """Mean and log standard deviation."""
        h = adjacency @ (adjacency @ (x @ self.first)).relu()
        return h @ self.mean, h @ self.log_std


def embedding(
    x: Tensor,  # [nodes, features]
    edge_index: Tensor,  # [2, edges]
    *,
    hidden: int = 32,
    size: int = 16,
    epochs: int = 200,
    learning_rate: float = 0.01,
    negatives: int = 1,
    seed: int = 0,
) -> Tensor:  # [nodes, size]
    r"""The mean vector of each node after training: the nearer two are, the likelier a link.

    .. math:: \tfrac12 \operatorname{mean}_\text{links} \log(1 + e^{-z_i \cdot z_j})
        + \tfrac12 \operatorname{mean}_\text{others} \log(1 + e^{z_i \cdot z_j})
        + \tfrac1N \operatorname{mean}_i \mathrm{KL}_i

    is the loss of the original with its weight on links. The mean over the other pairs is taken
    over some, drawn anew in each epoch, not over all :math:`N^2`: unbiased, and without a matrix
    of that size. As in the original, each node counts as linked to itself. The features of each
    node are brought to length 1: 200 epochs are not enough for small ones. Labels are not read.

    https://arxiv.org/abs/1611.07308

    Args:
        x: features.
        edge_index: links; directions do not count.
        hidden: width of the hidden layer.
        size: of a node's vector.
        epochs: steps of Adam.
        learning_rate: of Adam.
        negatives: other pairs that are drawn for each link.
        seed: of first weights, draws and pairs.

    Raises:
        GraphError: if the graph has no link, or fewer non-links than are to be drawn.
        ModelError: if the loss is not a number in the end.
        OptionError: if a number makes no sense.
    """
    if min(hidden, size, epochs, negatives) < 1:
        raise OptionError(
            f"hidden={hidden}, size={size}, epochs={epochs}, negatives={negatives}",
            "all must be at least 1",
        )
    nodes = x.size(0)
    links = link_pairs(edge_index, nodes=nodes).pairs
    if not links.size(1):
        raise GraphError("the graph has no links to learn from", "give edge_index, [2, edges]")
    generator = torch.Generator(x.device).manual_seed(seed)
    pairs = torch.Generator().manual_seed(seed)
    model = Vgae(x.size(1), hidden, size, generator=generator)
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    adjacency, inputs = normalised(edge_index, nodes), lean(F.normalize(x))
    for _ in range(epochs):
        others = non_links(links, nodes=nodes, count=negatives * links.size(1), generator=pairs)
        mean, log_std = model(inputs, adjacency)
        loss = _loss(mean, log_std, links, others, generator)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        vectors: Tensor = model(inputs, adjacency)[0]
    if not vectors.isfinite().all():
        raise ModelError(
            "the vectors of the nodes are not numbers",
            "bring the features to a common scale: graph.x = graph.x / graph.x.abs().max()",
        )
    return vectors


def _loss(
    mean: Tensor,  # [nodes, size]
    log_std: Tensor,  # [nodes, size]
    links: Tensor,  # [2, links]
    others: Tensor,  # [2, others]
    generator: torch.Generator,
) -> Tensor:  # []
    noise = torch.randn(mean.shape, generator=generator, device=mean.device)
    z = mean + noise * log_std.exp()
    linked = F.softplus(-_likeness(z, links))
    itself = F.softplus(-z.square().sum(dim=1))
    # In the matrix each link is there twice, each node once.
    positive = (2 * linked.sum() + itself.sum()) / (2 * len(linked) + len(itself))
    negative = F.softplus(_likeness(z, others)).mean()
    divergence = (mean.square() + (2 * log_std).exp() - 1 - 2 * log_std).sum(dim=1).mean() / 2
    return (positive + negative) / 2 + divergence / len(mean)


def _likeness(z: Tensor, pairs: Tensor) -> Tensor:  # [nodes, size], [2, pairs] -> [pairs]
    return (z[pairs[0]] * z[pairs[1]]).sum(dim=1)
