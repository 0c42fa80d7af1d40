"""How much a prediction adds to its process: run by tests in a process of its own.

python measured.py METHOD MEMORY [coins]
"""

import json
import sys
from functools import partial

import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import varigraph as vg

NODES, LINKS, FEATURES, HIDDEN, CLASSES = 6000, 9000, 48, 48, 5


def graph(nodes, links, *, coins):
    """Links of which many meet at few nodes."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.rand(2, links, generator=generator)
    ends = (nodes * ends ** torch.tensor([[1.0], [2.0]])).long()
    links = torch.unique(torch.cat([ends, ends.flip(0)], 1), dim=1)
    links = links[:, links[0] != links[1]]
    x = torch.randn(nodes, FEATURES, generator=generator)
    data = Data(x=x, edge_index=links, x_var=torch.tensor(0.2))
    if coins:
        data.edge_prob = torch.full((links.shape[1],), 0.9)
    return data


def network():
    torch.manual_seed(0)
    return GraphSAGE(FEATURES, HIDDEN, 2, CLASSES, dropout=0.3).eval()


def size(name):
    """Bytes of the process: VmRSS now, VmHWM at most so far."""
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def far(one, two):
    """Largest difference of two predictions, relative to the mean size of each of their parts."""
    pairs = [(one.mean, two.mean), (one.total, two.total), (one.logits.var, two.logits.var)]
    return max(float((a - b).abs().max() / b.abs().mean()) for a, b in pairs)


def main(method, memory, *extra):
    torch.set_num_threads(1)
    coins = "coins" in extra
    predict = partial(vg.predict, method=method, links="bernoulli")
    predict(network(), graph(40, 100, coins=coins))  # loads what is loaded late
    data, before = graph(NODES, LINKS, coins=coins), size("VmRSS")
    bounded = predict(network(), data, memory=memory)
    added = size("VmHWM") - before
    large = predict(network(), data, memory="4GiB")
    print(json.dumps({"added": added, "difference": far(bounded, large)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
