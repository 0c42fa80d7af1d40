"""Several kinds of nodes and links, against the model itself on drawn or listed graphs."""

import copy
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import EdgeIndex
from torch_geometric import nn as gnn
from torch_geometric.data import Batch, HeteroData

import varigraph as vg
from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.prediction.predict import ask
from varigraph.prediction.sampled.method import sample
from varigraph.testing import check_network

BUYS, BOUGHT, KNOWS = (
    ("user", "buys", "item"),
    ("item", "rev_buys", "user"),
    ("user", "knows", "user"),
)
CHANCES = (0.5, 0.7, 0.8)
FRIENDS = 0.6
#: All that is uncertain of a network without dropout.
EXACT = ("features", "links")


@pytest.fixture
def shop():
    """Three users, four items; three purchases and one friendship are in doubt."""
    generator, data = torch.Generator().manual_seed(3), HeteroData()
    data["user"].x = torch.randn(3, 5, generator=generator)
    data["item"].x = torch.randn(4, 3, generator=generator)
    data[BUYS].edge_index = torch.tensor([[0, 1, 2, 2], [0, 1, 1, 3]])
    data[BUYS].edge_prob = torch.tensor([*CHANCES, 1.0])
    data[BUYS].edge_attr = torch.randn(4, 2, generator=generator)
    data[BOUGHT].edge_index = data[BUYS].edge_index.flip(0)
    data[BOUGHT].edge_prob = data[BUYS].edge_prob.clone()
    data[KNOWS].edge_index = torch.tensor([[0, 1], [1, 0]])
    data[KNOWS].edge_prob = torch.full((2,), FRIENDS)
    return data


class Shop(nn.Module):
    """Two layers of every relation; the first users' purchases have attributes."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.conv1 = self.layer({"user": 5, "item": 3}, 6)
        self.conv2 = self.layer({"user": 6, "item": 6}, 4)
        self.weigh = nn.Linear(2, 4)
        self.dropout = dropout

    @staticmethod
    def layer(widths, out):
        convs = {
            kind: gnn.SAGEConv((widths[kind[0]], widths[kind[2]]), out)
            for kind in (BUYS, BOUGHT, KNOWS)
        }
        return gnn.HeteroConv(convs, aggr="sum")

    def forward(self, x_dict, edge_index_dict, edge_attr_dict):
        h = {kind: x.tanh() for kind, x in self.conv1(x_dict, edge_index_dict).items()}
        h = {kind: F.dropout(x, self.dropout, self.training) for kind, x in h.items()}
        h = self.conv2(h, edge_index_dict)
        index, attr = edge_index_dict[BUYS], self.weigh(edge_attr_dict[BUYS])
        h["user"] = h["user"].index_add(0, index[0], attr)
        return h


def model(**options):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return Shop(**options).eval()


def users(network, data):
    return network(data.x_dict, data.edge_index_dict, data.edge_attr_dict)["user"]


def outcome(data, present):
    """The graph with those links alone, ``[4]`` purchases and whether the friendship is there."""
    bought, friends = torch.tensor([*present[:3], True]), present[3]
    left = copy.copy(data)
    for kind, kept in ((BUYS, bought), (BOUGHT, bought), (KNOWS, torch.tensor([friends, friends]))):
        left[kind].edge_index = data[kind].edge_index[:, kept]
    left[BUYS].edge_attr = data[BUYS].edge_attr[bought]
    return left


def listed(network, data):
    """Every graph that there may be: its chance and the answer, in plain torch."""
    chances, answers = [], []
    for present in product([True, False], repeat=4):
        pairs = zip((*CHANCES, FRIENDS), present, strict=True)
        parts = [chance if there else 1 - chance for chance, there in pairs]
        chances.append(torch.tensor(parts).double().prod())
        answers.append(users(network, outcome(data, present)).detach())
    return torch.stack(chances), torch.stack(answers)


def test_every_draw_is_a_graph_without_some_links(shop):
    """A purchase and its way back have one coin, a friendship too; so often as chances say."""
    network, shown = model(), []
    question = ask(network, shop, output="user", sources=("links",), samples=1000)
    sample(question, shown.append)
    chances, answers = listed(network, shop)
    runs = torch.cat(shown)
    far = (runs[:, None] - answers).abs().amax((2, 3))  # [runs, graphs]
    assert float(far.min(1).values.max()) < 1e-5
    often = torch.bincount(far.argmin(1), minlength=16) / len(runs)
    error = (chances * (1 - chances) / len(runs)).sqrt()
    assert bool(((often - chances).abs() < 5 * error).all())


def test_chances_that_differ_are_two_coins(shop):
    shop[BOUGHT].edge_prob = torch.tensor([0.9, 0.7, 0.8, 1.0])
    question = ask(model(), shop, output="user", sources=("links",))
    assert len(question.links.coins.prob.unique()) == 6  # 0.5, 0.6, 0.7, 0.8, 0.9, 1
    assert len(question.links.coins.prob) == 6


def test_other_relations_between_the_same_nodes_have_other_coins(shop):
    shop["user", "views", "item"].edge_index = shop[BUYS].edge_index
    shop["user", "views", "item"].edge_prob = shop[BUYS].edge_prob
    question = ask(model(), shop, output="user", sources=("links",))
    assert len(question.links.coins.prob) == 4 + 4 + 1


BY_FEATURE = torch.linspace(0.01, 0.05, 5)
NOISES = {
    "numbers": {"user": 0.02, "item": 0.01},
    "mixed": {"user": BY_FEATURE, "item": torch.tensor([[0.01], [0.02], [0.03], [0.04]])},
    "by feature": {"user": BY_FEATURE, "item": torch.linspace(0.03, 0.01, 3)},
    "one kind": {"user": BY_FEATURE * torch.tensor([[0.3], [0.1], [0.9]]), "item": None},
    "full": {"user": BY_FEATURE + torch.eye(3, 5), "item": 0.01},
}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_noise_of_every_shape_against_draws(shop, noise):
    network = model()
    for kind, var in noise.items():
        shop[kind].x_var = var
    pred = vg.predict(network, shop, output="user", sources=("features",), samples=1000)
    assert pred.method.startswith("first-order")
    torch.manual_seed(5)
    runs = []
    for _ in range(1000):
        drawn = copy.copy(shop)
        for kind, var in noise.items():
            std = torch.as_tensor(0.0 if var is None else var).sqrt()
            drawn[kind].x = shop[kind].x + std * torch.randn_like(shop[kind].x)
        runs.append(users(network, drawn).detach())
    check_variance(pred, torch.stack(runs))


@pytest.mark.parametrize("noise", ["numbers", "mixed", "by feature"])
@pytest.mark.parametrize("aggr", ["sum", "mean", "cat"])
def test_a_linear_network_has_the_variance_of_its_slopes(shop, noise, aggr):
    """Layers alone: exact, by the slopes that torch finds for the plain network."""
    torch.manual_seed(2)
    kinds = {
        BUYS: gnn.SAGEConv((5, 3), 4),
        BOUGHT: gnn.GraphConv((3, 5), 4),
        KNOWS: gnn.GCNConv(5, 4),
    }
    network = gnn.HeteroConv(kinds, aggr=aggr)
    for kind, var in NOISES[noise].items():
        shop[kind].x_var = var
    inputs = (shop["user"].x, shop["item"].x)
    slopes = torch.autograd.functional.jacobian(
        lambda user, item: network({"user": user, "item": item}, shop.edge_index_dict)["user"],
        inputs,
    )
    var = 0
    for slope, x, kind in zip(slopes, inputs, ("user", "item"), strict=True):
        of_kind = torch.as_tensor(NOISES[noise][kind]).expand_as(x)
        var = var + (slope.square() * of_kind).sum((2, 3))
    options = {"sources": ("features",), "samples": 0, "method": "first-order"}
    pred = vg.predict(network, shop, output="user", **options)
    torch.testing.assert_close(pred.logits.var, var, rtol=1e-4, atol=1e-8)


def test_all_sources_together_against_draws(shop):
    network = model(dropout=0.3)
    shop["user"].x_var, shop["item"].x_var = 0.1, torch.rand(4, 1)
    pred = vg.predict(network, shop, output="user", samples=1000)
    assert pred.method.startswith("sampled")
    assert all(float(pred.by_source[each].sum()) > 0 for each in ("features", "links", "weights"))
    torch.manual_seed(5)
    network.train()  # its dropout is all that asks
    runs = []
    for _ in range(1000):
        present = [bool(torch.rand(()) < p) for p in (*CHANCES, FRIENDS)]
        drawn = outcome(shop, present)
        for kind in ("user", "item"):
            std = torch.as_tensor(shop[kind].x_var).sqrt()
            drawn[kind].x = shop[kind].x + std * torch.randn_like(shop[kind].x)
        runs.append(users(network, drawn).detach())
    check_variance(pred, torch.stack(runs))


def check_variance(pred, runs):  # [draws, users, classes]
    """The sum of all variances, by 4 standard errors of both sides; and every mean."""
    parts = torch.stack([part.var(0).sum() for part in runs.split(len(runs) // 20)])
    error = parts.std() / 20**0.5
    assert abs(float(pred.logits.var.sum() - runs.var(0).sum())) < 4 * 1.5 * float(error)
    spread = (runs.var(0) / len(runs)).sqrt()
    assert bool(((pred.logits.mean - runs.mean(0)).abs() < 5 * 1.5 * spread).all())


@pytest.mark.parametrize("kind", ["user", "item"])
def test_output_and_nodes_are_of_one_kind(shop, kind):
    shop["user"].x_var = 0.1
    shop["item"].node_names = ["pen", "cup", "hat", "mug"]
    whole = vg.predict(model(), shop, output=kind, sources=EXACT, samples=40)
    some = vg.predict(model(), shop, output=kind, sources=EXACT, samples=40, nodes=[2, 0])
    torch.testing.assert_close(some.mean, whole.mean[[2, 0]])
    if kind == "item":
        names = ["hat", "pen"]
        named = vg.predict(model(), shop, output=kind, sources=EXACT, samples=40, nodes=names)
        torch.testing.assert_close(named.mean, some.mean)


def test_ways_of_calling_are_the_same(shop):
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model()

        def forward(self, data):
            return users(self.inner, data)

    shop["item"].x_var = 0.1
    named = vg.predict(model(), shop, output="user", sources=EXACT, samples=30)
    whole = vg.predict(Whole(), shop, sources=EXACT, samples=30)
    by_hand = vg.predict(
        model(),
        shop,
        sources=EXACT,
        samples=30,
        forward=lambda network, x, data: network(x, data.edge_index_dict, data.edge_attr_dict)[
            "user"
        ],
    )
    assert torch.equal(named.total, whole.total)
    assert torch.equal(named.total, by_hand.total)


def test_kinds_without_features_and_with_numbers_are_handed_on(shop):
    class Embedded(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.tags, self.words = nn.Embedding(6, 4), nn.Embedding(9, 4)
            self.lin = nn.Linear(5, 4)

        def forward(self, x_dict, edge_index_dict):
            assert set(x_dict) == {"user", "item", "word"}
            tags = self.tags(edge_index_dict["user", "has", "tag"][1])
            index = edge_index_dict["user", "has", "tag"][0]
            out = self.lin(x_dict["user"]).index_add(0, index, tags)
            return out + self.words(x_dict["word"]).sum(0)

    shop["user"].x_var = 0.1
    shop["word"].x = torch.tensor([0, 8])
    shop["user", "has", "tag"].edge_index = torch.tensor([[0, 1], [5, 2]])
    shop["tag"].num_nodes = 6
    network = Embedded()
    pred = vg.predict(network, shop, sources=("features",), samples=2000, method="sampled")
    var = 0.1 * network.lin.weight.detach().square().sum(1)  # [classes]
    assert float((pred.logits.var / var).sub(1).abs().max()) < 0.15


def test_each_kind_can_be_blamed(shop):
    """In a linear network the parts of all kinds add up to the features' share."""
    torch.manual_seed(2)
    sizes = {BUYS: (5, 3), BOUGHT: (3, 5), KNOWS: (5, 5)}
    network = gnn.HeteroConv({kind: gnn.SAGEConv(size, 4) for kind, size in sizes.items()})
    shop["user"].x_var, shop["item"].x_var = 0.01, torch.rand(4, 1)

    def variance(*sources):
        options = {"output": "user", "samples": 0, "task": "regression"}
        return vg.predict(network, shop, sources=sources, **options).total

    whole = variance("features")
    user, item = variance("features:user"), variance("features:item")
    torch.testing.assert_close(user + item, whole)
    assert bool((user > 0).any() and (item > 0).any())
    torch.testing.assert_close(variance("features:user", "features:item"), whole)
    with pytest.raises(OptionError, match="features:item"):
        variance("features:tag")


@pytest.mark.parametrize(("kind", "ends"), [("buys", 3), ("knows", 1)])
def test_each_kind_of_links_can_be_blamed(shop, kind, ends):
    """The other links are all there: as many graphs as coins of this kind allow."""
    network, shown = model(), []
    question = ask(network, shop, output="user", sources=(f"links:{kind}",), samples=400)
    sample(question, shown.append)
    chosen = slice(0, 3) if kind == "buys" else slice(3, 4)
    answers = []
    for there in product([True, False], repeat=ends):
        present = [True] * 4
        present[chosen] = there
        answers.append(users(network, outcome(shop, present)).detach())
    runs = torch.cat(shown)
    far = (runs[:, None] - torch.stack(answers)).abs().amax((2, 3))
    assert float(far.min(1).values.max()) < 1e-5
    assert len(far.argmin(1).unique()) == len(answers)


def test_model_and_graph_are_left_alone(shop):
    shop["user"].x_var = 0.1
    network, before = model(dropout=0.5), copy.deepcopy(shop)
    state = copy.deepcopy(network.state_dict())
    vg.predict(network, shop, output="user", samples=10)
    for one, two in zip(shop.stores, before.stores, strict=True):
        assert list(one) == list(two)
        assert all(torch.equal(torch.as_tensor(one[key]), torch.as_tensor(two[key])) for key in one)
    assert all(torch.equal(value, state[key]) for key, value in network.state_dict().items())


def test_half_precision_edge_index_class_and_batches(shop):
    shop["user"].x_var = shop["item"].x_var = torch.full((1,), 0.1)
    for kind in ("user", "item"):
        shop[kind].x_var = torch.full((shop[kind].num_nodes, 1), 0.1)
    plain = vg.predict(model(), shop, output="user", sources=EXACT, samples=30)
    other = copy.copy(shop)
    for kind in (BUYS, BOUGHT, KNOWS):
        other[kind].edge_index = EdgeIndex(shop[kind].edge_index)
    pred = vg.predict(model(), other, output="user", sources=EXACT, samples=30)
    torch.testing.assert_close(pred.total, plain.total)
    half = copy.copy(shop)
    for kind in ("user", "item"):
        half[kind].x = shop[kind].x.half()
    half[BUYS].edge_attr = shop[BUYS].edge_attr.half()
    pred = vg.predict(model().half(), half, output="user", sources=EXACT, samples=30)
    assert "in torch.float32" in pred.method
    torch.testing.assert_close(pred.total, plain.total, rtol=0.05, atol=1e-4)
    both = Batch.from_data_list([shop, shop])
    assert vg.predict(model(), both, output="user", sources=EXACT, samples=30).total.shape == (6, 4)


def give(kind, **fields):
    return lambda data: data[kind].update(fields)


@pytest.mark.parametrize("kind", ["user", "item"])
def test_the_law_of_networks_holds(shop, kind):
    shop["user"].x_var, shop["item"].x_var = 0.02, torch.rand(4, 1) / 10
    check_network(model(dropout=0.2), shop, output=kind)


def test_the_law_of_networks_sees_another_network(shop):
    shop["user"].x_var = 0.02
    with pytest.raises(AssertionError, match="law 1"):
        check_network(
            model(), shop, output="user", call=lambda network, data: 3 * users(network, data)
        )


WRONG = {
    "number": (give("user", x=torch.full((3, 5), torch.nan)), "'user': x[0, 0] is nan"),
    "variance": (give("item", x_var=-1.0), "'item': x_var is -1"),
    "shape": (give("item", x_var=torch.ones(4)), "'item': x_var has shape"),
    "spelling": (give("item", xvar=0.1), "'item': the graph has xvar"),
    "chance": (give(BUYS, edge_prob=torch.full((4,), 2.0)), "'item'): edge_prob[0] is 2.0"),
    "chances": (give(BUYS, edge_prob=torch.ones(3)), "but there are 4 links"),
    "range": (give(KNOWS, edge_index=torch.tensor([[0, 3], [1, 0]])), "3 nodes of kind 'user'"),
    "type": (give("user", x=torch.ones(3, 5).double()), "x of 'item' is torch.float32"),
    "twice": (
        give(KNOWS, edge_index=torch.zeros(2, 2).long(), edge_prob=torch.tensor([0.1, 0.2])),
        "listed twice",
    ),
    "nothing": (lambda data: [data[kind].pop("x") for kind in ("user", "item")], "no kind of"),
    "noise alone": (give("tag", x_var=0.1), "'tag': the graph has no features"),
    "links alone": (lambda data: data[BUYS].pop("edge_index"), "edge_prob needs the links"),
    "edge noise": (give(BUYS, edge_attr_var=0.1), "edge_attr_var is known to"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_of_its_kind(shop, case):
    spoil, said = WRONG[case]
    spoil(shop)
    with pytest.raises(GraphError) as error:
        vg.predict(model(), shop, output="user")
    assert said in error.value.problem


def test_a_network_that_was_never_run_is_told_to(shop):
    lazy = gnn.HeteroConv({KNOWS: gnn.SAGEConv((-1, -1), 2)})
    with pytest.raises(ModelError, match="run the model once"):
        vg.predict(lazy, shop, output="user")


def test_numbers_of_a_batch_are_asked_about(shop):
    shop["user"].x_var = torch.full((5,), 0.1)
    with pytest.raises(GraphError, match="for each graph or for each feature"):
        vg.predict(model(), Batch.from_data_list([shop, shop]), output="user")


def test_options_that_make_no_sense_here(shop):
    with pytest.raises(ModelError, match="output='item'"):
        vg.predict(model(), shop)
    with pytest.raises(OptionError, match=r"one of .'item', 'user'."):
        vg.predict(model(), shop, output="tag")
    with pytest.raises(OptionError, match='links="removed"'):
        vg.predict(model(), shop, output="user", links="bernoulli")
    with pytest.raises(OptionError, match="several"):
        vg.predict(model(), shop, output="user", links_to_score=[[0], [1]])
    with pytest.raises(ModelError, match=r'method="sampled"'):
        vg.predict(model(), shop, output="user", sources=["links"], method="first-order")
    with pytest.raises(ModelError, match="edge_index_dict"):
        vg.predict(Shop.layer({"user": 9, "item": 9}, 2), shop, output="user")
    with pytest.raises(ModelError, match=r"model.to.torch.float32"):
        vg.predict(model().double(), shop, output="user")
    with pytest.raises(GraphError, match="several kinds of nodes"):
        vg.attribute(model(), shop, node=0)
