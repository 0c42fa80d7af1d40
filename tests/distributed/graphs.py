"""A graph with everything: noise by node, chances both ways and one way, loops, repeated links."""

import torch
from torch_geometric.data import Data

NODES, FEATURES = 30, 5


def small_graph(*, loops=True):
    generator = torch.Generator().manual_seed(3)
    pairs = torch.randint(NODES, (2, 60), generator=generator)
    pairs = pairs[:, pairs[0] < pairs[1]].unique(dim=1)
    one_way = torch.tensor([[29, 4, 0], [0, 17, 11]])
    own = torch.tensor([[5, 9], [5, 9]]) if loops else torch.empty(2, 0, dtype=torch.long)
    links = torch.cat([pairs, pairs.flip(0), one_way, own], dim=1)
    order = torch.randperm(links.shape[1], generator=generator)
    chance = 0.5 + 0.5 * torch.rand(NODES, NODES, generator=generator)
    chance = torch.maximum(chance, chance.T)  # the same both ways
    chance[9, 9] = chance[5, 5] = 1.0
    chance[7], chance[:, 7] = 1.0, 1.0
    links = links[:, order]
    return Data(
        x=torch.randn(NODES, FEATURES, generator=generator),
        edge_index=links,
        x_var=0.05 + 0.1 * torch.rand(NODES, FEATURES, generator=generator),
        edge_prob=chance[links[0], links[1]],
    )
