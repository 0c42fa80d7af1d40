"""Noise in edge attributes, edge weights and positions, against plain torch alone."""

import itertools

import pytest
import torch
from torch import nn
from torch_geometric import nn as gnn
from torch_geometric.data import Batch, Data

import varigraph as vg
from varigraph.errors import GraphError, ModelError, OptionError

FIELDS = ("edge_attr", "edge_weight", "pos")


def graph(nodes=12, *, loops=False):
    """Some links of a ring and across it, every node with at least two."""
    random = torch.Generator().manual_seed(0)
    ring = torch.arange(nodes)
    links = [torch.stack([ring, (ring + step) % nodes]) for step in (1, 3)]
    links += [link.flip(0) for link in links]
    if loops:
        links.append(torch.tensor([[0, 4], [0, 4]]))
    edge_index = torch.cat(links, 1)
    edges = edge_index.shape[1]
    numbers = torch.randn(2 * nodes + 2 * edges, 5, generator=random).double()
    return Data(
        x=numbers[:nodes],
        edge_index=edge_index,
        edge_attr=numbers[nodes : nodes + edges, :3],
        edge_weight=0.5 + torch.rand(edges, generator=random).double(),
        pos=numbers[nodes + edges : 2 * nodes + edges, :2],
    )


class Twice(nn.Module):
    """Two layers of a kind, called with the features, the links and one more field."""

    def __init__(self, field, first, second) -> None:
        super().__init__()
        self.field, self.first, self.second = field, first, second

    def forward(self, data):
        more = {self.field: data[self.field], "edge_index": data.edge_index}
        return self.second(self.first(data.x, **more).relu(), **more)


class Distances(gnn.MessagePassing):
    """A layer of a user's own: neighbours count less the farther they are."""

    def __init__(self, width, out) -> None:
        super().__init__(aggr="add")
        self.lin = nn.Linear(width, out)

    def forward(self, x, pos, edge_index):
        return self.propagate(edge_index, x=self.lin(x), pos=pos)

    def message(self, x_j, pos_i, pos_j):
        return x_j * torch.exp(-(pos_i - pos_j).square().sum(-1, keepdim=True) / 8)


NETWORKS = {
    "GINE": lambda: Twice(
        "edge_attr",
        gnn.GINEConv(nn.Linear(5, 6), edge_dim=3),
        gnn.GINEConv(nn.Linear(6, 2), edge_dim=3),
    ),
    "NNConv": lambda: Twice(
        "edge_attr",
        gnn.NNConv(5, 6, nn.Linear(3, 30)),
        gnn.NNConv(6, 2, nn.Linear(3, 12), aggr="mean"),
    ),
    "Transformer": lambda: Twice(
        "edge_attr",
        gnn.TransformerConv(5, 3, 2, edge_dim=3),
        gnn.TransformerConv(6, 2, edge_dim=3),
    ),
    "GAT": lambda: Twice(
        "edge_attr", gnn.GATConv(5, 3, 2, edge_dim=3), gnn.GATConv(6, 2, edge_dim=3)
    ),
    "GraphConv": lambda: Twice("edge_weight", gnn.GraphConv(5, 6), gnn.GraphConv(6, 2)),
    "GCN": lambda: Twice("edge_weight", gnn.GCNConv(5, 6), gnn.GCNConv(6, 2)),
    "TAG": lambda: Twice("edge_weight", gnn.TAGConv(5, 6, 1), gnn.TAGConv(6, 2, 1)),
    "Distances": lambda: Twice("pos", Distances(5, 6), Distances(6, 2)),
    "PointTransformer": lambda: Twice(
        "pos",
        gnn.PointTransformerConv(5, 6, nn.Linear(2, 6)),
        gnn.PointTransformerConv(6, 2, nn.Linear(2, 2)),
    ),
}


def network(name):
    torch.manual_seed(3)
    return NETWORKS[name]().double().eval()


def brute_force(model, data, *, std, draws, x_std=0.0):
    """Variance of the answer over draws of a field, and of the features, by plain torch."""
    random = torch.Generator().manual_seed(7)
    noisy = Batch.from_data_list([data] * draws)  # a copy for each draw
    field = noisy[model.field]
    noisy[model.field] = field + std * torch.randn(field.shape, generator=random).double()
    noisy.x = noisy.x + x_std * torch.randn(noisy.x.shape, generator=random).double()
    with torch.no_grad():
        return model(noisy).unflatten(0, (draws, -1)).var(0)


def predict(model, data, **options):
    return vg.predict(model, data, task="regression", **{"samples": 0, **options})


# ---- closed form ----


@pytest.mark.parametrize("name", NETWORKS)
def test_closed_form_against_draws(name):
    data, model = graph(), network(name)
    data[f"{model.field}_var"] = 0.0025
    pred = predict(model, data, method="first-order")
    ratio = pred.total / brute_force(model, data, std=0.05, draws=3000)
    assert 0.95 < float(ratio.median()) < 1.05
    assert float(ratio.min()) > 0.9  # 3,000 draws have a standard error of 2.6 %
    assert float(ratio.max()) < 1.1
    assert torch.equal(pred.by_source[model.field], pred.total)


ONE_LAYER = {
    "GraphConv": lambda: gnn.GraphConv(5, 2),
    "GraphConv mean": lambda: gnn.GraphConv(5, 2, aggr="mean"),
    "GCN": lambda: gnn.GCNConv(5, 2),
    "GCN improved": lambda: gnn.GCNConv(5, 2, improved=True),
    "GCN without loops": lambda: gnn.GCNConv(5, 2, add_self_loops=False),
    "GCN as given": lambda: gnn.GCNConv(5, 2, normalize=False),
    "GCN cached": lambda: gnn.GCNConv(5, 2, cached=True),
    "GCN backwards": lambda: gnn.GCNConv(5, 2, flow="target_to_source"),
    "SG": lambda: gnn.SGConv(5, 2, K=2),
    "APPNP": lambda: gnn.APPNP(3, 0.2),
    "TAG": lambda: gnn.TAGConv(5, 2, K=2),
    "LE": lambda: gnn.LEConv(5, 2),
}


def slopes(model, data):  # -> [nodes, outputs, edges]
    """How a layer follows its weights, by torch's derivatives of the layer itself."""
    call = lambda weight: model(data.x, data.edge_index, weight)  # noqa: E731
    return torch.autograd.functional.jacobian(call, data.edge_weight)


@pytest.mark.parametrize("loops", [False, True], ids=["no loops", "two loops"])
@pytest.mark.parametrize("name", ONE_LAYER)
def test_weights_of_links_by_their_slopes(name, loops):
    """Rules that take weights as certain are not asked: the layers run as written."""
    torch.manual_seed(1)
    data, model = graph(loops=loops), ONE_LAYER[name]().double()
    fresh = ONE_LAYER[name]().double()
    fresh.load_state_dict(model.state_dict())
    if "cached" in name:
        fresh.cached = False
    data.edge_weight_var = 0.01 * torch.rand(data.num_edges, 1).double()
    want = (slopes(fresh, data).square() * data.edge_weight_var[:, 0]).sum(-1)
    pred = predict(model, data, method="first-order")
    assert torch.allclose(pred.total, want)
    assert torch.allclose(pred.mean, fresh(data.x, data.edge_index, data.edge_weight))


def test_two_linear_layers_follow_a_weight_in_both():
    torch.manual_seed(2)
    data = graph()
    model = gnn.GraphConv(5, 4).double(), gnn.GraphConv(4, 2).double()

    def call(weight):
        hidden = model[0](data.x, data.edge_index, weight)
        return model[1](hidden, data.edge_index, weight)

    data.edge_weight_var = 0.02
    whole = nn.ModuleList(model)
    forward = lambda _, x, given: model[1](  # noqa: E731
        model[0](x, given.edge_index, given.edge_weight), given.edge_index, given.edge_weight
    )
    pred = predict(whole, data, method="first-order", forward=forward)
    slope = torch.autograd.functional.jacobian(call, data.edge_weight)
    assert torch.allclose(pred.total, 0.02 * slope.square().sum(-1))


def test_positions_by_their_slopes():
    torch.manual_seed(4)
    data, layer = graph(), Distances(5, 2).double()
    data.pos_var = torch.tensor([1e-6, 4e-6]).double()  # so small that its square is nothing
    pred = predict(layer, data, method="first-order")
    call = lambda pos: layer(data.x, pos, data.edge_index)  # noqa: E731
    slope = torch.autograd.functional.jacobian(call, data.pos)  # [nodes, outputs, nodes, 2]
    want = (slope.square() * data.pos_var).sum((-1, -2))
    assert torch.allclose(pred.total, want, rtol=1e-4, atol=0)


@pytest.mark.parametrize("method", ["covariance", "diagonal"])
def test_other_closed_forms_have_a_source_of_links(method):
    """Each weight is met once in one layer, and each output has one weight per neighbour."""
    torch.manual_seed(1)
    data, model = graph(), gnn.GraphConv(1, 1).double()
    data.x, data.edge_weight_var = data.x[:, :1], 0.01
    pred = predict(model, data, method=method)
    assert torch.allclose(pred.total, 0.01 * slopes(model, data).square().sum(-1))


# ---- together ----


def test_division_over_features_and_weights():
    """To first order the parts are what each causes alone; they add up to the total."""
    torch.manual_seed(1)
    data, model = graph(), gnn.GraphConv(5, 2).double()
    data.x_var, data.edge_weight_var = 0.003, 0.01
    pred = predict(model, data, method="first-order")
    by_x = torch.autograd.functional.jacobian(
        lambda x: model(x, data.edge_index, data.edge_weight), data.x
    )
    assert torch.allclose(pred.by_source["features"], 0.003 * by_x.square().sum((-1, -2)))
    weights = 0.01 * slopes(model, data).square().sum(-1)
    assert torch.allclose(pred.by_source["edge_weight"], weights)
    assert list(pred.by_source) == ["features", "edge_weight", "links", "weights", "interactions"]
    assert torch.allclose(sum(pred.by_source.values()), pred.total)
    assert "approximate edge_weight" in pred.method


@pytest.mark.parametrize("name", ["GINE", "GCN", "Distances"])
def test_features_and_a_field_against_draws(name):
    data, model = graph(), network(name)
    data.x_var = data[f"{model.field}_var"] = 0.0025
    pred = predict(model, data, method="first-order")
    ratio = pred.total / brute_force(model, data, std=0.05, x_std=0.05, draws=3000)
    assert 0.95 < float(ratio.median()) < 1.05
    assert (pred.by_source[model.field] > 0).all()
    assert (pred.by_source["features"] > 0).all()


def test_dropout_on_what_a_field_alone_makes_uncertain():
    """Its share alone is not known in closed form: such a network is drawn."""
    torch.manual_seed(5)
    data = graph()
    data.pos_var = 0.01
    model = nn.ModuleList([nn.Linear(2, 5), gnn.GraphConv(5, 2)]).double()

    def forward(model, x, given):
        x = x + nn.functional.dropout(model[0](given.pos), 0.2, training=model.training)
        return model[1](x, given.edge_index)

    pred = predict(model, data, samples=200, forward=forward)
    assert pred.method.startswith("sampled")
    assert (pred.by_source["weights"] != 0).any()


def test_all_three_fields_at_once():
    torch.manual_seed(6)
    data = graph()

    class All(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.near, self.last = Distances(5, 4), gnn.GraphConv(4, 4)
            self.out = gnn.GINEConv(nn.Linear(4, 2), edge_dim=3)

        def forward(self, x, edge_index, edge_attr, edge_weight, pos):
            hidden = self.last(self.near(x, pos, edge_index), edge_index, edge_weight)
            return self.out(hidden, edge_index, edge_attr)

    model = All().double()
    for name in FIELDS:
        data[f"{name}_var"] = 1e-4
    pred = predict(model, data, method="first-order")
    given = [data.edge_attr, data.edge_weight, data.pos]
    found = torch.autograd.functional.jacobian(
        lambda *fields: model(data.x, data.edge_index, *fields), tuple(given)
    )
    for name, slope in zip(FIELDS, found, strict=True):
        # A message is behind a ReLU, whose slope is averaged over the noise.
        assert torch.allclose(
            pred.by_source[name], 1e-4 * slope.square().flatten(2).sum(-1), rtol=2e-2
        )


# ---- drawn ----


@pytest.mark.parametrize("name", ["GINE", "GCN", "Distances"])
def test_draws_against_draws(name):
    data, model = graph(), network(name)
    data[f"{model.field}_var"] = 0.01
    pred = predict(model, data, method="sampled", samples=1000)
    want = brute_force(model, data, std=0.1, draws=4000)
    off = (pred.total - want) / (1.25**0.5 * pred.std_error.total)
    assert float(off.abs().max()) < 5
    once, again = (predict(model, data, method="sampled", samples=50) for _ in range(2))
    assert torch.equal(again.total, once.total)


def test_a_layer_that_caches_its_links_gets_every_draw():
    torch.manual_seed(1)
    data, model = graph(), gnn.GCNConv(5, 2, cached=True).double()
    data.edge_weight_var = 1e-4
    pred = predict(model, data, method="sampled", samples=500)
    want = 1e-4 * slopes(gnn_like(model), data).square().sum(-1)
    assert float(((pred.total - want) / pred.std_error.total).abs().max()) < 5


def gnn_like(cached):
    """The same layer without a cache."""
    fresh = gnn.GCNConv(5, 2).double()
    fresh.load_state_dict(cached.state_dict())
    return fresh


def test_draws_of_fields_are_not_those_of_features_or_of_each_other():
    """The same numbers in two of them would tie them together, and their sum have more variance."""
    ring = torch.arange(20)
    one = torch.zeros(20, 1).double()
    data = Data(x=one, edge_index=torch.stack([ring, ring.roll(1)]), edge_attr=one, pos=one)
    data.edge_weight = one[:, 0]
    data.x_var = data.edge_attr_var = data.edge_weight_var = data.pos_var = 1.0

    def forward(model, x, given):
        return x + given.edge_attr + given.edge_weight[:, None] + given.pos

    model = nn.Linear(1, 1).double()
    pred = predict(model, data, method="sampled", samples=2000, forward=forward)
    assert float(pred.total.mean()) == pytest.approx(4, rel=0.03)
    for name in ("features", *FIELDS):
        assert float(pred.by_source[name].mean()) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("field", ["edge_attr", "edge_weight"])
def test_noise_stays_with_its_link_when_others_are_removed(field):
    """The field names its link: what is left of it must be what is left of the links."""
    data = graph()
    of_edge = data.edge_index[0] * 100 + data.edge_index[1]
    data[field] = 1000.0 * of_edge.double()
    data[f"{field}_var"] = 1.0
    data.edge_prob = torch.full((data.num_edges,), 0.5).double()
    fewest = []

    def forward(model, x, given):
        ends = given.edge_index[0] * 100 + given.edge_index[1]
        assert given[field].shape == ends.shape
        assert torch.equal((given[field] / 1000).round().long(), ends)
        fewest.append(len(ends))
        out = x.new_zeros(len(x)).index_add(0, given.edge_index[1], given[field] / 1000)
        return model(out[:, None])

    pred = predict(nn.Linear(1, 1).double(), data, method="sampled", samples=40, forward=forward)
    assert min(fewest) < data.num_edges
    assert list(pred.by_source) == ["features", field, "links", "weights", "interactions"]


def test_noise_and_removed_links_enumerated():
    """Two doubtful links and noise on their weights: variance over all graphs, in full."""
    data = Data(
        x=torch.tensor([[1.0], [2.0], [3.0]]).double(),
        edge_index=torch.tensor([[0, 1], [2, 2]]),
        edge_weight=torch.tensor([0.7, 1.1]).double(),
        edge_prob=torch.tensor([0.6, 0.8]).double(),
        edge_weight_var=torch.tensor([0.04, 0.09]).double(),
    )
    model = gnn.GraphConv(1, 1).double()
    mean = square = torch.zeros(3, 1).double()
    slope = (data.x[:2, 0] * model.lin_rel.weight[0, 0]).detach()
    for kept in itertools.product((0.0, 1.0), repeat=2):
        here = torch.tensor(kept).double()
        chance = (here * data.edge_prob + (1 - here) * (1 - data.edge_prob)).prod()
        with torch.no_grad():
            out = model(data.x, data.edge_index[:, here > 0], data.edge_weight[here > 0])
        var = torch.zeros(3, 1).double()
        var[2] = (here * slope.square() * data.edge_weight_var).sum()
        mean, square = mean + chance * out, square + chance * (out.square() + var)
    pred = predict(model, data, samples=1500)
    assert pred.method.startswith("sampled")
    off = (pred.total - (square - mean.square())) / pred.std_error.total.clamp_min(1e-9)
    assert float(off.abs().max()) < 5


# ---- what is said ----


@pytest.mark.parametrize("method", ["auto", "first-order", "covariance", "diagonal", "sampled"])
@pytest.mark.parametrize("field", FIELDS)
def test_noise_that_never_reaches_the_answer_is_told(field, method):
    data, model = graph(), gnn.SAGEConv(5, 2).double()
    data[f"{field}_var"] = 0.1
    with pytest.raises(ModelError, match=f"does not depend on the {field}"):
        predict(model, data, method=method, samples=10)


def test_a_kept_copy_of_the_graph_is_told():
    data, model = graph(), gnn.GraphConv(5, 2).double()
    data.edge_weight_var, kept = 0.1, data.clone()
    with pytest.raises(ModelError, match="does not depend on the edge_weight"):
        predict(model, data, forward=lambda m, x, _: m(x, kept.edge_index, kept.edge_weight))


def test_units_that_are_dead_are_no_reason_to_complain():
    data = graph()
    data.edge_weight_var = 1e-6
    model = gnn.GraphConv(5, 2).double()
    dead = lambda m, x, given: (  # noqa: E731
        (m(x, given.edge_index, given.edge_weight) - 1e6).relu()
    )
    pred = predict(model, data, method="sampled", samples=10, forward=dead)
    assert not pred.total.any()


def test_without_such_noise_answers_have_the_parts_they_had():
    data = graph()
    data.x_var = 0.1
    for method in ("first-order", "covariance", "diagonal", "sampled"):
        samples = 4 if method == "sampled" else 0
        pred = predict(network("GCN"), data, method=method, samples=samples)
        assert list(pred.by_source) == ["features", "links", "weights", "interactions"]


def test_sources_names_them():
    data, model = graph(), network("GraphConv")
    data.x_var, data.edge_weight_var = 0.01, 0.01
    alone = predict(model, data, sources=("edge_weight",), method="first-order")
    assert not alone.by_source["features"].any()
    assert alone.by_source["edge_weight"].all()
    held = predict(model, data, sources=("features",), method="first-order")
    assert not held.by_source["edge_weight"].any()
    del data.edge_weight_var
    assert torch.allclose(predict(model, data, method="first-order").total, held.total)
    with pytest.raises(OptionError, match="has no edge_weight_var"):
        predict(model, data, sources=("edge_weight",))


def test_the_graph_and_the_model_stay_as_they_were():
    data, model = graph(), network("GCN")
    data.edge_weight_var = 0.01
    before, state = data.clone(), {k: v.clone() for k, v in model.state_dict().items()}
    for method in ("first-order", "sampled"):
        predict(model, data, method=method, samples=4 if method == "sampled" else 0)
    assert data.keys() == before.keys()
    assert all(torch.equal(data[key], before[key]) for key in FIELDS)
    assert all(torch.equal(state[k], v) for k, v in model.state_dict().items())


@pytest.mark.parametrize(
    ("field", "variance", "says"),
    [
        ("edge_attr", torch.ones(4), r"shape \(4,\), but edge_attr has 48 edges and 3 columns"),
        ("edge_attr", -0.1, r"edge_attr_var is -0.1"),
        ("edge_attr", torch.tensor([0.1, float("nan"), 1]), r"edge_attr_var\[1\] is nan"),
        ("edge_attr", "much", "edge_attr_var is a"),
        ("edge_weight", torch.ones(48, 2), r"edge_weight has 48 edges and 1 columns"),
        ("pos", torch.ones(48, 1), r"pos has 12 nodes and 2 columns"),
        ("pos", torch.ones(12) > 0, "not a dense one of real numbers"),
    ],
)
def test_variances_that_cannot_be(field, variance, says):
    data = graph()
    data[f"{field}_var"] = variance
    with pytest.raises(GraphError, match=says):
        predict(network("GCN"), data)


@pytest.mark.parametrize("field", FIELDS)
def test_noise_in_what_is_not_there_or_no_number(field):
    data = graph()
    data[f"{field}_var"] = 0.1
    data[field] = data[field].long()
    with pytest.raises(GraphError, match=f"{field}_var is given, and {field} is torch.int64"):
        predict(network("GCN"), data)
    del data[field]
    with pytest.raises(GraphError, match=f"{field} is no tensor"):
        predict(network("GCN"), data)


@pytest.mark.parametrize("name", ["edge_attr_variance", "pos_vars", "edgeweightvar"])
def test_a_misspelt_variance_is_asked_about(name):
    data = graph()
    data[name] = 0.1
    with pytest.raises(GraphError, match="did you mean that"):
        predict(network("GCN"), data)


@pytest.mark.parametrize("form", ["number", "columns", "rows", "full"])
def test_forms_of_a_variance(form):
    data, model = graph(), network("GINE")
    full = torch.full((data.num_edges, 3), 0.01).double()
    data.edge_attr_var = {"number": 0.01, "columns": full[0], "rows": full[:, :1], "full": full}[
        form
    ]
    want = predict(model, graph_with(full), method="first-order")
    assert torch.allclose(predict(model, data, method="first-order").total, want.total)


def graph_with(full):
    data = graph()
    data.edge_attr_var = full
    return data


@pytest.mark.parametrize("field", FIELDS)
def test_a_batch_has_the_noise_of_each_graph(field):
    """A number of each graph becomes a vector, and stays with the links of its graph."""
    alone = []
    model = network({"edge_attr": "GINE", "edge_weight": "GraphConv", "pos": "Distances"}[field])
    for number, nodes in enumerate((8, 9, 10, 11)):
        data = graph(nodes)
        data[f"{field}_var"] = 0.001 * (1 + number)
        alone.append(data)
    want = [predict(model, data, method="first-order").total for data in alone]
    pred = predict(model, Batch.from_data_list(alone), method="first-order")
    assert torch.allclose(pred.total, torch.cat(want))


def test_attribution_has_them():
    """Under noise so small that nothing bends."""
    data, model = graph(), network("GraphConv")
    data.edge_weight_var = 1e-6
    call = lambda weight: model(data.clone().update({"edge_weight": weight}))[3, 1]  # noqa: E731
    slope = torch.autograd.functional.jacobian(call, data.edge_weight)
    blame = vg.attribute(model, data, 3, output=1, task="regression", samples=0)
    want = float(1e-6 * slope.square().sum())
    assert blame.by_source["edge_weight"] == pytest.approx(want, rel=1e-3)
