import math
import warnings

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import to_torch_csr_tensor

import varigraph as vg
from links.scorers import Neighbourly, random_graph, two_cliques
from varigraph.errors import GraphError, OptionError
from varigraph.links import LinkQuality, methods
from varigraph.links.link_pairs import pair_numbers
from varigraph.metrics import auroc, binary_ece


def recipe(name, contrast=1):
    return methods.Recipe("links.scorers", name, contrast=contrast)


@pytest.fixture
def fast(monkeypatch):
    """Hadamard with fewer steps, for laws that need no good model."""
    monkeypatch.setitem(methods.RECIPES, "hadamard", recipe("Quick", contrast=2))


@pytest.fixture
def counted(monkeypatch):
    """A scorer that needs no training, and remembers when it was asked."""
    monkeypatch.setitem(methods.RECIPES, "hadamard", recipe("Neighbourly"))
    Neighbourly.made.clear()
    return Neighbourly.made


@pytest.fixture
def graph():
    return Data(edge_index=random_graph(50, 200), num_nodes=50)


def likely(graph, **options):
    return vg.link_probabilities(graph, **{"method": "hadamard", "folds": 3, **options})


# ---- on Cora ----


@pytest.fixture(scope="module")
def cora():
    return vg.load("cora")


@pytest.fixture(scope="module")
def doubtful(cora):
    """Cora with 5 % of links made up, judged; and which edges are the made-up ones."""
    links = cora.edge_index[:, cora.edge_index[0] < cora.edge_index[1]]
    draw = torch.Generator().manual_seed(7)
    pairs = torch.randint(cora.num_nodes, (2, 1000), generator=draw)
    new = (pairs[0] != pairs[1]) & ~torch.isin(pair_numbers(pairs), pair_numbers(links))
    made_up = pairs[:, new][:, : links.size(1) // 20]
    edges = torch.cat([cora.edge_index, made_up, made_up.flip(0)], dim=1)
    graph = Data(x=cora.x, edge_index=edges)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(methods.RECIPES, "hadamard", recipe("Quick", contrast=5))
        judged = likely(graph, folds=5)
    return judged, torch.arange(edges.size(1)) >= cora.num_edges


def test_made_up_links_are_told_from_real_ones(doubtful):
    judged, made_up = doubtful
    assert auroc(judged.edge_prob, ~made_up) > 0.8
    assert judged.edge_prob[made_up].median() < judged.edge_prob[~made_up].median() - 0.3


def test_probabilities_come_true_on_cora(doubtful):
    quality = doubtful[0].link_quality
    # Half the usual steps, and a twentieth of the links made up: on Cora itself both are better.
    assert quality.auc > 0.88
    assert quality.ece < 0.035
    assert quality.brier < 0.15


def test_both_directions_carry_the_same_number(doubtful):
    judged, _ = doubtful
    numbers = pair_numbers(judged.edge_index)
    order = numbers.argsort()
    one, two = judged.edge_prob[order].view(-1, 2).unbind(dim=1)
    assert torch.equal(*numbers[order].view(-1, 2).unbind(dim=1))
    assert torch.equal(one, two)
    assert len(one.unique()) > 1000
    vg.data.check_graph(judged)


# ---- where the answer is known ----


def test_chance_is_not_mistaken_for_structure(fast):
    graph = Data(edge_index=random_graph(500, 4000, seed=2), num_nodes=500)
    generator = torch.Generator().manual_seed(0)
    graph.x = torch.randn(500, 20, generator=generator)
    judged = likely(graph)
    # 4000 links and 4000 others: the sampling error of the area is 0.0065.
    assert judged.link_quality.auc == pytest.approx(0.5, abs=0.05)
    assert (judged.edge_prob - 0.5).abs().mean() < 0.06
    assert judged.edge_prob.max() < 0.75


def test_two_cliques_leave_no_doubt(fast):
    graph = Data(edge_index=two_cliques(20), num_nodes=40)
    judged = likely(graph, folds=2)
    assert judged.link_quality.auc > 0.99
    assert judged.edge_prob.median() > 0.9
    assert judged.edge_prob.quantile(0.01) > 0.8


def test_labels_do_not_count_but_features_do(fast, graph):
    graph.y = torch.arange(50)
    plain = likely(graph, folds=2)
    permuted = graph.clone()
    permuted.y = torch.randperm(50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(likely(permuted, folds=2).edge_prob, plain.edge_prob)
    permuted.x = torch.rand(50, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert not torch.equal(likely(permuted, folds=2).edge_prob, plain.edge_prob)


def test_the_seed_decides_and_torch_s_own_generator_is_left_alone(fast, graph):
    state = torch.get_rng_state()
    one, again, other = (likely(graph, folds=2, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one.edge_prob, again.edge_prob)
    assert str(one.link_quality) == str(again.link_quality)
    assert not torch.equal(one.edge_prob, other.edge_prob)
    assert torch.equal(torch.get_rng_state(), state)


# ---- what is returned ----


def test_the_graph_stays_as_it_is(counted, graph):
    before = graph.clone().to_dict()
    judged = likely(graph)
    assert graph.to_dict().keys() == before.keys()
    assert judged.edge_index is graph.edge_index
    assert judged.edge_prob.shape == (400,)
    assert judged.edge_prob.dtype == torch.float32
    assert isinstance(judged.link_quality, LinkQuality)
    assert "ECE" in repr(judged)


def test_the_record_holds_the_numbers_that_were_given_out(counted, graph):
    judged = likely(graph)
    quality = judged.link_quality
    assert torch.equal(
        quality.links.float().sort().values.repeat_interleave(2), judged.edge_prob.sort().values
    )
    assert quality.non_links.shape == quality.links.shape
    prob = torch.cat([quality.links, quality.non_links])
    assert quality.ece == binary_ece(prob, torch.arange(len(prob)) < 200)
    assert (quality.method, quality.folds, quality.odds) == ("hadamard", 3, "balanced")


@pytest.mark.parametrize("listed", ["one direction", "reversed", "twice", "shuffled"])
def test_it_does_not_matter_how_links_are_listed(counted, graph, listed):
    plain = likely(graph)
    edges = graph.edge_index
    order = torch.randperm(400, generator=torch.Generator().manual_seed(1))
    edges = {
        "one direction": edges[:, :200],
        "reversed": edges[:, :200].flip(0),
        "twice": edges.repeat(1, 2),
        "shuffled": edges[:, order],
    }[listed]
    judged = likely(Data(edge_index=edges, num_nodes=50))
    known = dict(zip(pair_numbers(graph.edge_index).tolist(), plain.edge_prob, strict=True))
    expected = [known[number] for number in pair_numbers(edges).tolist()]
    assert judged.edge_prob.tolist() == expected


def test_self_links_are_certain_and_change_nothing(counted, graph):
    plain = likely(graph)
    loops = torch.tensor([[0, 7], [0, 7]])
    judged = likely(Data(edge_index=torch.cat([loops, graph.edge_index], dim=1), num_nodes=50))
    assert judged.edge_prob[:2].tolist() == [1.0, 1.0]
    assert torch.equal(judged.edge_prob[2:], plain.edge_prob)


def test_the_odds_of_the_density_shift_the_logit(counted, graph):
    balanced, density = (likely(graph, odds=odds) for odds in ("balanced", "density"))
    share = 200 / (50 * 49 / 2)
    one, two = (judged.edge_prob.double() for judged in (balanced, density))
    # Bayes: the same evidence, another prior.
    torch.testing.assert_close(
        two, one * share / (one * share + (1 - one) * (1 - share)), atol=1e-6, rtol=1e-4
    )
    assert density.link_quality.odds == "density"
    assert density.link_quality.ece == balanced.link_quality.ece


def test_more_folds_are_more_models(counted, graph):
    likely(graph, folds=5)
    assert len(counted) == 5
    assert len({scorer.seed for scorer in counted}) == 5


def test_auto_asks_how_large_the_graph_is(counted, graph, monkeypatch):
    monkeypatch.setattr(methods, "LARGE", 199)
    assert likely(graph, method="auto").link_quality.method == "hadamard"


def test_progress_is_reported(counted, graph):
    reports = []
    likely(graph, progress=lambda done, what: reports.append((done, what)))
    assert reports[0] == (0, "fold 1 of 3")
    assert reports[-1] == (1, "fold 3 of 3")


# ---- resuming ----


def test_a_second_call_repeats_nothing(counted, graph, tmp_path):
    first = likely(graph, folder=tmp_path)
    assert len(counted) == 3
    second = likely(graph, folder=str(tmp_path))
    assert len(counted) == 3
    assert torch.equal(first.edge_prob, second.edge_prob)
    assert str(first.link_quality) == str(second.link_quality)
    assert torch.equal(likely(graph).edge_prob, first.edge_prob)


def test_other_odds_need_no_other_models(counted, graph, tmp_path):
    likely(graph, folder=tmp_path)
    judged = likely(graph, folder=tmp_path, odds="density")
    assert len(counted) == 3
    assert torch.equal(judged.edge_prob, likely(graph, odds="density").edge_prob)


@pytest.mark.parametrize("change", [{"seed": 1}, {"folds": 2}, {"method": "seal"}])
def test_a_folder_of_other_settings_is_refused(counted, graph, tmp_path, change):
    likely(graph, folder=tmp_path)
    with pytest.raises(OptionError, match=next(iter(change))):
        likely(graph, folder=tmp_path, **change)


def test_a_folder_of_another_graph_is_refused(counted, graph, tmp_path):
    likely(graph, folder=tmp_path)
    with pytest.raises(OptionError, match="links"):
        likely(Data(edge_index=random_graph(50, 201), num_nodes=50), folder=tmp_path)
    with_x = Data(x=torch.rand(50, 2), edge_index=graph.edge_index)
    with pytest.raises(OptionError, match="features"):
        likely(with_x, folder=tmp_path)


# ---- mistakes ----


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "magic"}, "method='magic'"),
        ({"odds": "even"}, "odds='even'"),
        ({"folds": 1}, "folds=1"),
        ({"folds": 2.5}, "folds=2.5"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": None}, "seed=None"),
    ],
)
def test_options_that_make_no_sense_are_refused(graph, options, said):
    with pytest.raises(OptionError) as caught:
        likely(graph, **options)
    assert caught.value.problem.startswith(said)
    assert caught.value.remedy


def test_graphs_that_cannot_be_right_are_refused(graph):
    edges = graph.edge_index
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its own sparse matrices beta
        sparse = to_torch_csr_tensor(edges, size=50)
    nan = torch.ones(50, 2)
    nan[3, 1] = math.nan
    for wrong, said in (
        (Data(edge_index=edges), "no features x"),
        (Data(num_nodes=50), "no links edge_index"),
        (Data(edge_index=edges + 1, num_nodes=50), "but the graph has nodes 0 to 49"),
        (Data(x=nan, edge_index=edges), "node 3, feature 1"),
        (Data(x=torch.ones(50, 1), adj_t=sparse), "adj_t"),
        (Data(edge_index=edges[:, :0], num_nodes=50), "has 0 links, too few for 3 folds"),
        (Data(edge_index=edges[:, :29], num_nodes=50), "has 29 links, too few for 3 folds"),
        (Data(edge_index=random_graph(20, 100), num_nodes=20), "100 of 190 pairs are linked"),
        (HeteroData(), "several kinds of nodes"),
        (vg.Gaussian(torch.ones(2), torch.ones(2)), "not a torch_geometric.data.Data"),
    ):
        with pytest.raises(GraphError) as caught:
            likely(wrong)
        assert said in caught.value.problem
