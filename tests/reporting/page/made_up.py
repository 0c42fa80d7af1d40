"""Predictions that were made up, and the content of the pages about them."""

import json
import re

import torch
from torch_geometric.data import Data

from varigraph.moments import Gaussian
from varigraph.prediction import Prediction
from varigraph.prediction.sources.source import all_parts

EVIL = "</script><script>document.title = 'gone'</script>"


def made_up(nodes=40, classes=3, *, links=60, seed=0):
    """A prediction, and a graph with labels, masks, names and uncertain links."""
    draw = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, nodes, (2, links), generator=draw)
    ends = ends[:, ends[0] != ends[1]].sort(0).values.unique(dim=1)
    chance = 0.3 + 0.6 * torch.rand(ends.size(1), generator=draw)
    mean = torch.randn(nodes, classes, generator=draw).mul(2).softmax(1)
    graph = Data(
        x=torch.randn(nodes, 4, generator=draw),
        edge_index=torch.cat([ends, ends.flip(0)], 1),
        edge_prob=torch.cat([chance, chance]),
        x_var=torch.tensor(0.1),
        y=torch.multinomial(mean, 1, generator=draw).flatten(),
        test_mask=torch.arange(nodes) % 2 == 0,
        train_mask=torch.arange(nodes) % 2 == 1,
        class_names=[EVIL, *(f"class {number}" for number in range(1, classes))],
        node_names=[f"n{number}" for number in range(nodes - 1)] + [EVIL],
    )
    return predicted(mean, draw), graph


def predicted(mean, draw, task="classification"):
    parts = {part: torch.rand(mean.shape, generator=draw).pow(4) * 0.02 for part in all_parts()}
    total = sum(parts.values())
    return Prediction(mean, parts, Gaussian(mean, total), "made up", 0, task)


def regression(nodes=30, outputs=2):
    """The same for values, of which the first is not known."""
    draw = torch.Generator().manual_seed(1)
    mean = torch.randn(nodes, outputs, generator=draw)
    y = mean + 0.1 * torch.randn(nodes, outputs, generator=draw)
    y[0, 0] = torch.nan
    ring = torch.stack([torch.arange(nodes), torch.arange(1, nodes + 1) % nodes])
    graph = Data(x=torch.randn(nodes, 3, generator=draw), edge_index=ring, y=y, x_var=0.1)
    return predicted(mean, draw, "regression"), graph


def content_of(path):
    """What a page holds for its scripts."""
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="content">(.*?)</script>', text, re.S).group(1))
