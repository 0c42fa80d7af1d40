"""Small graphs for the corpus: papers of Cora, molecules, and a shop of users, items and tags.

Everything that networks may ask for is there: features, links both ways, attributes, weights and
kinds of links, positions, batches, and targets for every task. Nothing of the package is imported.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData

CORA = Path(__file__).parents[2] / "src" / "varigraph" / "data" / "cora.npz"
FEATURES, ATTRIBUTES, CLASSES, RELATIONS = 16, 4, 4, 3
#: Standard deviation of the noise in the features, whose own is 1.
NOISE = 0.12
#: Chances of the links are between this and 1.
LEAST_CHANCE = 0.8


def seeded(seed: int) -> torch.Generator:
    """A stream of random numbers of its own."""
    return torch.Generator().manual_seed(seed)


@cache
def papers() -> Data:
    """Ninety papers of Cora around three of them, with all links between them."""
    stored = np.load(CORA)
    links = torch.from_numpy(stored["links"].astype(np.int64))
    nodes = _around(links, starts=(0, 500, 1000), size=90)
    links = torch.searchsorted(nodes, links[:, torch.isin(links, nodes).all(0)])
    bags = torch.zeros(len(nodes), int(stored["word_count"]))
    for row, node in enumerate(nodes.tolist()):
        start, end = stored["word_start"][node : node + 2]
        bags[row, stored["words"][start:end].astype(np.int64)] = 1
    data = Data(x=_projected(bags), edge_index=torch.cat([links, links.flip(0)], 1))
    _describe_links(data, bags)
    labels = torch.from_numpy(stored["labels"].astype(np.int64))[nodes]
    rank = labels.bincount(minlength=7).argsort(descending=True).argsort()
    data.y = rank[labels].clamp_max(CLASSES - 1)
    _add_node_targets(data)
    data.chosen_y = data.y[data.chosen]
    return _uncertain(data)


def _around(links: Tensor, *, starts: tuple[int, ...], size: int) -> Tensor:
    """The nodes that are reached first from some, in order of their numbers."""
    found = list(starts)
    for node in found:  # which grows on the way
        next_to = torch.cat([links[1, links[0] == node], links[0, links[1] == node]])
        found += [n for n in next_to.tolist() if n not in found]
        if len(found) >= size:
            break
    return torch.tensor(sorted(found[:size]))


def _projected(bags: Tensor) -> Tensor:  # [nodes, words] -> [nodes, features]
    """A fixed projection to few columns, each of mean 0 and deviation 1."""
    x = bags @ torch.randn(bags.shape[1], FEATURES, generator=seeded(1))
    return (x - x.mean(0)) / x.std(0)


def _describe_links(data: Data, bags: Tensor) -> None:
    """Attributes, weights and kinds of links, from the words that two papers share."""
    source, target = data.edge_index
    shared = (bags[source] * bags[target]).sum(1)
    either = (bags[source] + bags[target]).clamp_max(1).sum(1)
    degree = data.edge_index[0].bincount(minlength=len(bags)).float()
    columns = [shared / either, shared.sqrt(), degree[source].log(), degree[target].log()]
    attributes = torch.stack(columns, 1)
    data.edge_attr = (attributes - attributes.mean(0)) / attributes.std(0)
    data.edge_weight = 0.5 + shared / shared.max()
    thirds = shared.quantile(torch.tensor([1 / 3, 2 / 3]))
    data.edge_type = torch.bucketize(shared, thirds)
    data.pos = data.x[:, :3].clone()


def _add_node_targets(data: Data) -> None:
    """Targets of regression, of several labels, of one label, and pairs with and without links."""
    smooth = data.x.index_add(0, data.edge_index[1], data.x[data.edge_index[0]])
    data.amounts = torch.tanh(smooth @ torch.randn(FEATURES, 3, generator=seeded(2)) / 8)
    data.tags = (data.amounts @ torch.randn(3, CLASSES, generator=seeded(3)) > 0).float()
    data.flag = data.tags[:, 0]
    data.chosen = torch.arange(data.num_nodes) % 3 > 0
    data.node_type = data.chosen.long()
    linked = data.edge_index[:, data.edge_index[0] < data.edge_index[1]][:, ::3]
    others = torch.randint(data.num_nodes, linked.shape, generator=seeded(4))
    data.pairs = torch.cat([linked, others], 1)
    data.linked = torch.cat([torch.ones(linked.shape[1]), torch.zeros(others.shape[1])])


def _uncertain(data: Data) -> Data:
    """Noise whose size differs from node to node; one chance for both directions of a link."""
    each = 0.5 + torch.rand(data.num_nodes, 1, generator=seeded(5))
    data.x_var = NOISE**2 * each
    data.edge_prob = _chances(data.edge_index, data.num_nodes, seed=6)
    return data


def _chances(links: Tensor, nodes: int, *, seed: int) -> Tensor:  # [2, links] -> [links]
    low, high = links.amin(0), links.amax(0)
    pairs, pair = torch.unique(low * nodes + high, return_inverse=True)
    drawn = LEAST_CHANCE + (1 - LEAST_CHANCE) * torch.rand(len(pairs), generator=seeded(seed))
    return drawn[pair]


@cache
def molecules() -> Batch:
    """A batch of rings with branches: atoms with charges, bonds with kinds and lengths."""
    stream = seeded(7)
    batch = Batch.from_data_list([_molecule(stream) for _ in range(20)])
    batch.y = batch.amounts[:, 0].argsort().argsort() * CLASSES // len(batch.amounts)
    return _uncertain(batch)


def _molecule(stream: torch.Generator) -> Data:
    ring = int(torch.randint(4, 7, (), generator=stream))
    size = ring + int(torch.randint(1, 5, (), generator=stream))
    links = [*pairwise(range(ring)), (0, ring - 1)]
    links += [(int(torch.randint(n, (), generator=stream)), n) for n in range(ring, size)]
    one_way = torch.tensor(links).T
    kind = torch.randint(3, (len(links),), generator=stream)
    length = 1.5 - 0.1 * kind + 0.05 * torch.randn(len(links), generator=stream)
    bonds = torch.cat([torch.eye(3)[kind], length[:, None]], 1)
    atom = torch.randint(5, (size,), generator=stream)
    charges = torch.randn(size, FEATURES - 5, generator=stream)
    value = torch.stack([charges[:, 0].mean() + atom.float().mean() / 4, charges[:, 1].amax() / 2])
    return Data(
        x=torch.cat([torch.eye(5)[atom], charges], 1),
        edge_index=torch.cat([one_way, one_way.flip(0)], 1),
        edge_attr=bonds.repeat(2, 1),
        edge_weight=length.repeat(2),
        edge_type=kind.repeat(2),
        pos=torch.randn(size, 3, generator=stream),
        amounts=value[None],
    )


#: Kinds of nodes with their numbers, and which links there are between them.
SHOP = {"user": 40, "item": 30, "tag": 8}
RELATED = (
    ("user", "buys", "item", 120),
    ("user", "knows", "user", 50),
    ("tag", "describes", "item", 45),
)


@cache
def shop() -> HeteroData:
    """Users that buy items and know each other, tags that describe items; links go both ways.

    Every kind of node has features of its own width, with noise; every link has a chance, one for
    both of its directions. Users are to be told apart by what they buy.
    """
    data, stream = HeteroData(), seeded(8)
    for place, (kind, count) in enumerate(SHOP.items()):
        data[kind].x = torch.randn(count, FEATURES - 4 * place, generator=stream)
        data[kind].x_var = NOISE**2 * (0.5 + torch.rand(count, 1, generator=stream))
    for first, verb, second, count in RELATED:
        links = _random_links(SHOP[first], SHOP[second], count, stream)
        chance = LEAST_CHANCE + (1 - LEAST_CHANCE) * torch.rand(links.shape[1], generator=stream)
        if first == second:
            links = links[:, links[0] < links[1]]
            chance = chance[: links.shape[1]].repeat(2)
            links = torch.cat([links, links.flip(0)], 1)
        else:
            back = data[second, f"rev_{verb}", first]
            back.edge_index, back.edge_prob = links.flip(0), chance
        data[first, verb, second].edge_index = links
        data[first, verb, second].edge_prob = chance
    bought = torch.zeros(SHOP["user"], FEATURES - 4)
    buys = data["user", "buys", "item"].edge_index
    bought.index_add_(0, buys[0], data["item"].x[buys[1]])
    data["user"].y = (bought[:, :CLASSES] + data["user"].x[:, :CLASSES]).argmax(1)
    return data


def _random_links(rows: int, columns: int, count: int, stream: torch.Generator) -> Tensor:
    """Different pairs; every row has one, so that nobody is alone."""
    every = torch.arange(rows) * columns + torch.randint(columns, (rows,), generator=stream)
    others = torch.randperm(rows * columns, generator=stream)[: count - rows]
    pairs = torch.cat([every, others]).unique()
    return torch.stack([pairs // columns, pairs % columns])


GRAPHS = {"papers": papers, "molecules": molecules, "shop": shop}
