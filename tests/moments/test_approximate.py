"""How far approximate rules are off where they are used, measured and held to it.

Truth is many draws of the noise through the layer as it is, or its matrix where it is linear.
A rule that does better than its figure fails as well: it is to bring its own.
"""

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph

import varigraph as vg
from moments.cases import ROUGH, Normalised, Shares
from varigraph.moments.registry import FUNCTIONS, LAYERS
from varigraph.testing import apply

#: Share by which a variance, summed over thousands of numbers, may differ from its figure.
CHANCE = 0.03


def cora(percent):
    """Every 27th node of Cora: 101 of them with 1,433 noisy features, and the variance of each."""
    noisy = vg.add_noise(vg.load("cora"), percent=percent, seed=0)
    x = noisy.x[::27].double()
    return vg.Gaussian(x, torch.full_like(x, float(noisy.x_var)))


def drawn(run, x, draws=100):
    """Mean and variance of a function of noisy numbers, by brute force."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        runs = [run(torch.normal(x.mean, x.var.sqrt(), generator=generator)) for _ in range(draws)]
    middle = torch.stack([r.mean() for r in runs]).mean()  # keeps the digits of small variances
    total = sum(r - middle for r in runs)
    squares = sum((r - middle).square() for r in runs)
    return total / draws + middle, (squares - total.square() / draws) / (draws - 1)


def assert_off(got, truth, *, ratio, shift):
    """The rule's variance over the true one, and its means by the true standard deviation."""
    mean, var = truth
    assert float(got.var.sum() / var.sum()) == pytest.approx(ratio, rel=CHANCE)
    found = ((got.mean - mean).square().sum() / var.sum()).sqrt()
    assert float(found) <= 1.3 * shift, float(found)


#: Ratio of variances and shift of means, with noise of 5 % and of 12 %.
NORMS = {
    "layer_norm": (nn.LayerNorm(1433), {5: (1.000, 0.10), 12: (1.000, 0.10)}),
    "normalize": (F.normalize, {5: (1.000, 0.10), 12: (1.000, 0.10)}),
    "GraphNorm": (gnn.GraphNorm(1433), {5: (0.997, 0.10), 12: (0.995, 0.10)}),
    "LayerNorm": (gnn.LayerNorm(1433), {5: (1.001, 0.10), 12: (1.000, 0.10)}),
    "LayerNorm by node": (gnn.LayerNorm(1433, mode="node"), {5: (1.000, 0.10), 12: (1.000, 0.10)}),
    "PairNorm": (gnn.PairNorm(), {5: (1.000, 0.10), 12: (1.000, 0.10)}),
    "PairNorm by node": (
        gnn.PairNorm(scale_individually=True),
        {5: (1.000, 0.10), 12: (1.000, 0.10)},
    ),
}


@pytest.mark.parametrize("percent", [5, 12])
@pytest.mark.parametrize("name", NORMS)
def test_norms_of_noisy_features(name, percent):
    """Variances within 1.5 % of the true ones; the shift of the means is chance of 100 draws.

    Noise widens what the features are divided by: the rules take it at its expected size.
    """
    norm, figures = NORMS[name]
    norm = norm.double() if isinstance(norm, nn.Module) else norm
    x = cora(percent)
    ratio, shift = figures[percent]
    assert_off(apply(norm, x), drawn(norm, x), ratio=ratio, shift=shift)


#: The same for twenty groups of five nodes, of 400 draws.
POOLS = {
    "StdAggregation": (gnn.aggr.StdAggregation(), {5: (0.795, 0.080), 12: (0.943, 0.052)}),
    "SoftmaxAggregation": (gnn.SoftmaxAggregation(), {5: (1.000, 0.051), 12: (1.000, 0.053)}),
    "softmax of groups": (Shares(), {5: (1.000, 0.051), 12: (1.000, 0.053)}),
    "PowerMeanAggregation": (
        gnn.PowerMeanAggregation(2.0),
        {5: (0.749, 0.311), 12: (0.681, 0.557)},
    ),
}


@pytest.mark.parametrize("percent", [5, 12])
@pytest.mark.parametrize("name", POOLS)
def test_pools_of_noisy_features(name, percent):
    """A softmax is right; most features of most groups are 0, and so is what others start from.

    Of the shifts of the means, 0.05 standard deviations are chance of the 400 draws.
    """
    pool, figures = POOLS[name]
    x, group = cora(percent), torch.arange(101) // 5
    ratio, shift = figures[percent]
    truth = drawn(lambda values: pool(values, group), x, draws=400)
    assert_off(apply(pool, x, group), truth, ratio=ratio, shift=shift)


#: The same for the links of Cora, whose weights are about 1, of 400 draws.
WEIGHTS = {"gcn_norm": (Normalised(), {5: (0.966, 0.08), 12: (0.915, 0.11)})}


@pytest.mark.parametrize("percent", [5, 12])
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_their_own_sums_divide(name, percent):
    norm, figures = WEIGHTS[name]
    graph = vg.load("cora")
    ones = torch.ones(graph.num_edges, 1).double()
    x, more = vg.Gaussian(ones, percent / 100 * ones), (graph.edge_index, graph.num_nodes)
    ratio, shift = figures[percent]
    truth = drawn(lambda values: norm(values, *more), x, draws=400)
    assert_off(apply(norm, x, *more), truth, ratio=ratio, shift=shift)


def averages(edge_index, nodes):
    """GCN's matrix, by hand: every node averages over itself and its neighbours."""
    ends = torch.cat([edge_index, torch.arange(nodes).expand(2, nodes)], 1)
    root = torch.bincount(ends[1], minlength=nodes).double().rsqrt()
    values = root[ends[0]] * root[ends[1]]
    return torch.sparse_coo_tensor(ends.flip(0), values, (nodes, nodes), check_invariants=True)


def two_hops(average, eye):
    return average @ (average @ eye)


def ten_steps(average, eye):
    reached = eye
    for _ in range(10):
        reached = 0.9 * (average @ reached) + 0.1 * eye
    return reached


HOPS = {
    "SGConv": (gnn.SGConv(1, 1, K=2, bias=False), two_hops, 0.471, 0.169),
    "APPNP": (gnn.APPNP(10, 0.1), ten_steps, 0.263, 0.0708),
}


@pytest.mark.parametrize("name", HOPS)
def test_hops_that_meet_again(name):
    """0.47 of the true variance after two hops of SGConv, 0.26 after ten steps of APPNP.

    What reaches a node on several ways moves together, and is taken as independent. Within any
    one node it is at least 0.169 and 0.070 of the truth, and never more than it.
    """
    layer, by_hand, ratio, least = HOPS[name]
    if name == "SGConv":
        nn.init.ones_(layer.lin.weight)
    graph = vg.load("cora")
    nodes = graph.num_nodes
    matrix = by_hand(averages(graph.edge_index, nodes), torch.eye(nodes, dtype=torch.float64))
    var = matrix.square().sum(1)
    x = vg.Gaussian(torch.zeros(nodes, 1).double(), torch.ones(nodes, 1).double())
    got = apply(layer, x, graph.edge_index).var[:, 0]
    assert float(got.sum() / var.sum()) == pytest.approx(ratio, rel=0.01)
    assert float((got / var).min()) == pytest.approx(least, rel=0.01)
    assert float((got / var).max()) < 1


def tangled():
    """200 nodes with 16 features, noise of 12 %, about six neighbours and a loop at every tenth."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        links = erdos_renyi_graph(200, 0.03)
        loops = torch.arange(0, 200, 10)
        x = torch.rand(200, 16, dtype=torch.float64)
    graph = Data(x=x, edge_index=torch.cat([links, torch.stack([loops, loops])], 1))
    return vg.add_noise(graph, percent=12, seed=0)


KINDS = {
    "max": ({"aggr": "max"}, 0.995, 0.032),
    "normalize": ({"normalize": True}, 0.971, 0.045),
    "project": ({"project": True}, 1.000, 0.031),
    "project and max": ({"project": True, "aggr": "max"}, 0.987, 0.036),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_sage_that_tie_their_parts_together(kind):
    """Variances within 3 % of the true ones with lengths of 1, within 2 % of them otherwise.

    Of the shifts of the means, 0.03 standard deviations are chance of the 1,000 draws.
    """
    options, ratio, shift = KINDS[kind]
    graph = tangled()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        layer = gnn.SAGEConv(16, 8, **options).double()
    x = vg.Gaussian(graph.x, torch.full_like(graph.x, float(graph.x_var)))
    truth = drawn(lambda values: layer(values, graph.edge_index), x, draws=1000)
    assert_off(apply(layer, x, graph.edge_index), truth, ratio=ratio, shift=shift)


def test_every_approximate_rule_has_a_figure():
    rules = {*FUNCTIONS.values(), *LAYERS.values()}
    approximate = {n for r in rules if r.exactness == "approximate" and r.shipped for n in r.names}
    figures = {*NORMS, *HOPS, *POOLS, *WEIGHTS} - {"LayerNorm by node", "PairNorm by node"}
    assert approximate == figures == {case.rule for case in ROUGH}
