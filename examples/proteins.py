# %% [markdown]
"""# Which yeast proteins form a complex, and which interaction should be verified?

The network is that of Krogan et al. (2006): proteins that were seen together, each link with the
probability that it is real. A GraphSAGE learns the ten largest complexes from half of their
members; `vg.predict` then says how far the doubt about the links makes its answers doubtful.

The data are not part of the package. They are read from two files in a folder of yours, the links
(protein, protein, probability) and the complexes, one a line: `links/krogan2006_core.tsv` and
`links/krogan2006_complexes.txt`.

    VARIGRAPH_DATA=folder python examples/proteins.py
"""

# %%
from __future__ import annotations

import copy
import os
from collections import Counter
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import varigraph as vg

COMPLEXES, COORDINATES, EPOCHS, SHOWN = 10, 32, 200, 10
TRAIN, VAL = 0.5, 0.1  # shares of the labelled proteins; the others are for testing
UNLABELLED = -1
FILES = Path(os.environ.get("VARIGRAPH_DATA", ".")) / "links"

# %% [markdown]
# ## Features
#
# The proteins have none of their own, so they get some that describe their place in the network.


# %%
def expected_adjacency(graph: Data) -> csr_array:  # -> [nodes, nodes]
    """The matrix of the links' probabilities."""
    entries = graph.edge_prob.double().numpy(), graph.edge_index.numpy()
    return csr_array(entries, shape=(graph.num_nodes, graph.num_nodes))


def structure(adjacency: csr_array) -> Tensor:  # [nodes, nodes] -> [nodes, features]
    r"""Features from the links alone, each with mean 0 and variance 1.

    They are the logarithm of the expected degree :math:`d = \sum_u p_u`; the chance that two
    neighbours are linked, :math:`(P^3)_{vv} / (d^2 - \sum_u p_u^2)`; and the leading eigenvectors
    of P, which show where links are dense. They are taken as known: the doubt about a link counts
    for the messages along it, not once more for what it contributes here.
    """
    degree = adjacency.sum(axis=1)
    triangles = ((adjacency @ adjacency) * adjacency).sum(axis=1)
    pairs = degree**2 - (adjacency**2).sum(axis=1)
    clustering = np.divide(triangles, pairs, out=np.zeros_like(degree), where=pairs > 1e-9)
    columns = np.column_stack([np.log1p(degree), clustering, coordinates(adjacency)])
    return torch.from_numpy((columns - columns.mean(axis=0)) / columns.std(axis=0)).float()


def coordinates(adjacency: csr_array) -> np.ndarray:  # [nodes, nodes] -> [nodes, coordinates]
    """Leading eigenvectors, the largest entry of each made positive: a sign is arbitrary."""
    start = np.ones(adjacency.shape[0])  # without it, eigsh begins at random
    _, vectors = eigsh(adjacency, k=COORDINATES, v0=start)
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(COORDINATES)]
    return np.asarray(vectors * np.sign(largest))


# %% [markdown]
# ## Labels
#
# The ten largest complexes. Half of their members are for training; proteins of no complex, or of
# several, stay in the network without a label.


# %%
def labels(names: list[str], complexes: list[set[str]]) -> Tensor:  # -> [nodes]
    """The complex of each protein that is in exactly one of the given ones."""
    memberships = Counter(name for members in complexes for name in members)
    complex_of = {
        name: number
        for number, members in enumerate(complexes)
        for name in members
        if memberships[name] == 1
    }
    return torch.tensor([complex_of.get(name, UNLABELLED) for name in names])


def largest_complexes(path: Path, names: list[str]) -> list[set[str]]:
    """Those with the most members in the network; the file has one complex a line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    members = [set(line.split()) & set(names) for line in lines]
    return sorted(members, key=len, reverse=True)[:COMPLEXES]


def proteins(links: Path, complexes: Path, *, seed: int = 0) -> Data:
    """The network with its measured probabilities, features, labels and masks."""
    graph = vg.read_links(links)
    graph.x = structure(expected_adjacency(graph))
    graph.y = labels(graph.node_names, largest_complexes(complexes, graph.node_names))
    known = (graph.y != UNLABELLED).nonzero().squeeze(1)
    order = known[torch.randperm(len(known), generator=torch.Generator().manual_seed(seed))]
    train, val = round(TRAIN * len(known)), round((TRAIN + VAL) * len(known))
    parts = {"train": order[:train], "val": order[train:val], "test": order[val:]}
    for part, nodes in parts.items():
        graph[f"{part}_mask"] = torch.zeros(graph.num_nodes, dtype=torch.bool)
        graph[f"{part}_mask"][nodes] = True
    return graph


# %% [markdown]
# ## The network
#
# A plain training loop. Nothing in it knows of error bars.


# %%
def trained(graph: Data, *, seed: int = 0) -> GraphSAGE:
    """A network trained on the whole graph at once; that of the lowest validation loss is kept.

    Every link counts as certain here: SAGE averages over neighbours and takes no weights. What
    the links' probabilities do to the answers is asked afterwards, of the finished network.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GraphSAGE(graph.num_features, 32, num_layers=2, out_channels=COMPLEXES, dropout=0.5)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
        best, lowest = copy.deepcopy(model.state_dict()), float("inf")
        for _ in range(EPOCHS):
            model.train()
            optimizer.zero_grad()
            loss(model, graph, graph.train_mask).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                current = loss(model, graph, graph.val_mask).item()
            if current < lowest:
                best, lowest = copy.deepcopy(model.state_dict()), current
    model.load_state_dict(best)
    return model.eval()


def loss(model: GraphSAGE, graph: Data, mask: Tensor) -> Tensor:
    """Cross-entropy of some nodes."""
    return F.cross_entropy(model(graph.x, graph.edge_index)[mask], graph.y[mask])


# %% [markdown]
# ## What is asked of the answers


# %%
def accuracy(mean: Tensor, graph: Data) -> float:  # [nodes, classes]
    """Share of test proteins whose likeliest complex is theirs."""
    test = graph.test_mask
    return float((mean.argmax(dim=1) == graph.y)[test].double().mean())


def majority(graph: Data) -> float:
    """The accuracy of always answering with the largest class of the training proteins."""
    largest = graph.y[graph.train_mask].mode().values
    return float((graph.y[graph.test_mask] == largest).double().mean())


def shares(pred: vg.Prediction) -> dict[str, float]:
    """The part of the variance that each source causes, over all proteins and complexes."""
    total = pred.total.sum()
    return {source: (part.sum() / total).item() for source, part in pred.by_source.items()}


# %% [markdown]
# ## How sure are the answers?
#
# All the variance comes from the links, since nothing else is taken as uncertain.

# %%
graph = proteins(FILES / "krogan2006_core.tsv", FILES / "krogan2006_complexes.txt")
print(graph.reading)
print(f"{graph.num_nodes} proteins, mean probability of a link {graph.edge_prob.mean():.2f}")
model = trained(graph)
pred = vg.predict(model, graph, sources=("links",))
print(f"accuracy {accuracy(pred.mean, graph):.3f}, largest complex {majority(graph):.3f}")
print("variance due to", ", ".join(f"{s} {part:.0%}" for s, part in shares(pred).items()))

# %% [markdown]
# ## Which answers are doubtful?

# %%
test = graph.test_mask.nonzero().squeeze(1)
spread = pred.total.sum(dim=1)[test]  # [test nodes]
worst = test[spread.argsort(descending=True)][:SHOWN].tolist()
print(f"the {SHOWN} most uncertain answers among {len(test)} test proteins")
for node in worst:
    guess = int(pred.mean[node].argmax())
    value, error_bar = pred.mean[node, guess], pred.total[node, guess].sqrt()
    answer = f"complex {guess}: {value:.2f} ± {error_bar:.2f}, truly {int(graph.y[node])}"
    print(f"{graph.node_names[node]:>10}  {answer}")

# %% [markdown]
# ## Which interaction should be verified?
#
# For the first of them: the links that make its answer uncertain, in order.

# %%
print(vg.attribute(model, graph, node=worst[0], sources=("links",), prediction=pred))
