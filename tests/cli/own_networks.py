"""A small graph and a file of networks for it, as a user would write them."""

import torch
from torch_geometric.data import Data

NODES, FEATURES, CLASSES = 12, 5, 3
NAMES = [f"node {n}" for n in range(NODES - 3)] + ['a, "b"', "two\nlines", "[red]ß"]
FILE = """
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import GATConv, SAGEConv

print("imported")


class Net(nn.Module):
    def __init__(self, features=5, classes=3, width=4, rate=0.5):
        super().__init__()
        self.first, self.second = SAGEConv(features, width), SAGEConv(width, classes)
        self.rate = rate

    def forward(self, x, edge_index):
        x = F.dropout(F.relu(self.first(x, edge_index)), self.rate, self.training)
        return self.second(x, edge_index)


class Waves(Net):
    def forward(self, x, edge_index):
        x = torch.erf(torch.sinh(self.first(x, edge_index)))
        return 1 - self.second(x, edge_index)


def attention():
    return nn.Sequential(nn.Linear(5, 4), GATConv(4, 3))


def attend(model, x, data):
    return model[1](model[0](x), data.edge_index)


def value(rate=0.5):
    return Net(classes=1, rate=rate)


def certain():
    return Net(rate=0.0)


def number():
    return 3


def broken():
    raise KeyError("weights")


finished = Net()
"""


def small_graph(**more):
    draw = torch.Generator().manual_seed(1)
    ring = torch.arange(NODES)
    ends = torch.stack([ring, (ring + 1) % NODES])
    chord = torch.tensor([[0, 2, 5], [6, 9, 11]])
    links = torch.cat([ends, ends.flip(0), chord, chord.flip(0)], dim=1)
    x = torch.rand(NODES, FEATURES, generator=draw)
    return Data(x=x, edge_index=links, **more)


def write_networks(folder):
    path = folder / "networks.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def network(path, name="Net", **arguments):
    """What the file makes, without going through the command line."""
    scope = {"__name__": "networks_of_tests"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return scope[name](**arguments).eval()
