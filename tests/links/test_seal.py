import networkx as nx
import pytest
import torch
from scipy.stats import mannwhitneyu

from varigraph.data import load
from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.links import seal
from varigraph.links.seal import Dgcnn, Seal


def ignore(done):
    """A progress bar that nobody watches."""


def auc(scores, real):
    wins = mannwhitneyu(scores[real].numpy(), scores[~real].numpy()).statistic
    return float(wins) / (int(real.sum()) * int((~real).sum()))


def non_links(graph, count, seed=0):
    """Distinct pairs that are not linked, ``[2, count]``."""
    draw = torch.Generator().manual_seed(seed)
    pairs = torch.randint(len(graph), (8 * count, 2), generator=draw).sort(dim=1).values.tolist()
    found = dict.fromkeys((a, b) for a, b in pairs if a != b and not graph.has_edge(a, b))
    assert len(found) >= count
    return torch.tensor(list(found)[:count]).t()


class Task:
    """Links of a graph, divided: most to be seen, some to stop by, some to be judged."""

    def __init__(self, graph, *, train, held, test, seed=0):
        links = torch.tensor(list(graph.edges)).t()
        links = links[
            :, torch.randperm(links.size(1), generator=torch.Generator().manual_seed(seed))
        ]
        others = non_links(graph, train + held + test, seed)
        self.nodes = len(graph)
        self.links = links[:, held + test :]
        counts = [test, held, train]
        real = [links[:, :test], links[:, test : test + held], self.links[:, :train]]
        pairs = [torch.cat(both, dim=1) for both in zip(real, others.split(counts, 1), strict=True)]
        self.test, self.held, self.pairs = pairs
        self.test_real, self.held_real, self.real = (
            torch.arange(2 * count) < count for count in counts
        )

    def fitted(self, *, x=None, seed=0, report=ignore, **options):
        scorer = Seal(self.links, nodes=self.nodes, x=x, seed=seed, **options)
        scorer.fit(self.pairs, self.real, self.held, self.held_real, report)
        return scorer

    def auc(self, scorer):
        return auc(scorer.logits(self.test), self.test_real)


@pytest.fixture(scope="module")
def task():
    """Small and with hubs, so that a cap of 10 cuts."""
    return Task(nx.barabasi_albert_graph(150, 3, seed=1), train=120, held=40, test=60)


@pytest.fixture(scope="module")
def scorer(task):
    return task.fitted(epochs=2, cap=10)


def test_two_cliques_are_told_apart():
    cliques = nx.disjoint_union(nx.complete_graph(20), nx.complete_graph(20))
    task = Task(cliques, train=120, held=30, test=40)
    assert task.auc(task.fitted(epochs=10, learning_rate=1e-3)) > 0.99


def test_where_there_is_nothing_to_learn_it_guesses():
    # Links of an Erdős-Rényi graph say nothing about each other. With 1,500 links and 1,500
    # others the standard error of the AUC is 0.011, a little more for pairs that share a node.
    graph = nx.fast_gnp_random_graph(5000, 5 / 5000, seed=2)
    task = Task(graph, train=800, held=200, test=1500)
    assert task.auc(task.fitted(epochs=4)) == pytest.approx(0.5, abs=0.05)


def test_attributes_count():
    # Nodes are linked because they are alike; with so few links the structure says little.
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(400, 8, generator=draw)
    alike = x @ x.t() + torch.randn(400, 400, generator=draw)
    graph = nx.empty_graph(400)
    places = alike.triu(1).flatten().topk(500).indices
    graph.add_edges_from(torch.stack([places // 400, places % 400]).t().tolist())
    task = Task(graph, train=300, held=80, test=100)
    with_x, without = (task.auc(task.fitted(x=given, epochs=8)) for given in (x, None))
    assert with_x > 0.9
    assert with_x > without + 0.03


def test_on_cora_it_beats_the_heuristics():
    cora = load("cora")
    graph = nx.empty_graph(cora.num_nodes)
    graph.add_edges_from(cora.edge_index.t().tolist())
    task = Task(graph, train=1000, held=200, test=400)
    found = task.auc(task.fitted(x=cora.x, epochs=4, learning_rate=1e-3))
    seen = nx.empty_graph(cora.num_nodes)
    seen.add_edges_from(task.links.t().tolist())
    pairs = task.test.t().tolist()
    common = [len(list(nx.common_neighbors(seen, *pair))) for pair in pairs]
    adamic_adar = [score for _, _, score in nx.adamic_adar_index(seen, pairs)]
    for heuristic in (common, adamic_adar):
        assert found > auc(torch.tensor(heuristic).double(), task.test_real) + 0.1
    assert found > 0.9


def test_the_same_seed_gives_the_same_scores(task, scorer):
    torch.rand(3)
    before = torch.random.get_rng_state()
    again = task.fitted(epochs=2, cap=10).logits(task.test)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(again, scorer.logits(task.test))
    assert not torch.equal(task.fitted(epochs=2, cap=10, seed=1).logits(task.test), again)


def test_scores_are_one_float_for_each_pair(task, scorer):
    scores = scorer.logits(task.test)
    assert scores.dtype == torch.float32
    assert scores.shape == (120,)
    assert not scores.requires_grad
    assert scores.unique().numel() > 60
    assert scorer.logits(task.test[:, :0]).shape == (0,)


def test_swapping_the_ends_changes_nothing(task, scorer):
    assert torch.equal(scorer.logits(task.test.flip(0)), scorer.logits(task.test))


@pytest.mark.parametrize("cap", [10, None])
def test_the_own_link_of_a_pair_makes_no_difference(task, scorer, cap):
    links, nodes = task.links, task.nodes
    for place in range(0, links.size(1), 41):
        pair = links[:, [place]]
        rest = torch.cat([links[:, :place], links[:, place + 1 :]], dim=1)
        seen, unseen = (Seal(given, nodes=nodes, cap=cap) for given in (links, rest))
        seen.network = unseen.network = scorer.network
        assert torch.equal(seen.logits(pair), unseen.logits(pair))


def test_new_numbers_for_the_nodes_change_no_score(task, scorer):
    new = torch.randperm(task.nodes, generator=torch.Generator().manual_seed(0))
    before = Seal(task.links, nodes=task.nodes, cap=None)
    after = Seal(new[task.links], nodes=task.nodes, cap=None)
    before.network = after.network = scorer.network
    torch.testing.assert_close(
        after.logits(new[task.test]), before.logits(task.test), rtol=0, atol=1e-6
    )


def test_the_other_pairs_change_no_score(task, scorer):
    together = scorer.logits(task.test)
    alone = torch.cat([scorer.logits(task.test[:, [place]]) for place in range(120)])
    torch.testing.assert_close(alone, together, rtol=0, atol=1e-6)
    many = task.test.repeat(1, 5)  # more than are scored at a time
    torch.testing.assert_close(scorer.logits(many), together.repeat(5), rtol=0, atol=1e-6)


def test_the_weights_with_the_smallest_loss_on_the_held_pairs_are_kept(task):
    reports = []
    wrong = Seal(task.links, nodes=task.nodes, epochs=30, patience=3, learning_rate=1e-2)
    wrong.fit(task.pairs, task.real, task.pairs, ~task.real, reports.append)
    assert reports == pytest.approx([1 / 30, 2 / 30, 3 / 30, 4 / 30, 1.0])
    first = Seal(task.links, nodes=task.nodes, epochs=1, learning_rate=1e-2)
    first.fit(task.pairs, task.real, task.pairs, ~task.real, ignore)
    assert torch.equal(wrong.logits(task.test), first.logits(task.test))


def test_dropout_is_on_for_the_examples_and_off_for_the_held_pairs(task, monkeypatch):
    calls = []

    class Watched(Dgcnn):
        def forward(self, graphs):
            calls.append((self.training, len(graphs)))
            return super().forward(graphs)

    monkeypatch.setattr(seal, "Dgcnn", Watched)
    task.fitted(epochs=2, batch=100)
    assert calls == [(True, 100), (True, 100), (True, 40), (False, 80)] * 2


def test_no_more_examples_than_asked_for(task, monkeypatch):
    few = Seal(task.links, nodes=task.nodes, epochs=1, examples=30)
    asked, around = [], few.surroundings.around
    monkeypatch.setattr(
        few.surroundings, "around", lambda pairs: asked.append(pairs) or around(pairs)
    )
    few.fit(task.pairs, task.real, task.held, task.held_real, ignore)
    for taken, given in zip(asked, (task.pairs, task.held), strict=True):
        drawn = {tuple(pair) for pair in taken.t().tolist()}
        assert len(drawn) == 30
        assert drawn <= {tuple(pair) for pair in given.t().tolist()}


def test_scores_before_fit_are_refused(task):
    with pytest.raises(ModelError, match="has not learnt anything yet"):
        Seal(task.links, nodes=task.nodes).logits(task.test)


def test_a_loss_that_is_no_number_is_reported(task):
    with pytest.raises(ModelError, match="learning_rate=1e-4"):
        task.fitted(epochs=1, learning_rate=1e30)


@pytest.mark.parametrize("name", ["examples", "epochs", "patience", "batch", "hops", "cap"])
def test_options_that_make_no_sense_are_named(task, name):
    with pytest.raises(OptionError, match=f"{name}=0"):
        Seal(task.links, nodes=task.nodes, **{name: 0})


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_rates_that_make_no_sense_are_named(task, rate):
    with pytest.raises(OptionError, match=f"learning_rate={rate}"):
        Seal(task.links, nodes=task.nodes, learning_rate=rate)


@pytest.mark.parametrize(
    ("x", "problem"),
    [
        (torch.zeros(149, 2), "x is torch.float32 of shape (149, 2), but there are 150 nodes"),
        (torch.zeros(150), "shape (150,)"),
        (torch.zeros(150, 2, dtype=torch.long), "x is torch.int64"),
        (torch.full((150, 2), torch.nan), "x has entries that are not numbers"),
    ],
)
def test_attributes_that_do_not_fit_are_refused(task, x, problem):
    with pytest.raises(GraphError) as caught:
        Seal(task.links, nodes=150, x=x)
    assert problem in caught.value.problem


@pytest.mark.parametrize("part", ["pairs", "held"])
@pytest.mark.parametrize("bad", [torch.ones(3, dtype=torch.bool), torch.ones(80)])
def test_examples_without_a_yes_or_no_are_refused(task, part, bad):
    real, held_real = (bad, task.held_real) if part == "pairs" else (task.real, bad)
    with pytest.raises(GraphError) as caught:
        Seal(task.links, nodes=150).fit(task.pairs, real, task.held, held_real, ignore)
    assert caught.value.problem.startswith(f"{part} has shape")
