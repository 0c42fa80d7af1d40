import copy
from collections import Counter

import pytest
import torch
from torch.testing import assert_close
from torch_geometric.data import Data

from baselines.block_models import generator, planted
from varigraph.baselines import block_bgcn
from varigraph.baselines.block_bgcn import BlockBgcn
from varigraph.baselines.gcn import Gcn, GcnTrainer, normalised
from varigraph.baselines.plain import from_draws
from varigraph.data import add_noise, load
from varigraph.errors import GraphError, OptionError

SHORT = {"epochs": 30, "observed_epochs": 15, "refit_every": 5, "kept": 6}


@pytest.fixture(scope="module")
def graph():
    """Three planted classes whose features say a little; 5 labels of each are known."""
    links, label = planted([50, 60, 70], 0.12, 0.01)
    noise = torch.randn(180, 8, generator=generator(1))
    x = torch.nn.functional.one_hot(label, 8) + 0.8 * noise
    known = torch.zeros(180, dtype=torch.bool)
    known[[*range(5), *range(50, 55), *range(110, 115)]] = True
    edges = torch.cat([links.pairs, links.pairs.flip(0)], dim=1)
    return Data(x=x, edge_index=edges, y=label, train_mask=known, test_mask=~known)


@pytest.fixture(scope="module")
def fitted(graph):
    return BlockBgcn.fit(graph, **SHORT)


def accuracy(probabilities, graph):
    return (probabilities.argmax(dim=1) == graph.y)[graph.test_mask].float().mean().item()


def assert_identical(one, two):
    """Bit by bit: weights, graphs and memberships."""
    assert len(one.samples) == len(two.samples)
    for a, b in zip(one.samples, two.samples, strict=True):
        assert torch.equal(a.links, b.links)
        assert torch.equal(a.network.first, b.network.first)
        assert torch.equal(a.network.second, b.network.second)
    assert torch.equal(one.blocks.shares, two.blocks.shares)
    assert torch.equal(one.blocks.counts, two.blocks.counts)


def test_labels_of_other_nodes_than_those_to_train_on_are_never_read(graph, fitted):
    shuffled = copy.copy(graph)
    rest = graph.test_mask.nonzero().flatten()
    shuffled.y = graph.y.clone()
    shuffled.y[rest] = graph.y[rest[torch.randperm(len(rest), generator=generator())]]
    assert (shuffled.y != graph.y).sum() > 80
    assert_identical(BlockBgcn.fit(shuffled, **SHORT), fitted)
    shuffled.y[rest] = 50  # not even their number of classes
    assert_identical(BlockBgcn.fit(shuffled, **SHORT), fitted)


def test_labels_of_the_nodes_to_train_on_are_read(graph, fitted):
    shuffled = copy.copy(graph)
    shuffled.y = (graph.y + 1) % 3
    other = BlockBgcn.fit(shuffled, **SHORT)
    assert not torch.equal(other.samples[-1].network.first, fitted.samples[-1].network.first)


def test_the_seed_decides_and_torch_s_own_generator_is_left_alone(graph, fitted):
    state = torch.get_rng_state()
    assert_identical(BlockBgcn.fit(graph, **SHORT), fitted)
    other = BlockBgcn.fit(graph, **SHORT, seed=1)
    assert not torch.equal(other.samples[0].links, fitted.samples[0].links)
    one, again, differs = (fitted.predict(graph, samples=7, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.mean, again.mean)
    assert not torch.equal(one.mean, differs.mean)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_graph_stays_as_it_was(graph):
    before = copy.deepcopy(graph)
    BlockBgcn.fit(graph, **SHORT).predict(graph, samples=2)
    assert graph.keys() == before.keys()
    assert all(torch.equal(graph[key], before[key]) for key in graph.keys())  # noqa: SIM118


def test_the_last_steps_are_kept_each_with_its_own_graph_and_weights(fitted):
    assert len(fitted.samples) == SHORT["kept"]
    for one, two in zip(fitted.samples, fitted.samples[1:], strict=False):
        assert not torch.equal(one.network.first, two.network.first)
        assert one.links.shape != two.links.shape or not torch.equal(one.links, two.links)


def test_steps_go_to_the_observed_graph_first_and_then_to_drawn_ones(graph, monkeypatch):
    seen = []
    step = GcnTrainer.step

    def spy(self, adjacency):
        seen.append(adjacency)
        return step(self, adjacency)

    fits = []
    fitted_blocks = block_bgcn.fitted_blocks

    def spy_fit(links, guess, **options):
        fits.append((len(seen), guess))
        return fitted_blocks(links, guess, **options)

    monkeypatch.setattr(GcnTrainer, "step", spy)
    monkeypatch.setattr(block_bgcn, "fitted_blocks", spy_fit)
    model = BlockBgcn.fit(graph, **SHORT)
    observed = normalised(graph.edge_index, 180).csr.to_dense()
    assert len(seen) == SHORT["epochs"]
    assert all(torch.equal(adjacency.csr.to_dense(), observed) for adjacency in seen[:15])
    assert not any(torch.equal(adjacency.csr.to_dense(), observed) for adjacency in seen[15:])
    for adjacency, sample in zip(seen[-6:], model.samples, strict=True):
        assert torch.equal(adjacency.csr.to_dense(), normalised(sample.links, 180).csr.to_dense())
    assert [place for place, _ in fits] == [15, 20, 25]
    assert_close(fits[0][1].sum(dim=1), torch.ones(180))


@pytest.mark.parametrize(("samples", "uses"), [(2, [1, 1, 0]), (3, [1, 1, 1]), (8, [3, 3, 2])])
def test_draws_are_shared_out_evenly_the_latest_graphs_first(graph, samples, uses, monkeypatch):
    model = BlockBgcn.fit(graph, **{**SHORT, "kept": 3})
    used, draws = Counter(), []
    forward = Gcn.forward

    def spy(self, x, adjacency, generator=None):
        assert generator is not None  # or else nothing is dropped
        latest_first = [sample.network for sample in reversed(model.samples)]
        number = next(i for i, network in enumerate(latest_first) if network is self)
        wanted = normalised(model.samples[-1 - number].links, 180)
        assert torch.equal(adjacency.csr.to_dense(), wanted.csr.to_dense())
        used[number] += 1
        draws.append(forward(self, x, adjacency, generator))
        return draws[-1]

    monkeypatch.setattr(Gcn, "forward", spy)
    pred = model.predict(graph, samples=samples)
    assert [used[number] for number in range(3)] == uses
    assert (pred.samples, pred.method) == (samples, "block-bgcn")
    assert len({tuple(draw.flatten().tolist()) for draw in draws}) == samples
    assert_close(pred.mean, from_draws(draws, method="").mean)


def test_predictions_use_the_features_given_and_not_the_links(graph, fitted):
    plain = fitted.predict(graph, samples=6)
    unlinked = Data(x=graph.x, edge_index=torch.empty(2, 0, dtype=torch.long))
    assert torch.equal(fitted.predict(unlinked, samples=6).mean, plain.mean)
    other = Data(x=graph.x.roll(1, dims=0), edge_index=graph.edge_index)
    assert not torch.allclose(fitted.predict(other, samples=6).mean, plain.mean, atol=0.01)


def test_it_learns_and_says_how_sure_it_is(graph):
    pred = BlockBgcn.fit(graph, epochs=120, observed_epochs=80, kept=20).predict(graph)
    assert accuracy(pred.mean, graph) > 0.9
    assert_close(pred.mean.sum(dim=1), torch.ones(180))
    assert pred.total.min() >= 0
    assert pred.epistemic.mean() > 1e-4
    assert_close(pred.total, pred.epistemic)


def test_cora_with_five_labels_per_class_gains_on_the_plain_network():
    cora, share = load("cora"), torch.rand(2708, generator=generator(3))
    cora.train_mask = torch.zeros(2708, dtype=torch.bool)
    for k in range(7):
        cora.train_mask[share.where(cora.y == k, -1.0).topk(5).indices] = True
    cora.test_mask = ~cora.train_mask
    trainer = GcnTrainer(cora.x, cora.y, cora.train_mask, classes=7)
    observed = normalised(cora.edge_index, 2708)
    trainer.fit(observed, epochs=160)
    model = BlockBgcn.fit(cora, epochs=160, observed_epochs=80, kept=20)
    gain = accuracy(model.predict(cora, samples=20).mean, cora)
    gain -= accuracy(trainer.logits(observed), cora)
    assert gain > 0.01
    noisy = model.predict(add_noise(cora, percent=5), samples=20).mean
    assert accuracy(noisy, cora) > 0.3


def test_link_probabilities_weigh_the_observed_links(graph, monkeypatch):
    seen = []

    def spy(self, adjacency):
        seen.append(adjacency.csr.to_dense())
        return 0.0

    monkeypatch.setattr(GcnTrainer, "step", spy)
    weighed = copy.copy(graph)
    pair = graph.edge_index.sort(dim=0).values
    weighed.edge_prob = 0.1 + 0.8 * torch.frac(0.37 * pair[0] + 0.21 * pair[1])
    BlockBgcn.fit(weighed, **SHORT)
    wanted = normalised(graph.edge_index, 180, weighed.edge_prob).csr.to_dense()
    assert torch.equal(seen[0], wanted)
    assert not torch.allclose(wanted, normalised(graph.edge_index, 180).csr.to_dense())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"edge_index": None}, "no links edge_index"),
        ({"y": None}, "no y"),
        ({"train_mask": None}, "no train_mask"),
        ({"y": torch.zeros(5, dtype=torch.long)}, "y has shape"),
        ({"train_mask": torch.zeros(180, dtype=torch.bool)}, "no node to train on"),
        ({"x": torch.full((180, 8), torch.nan)}, "not finite"),
    ],
)
def test_graphs_that_lack_something_are_explained(graph, change, problem):
    lacking = copy.copy(graph)
    for name, value in change.items():
        lacking[name] = value
    with pytest.raises(GraphError, match=problem):
        BlockBgcn.fit(lacking, **SHORT)


@pytest.mark.parametrize(
    "options",
    [{"epochs": 18}, {"refit_every": 0}, {"kept": 0}, {"observed_epochs": -1}, {"across": 2.0}],
)
def test_options_that_make_no_sense_are_refused(graph, options):
    with pytest.raises(OptionError) as caught:
        BlockBgcn.fit(graph, **{**SHORT, **options})
    assert next(f"{name}={value}" for name, value in options.items()) in caught.value.problem


def test_features_of_another_shape_and_no_draws_are_refused(graph, fitted):
    with pytest.raises(GraphError, match=r"x has shape \(180, 3\)"):
        fitted.predict(Data(x=graph.x[:, :3], edge_index=graph.edge_index))
    with pytest.raises(OptionError, match="samples=0"):
        fitted.predict(graph, samples=0)
