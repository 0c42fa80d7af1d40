"""What a network is given and what of it is in doubt, ready to be differentiated by."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.data import feature_variance
from varigraph.errors import GraphError
from varigraph.moments import LinkProbabilities
from varigraph.moments.coins import Coins, coins_of
from varigraph.moments.links import Reading
from varigraph.moments.messages import scaled_messages


@dataclass(frozen=True, eq=False)
class Inputs:
    """Features and coins at their means; those in doubt carry gradients.

    Args:
        x: the features, ``[nodes, features]``.
        var: variance of their noise, ``[nodes, features]``.
        coins: the coins of the links, where these have chances.
        weight: the coins as weights of their messages, ``[coins]``.
        links: the weights by link, where there are any.
    """

    x: Tensor
    var: Tensor
    coins: Coins | None
    weight: Tensor | None
    links: LinkProbabilities | None

    @property
    def doubtful(self) -> dict[str, Tensor]:
        """What to differentiate by, in words."""
        known = {"features": self.x, "links": self.weight}
        return {name: t for name, t in known.items() if t is not None and t.requires_grad}

    def weighting(self, model: nn.Module) -> AbstractContextManager[None]:
        """While this is open, every message of the model is weighted by its coin."""
        return nullcontext() if self.links is None else scaled_messages(model, self.links)


def inputs_of(data: Data, reading: Reading) -> Inputs:
    """The inputs of a checked graph.

    Args:
        data: the graph.
        reading: of its uncertain links; as ``"weight"`` they are not in doubt.

    Raises:
        GraphError: nothing is in doubt, so that there is nothing to divide.
    """
    var, prob = feature_variance(data), data.get("edge_prob")
    x = data.x.detach().requires_grad_(bool(var.any()))
    coins = weight = links = None
    if prob is not None:
        coins = coins_of(data.edge_index, prob, len(x))
        doubt = reading == "bernoulli" and bool((prob < 1).any())
        weight = coins.prob.to(x.dtype).detach().clone().requires_grad_(doubt)
        # Both directions take the same entry, so that its slope is that of the coin.
        links = LinkProbabilities(data.edge_index, weight[coins.of_edge], len(x), reading)
    inputs = Inputs(x, var, coins, weight, links)
    if not inputs.doubtful:
        raise GraphError(
            "nothing in the data is uncertain: there is no variance to divide",
            "data.x_var = 0.1 (noise of the features) or data.edge_prob = ... (chances of the "
            'links, below 1, read with links="bernoulli")',
        )
    return inputs
