import pytest
import torch

from links.scorers import Quick, random_graph, two_cliques
from varigraph.data import load
from varigraph.errors import GraphError, ModelError
from varigraph.links import hadamard
from varigraph.links.folds import divided
from varigraph.links.hadamard import LEARNING_RATE, Hadamard, HadamardNetwork
from varigraph.links.link_pairs import link_pairs, pair_numbers
from varigraph.links.methods import Messages, adamic_adar, common_neighbours
from varigraph.metrics import auroc


def ignore(done):
    """A progress bar that nobody watches."""


def fold_of(edges, nodes, *, contrast=1, seed=0):
    links = link_pairs(edges, nodes=nodes)
    return divided(links, folds=4, contrast=contrast, seed=seed)[0]


def fitted(fold, nodes, *, kind=Quick, report=ignore, **options):
    scorer = kind(fold.structure, nodes=nodes, **options)
    scorer.fit(fold.train.pairs, fold.train.real, fold.held.pairs, fold.held.real, report)
    return scorer


@pytest.fixture(scope="module")
def cliques():
    """A fold of two cliques, and a scorer that learnt from it."""
    fold = fold_of(two_cliques(14), 28)
    return fold, fitted(fold, 28)


def test_it_learns_who_belongs_together(cliques):
    fold, scorer = cliques
    assert auroc(scorer.logits(fold.scored.pairs), fold.scored.real) > 0.99


def test_features_are_learnt_from_where_structure_says_nothing():
    """Links between nodes of one kind, at random: only x knows the kinds."""
    nodes, generator = 200, torch.Generator().manual_seed(0)
    kind = torch.randint(2, (nodes,), generator=generator)
    edges = random_graph(nodes, 3000)
    edges = edges[:, kind[edges[0]] == kind[edges[1]]]
    x = kind[:, None] + 0.1 * torch.randn(nodes, 3, generator=generator)
    fold = fold_of(edges, nodes)
    score = fitted(fold, nodes, x=x).logits(fold.scored.pairs)
    assert auroc(score, fold.scored.real) > 0.7  # 0.75 at best: half of the non-links are of a kind


def test_a_tenth_of_cora_is_predicted_better_than_by_common_neighbours():
    cora = load("cora")
    links = link_pairs(cora.edge_index, nodes=cora.num_nodes)
    fold = divided(links, folds=10, contrast=5)[0]
    scorer = fitted(fold, cora.num_nodes, kind=Hadamard, x=cora.x)
    pairs, real = fold.scored.pairs, fold.scored.real
    floors = (common_neighbours, adamic_adar)
    best = max(auroc(floor(pairs, fold.structure, nodes=cora.num_nodes), real) for floor in floors)
    assert 0.6 < best < 0.8
    assert auroc(scorer.logits(pairs), real) > 0.92


def test_log_odds_are_plain_numbers_the_same_for_both_orders_of_the_ends(cliques):
    fold, scorer = cliques
    logits = scorer.logits(fold.scored.pairs)
    assert logits.shape == fold.scored.real.shape
    assert logits.dtype == torch.float32
    assert not logits.requires_grad
    torch.testing.assert_close(scorer.logits(fold.scored.pairs.flip(0)), logits)


def test_a_score_does_not_depend_on_what_else_is_asked(cliques):
    fold, scorer = cliques
    together = scorer.logits(fold.scored.pairs)
    alone = torch.cat([scorer.logits(fold.scored.pairs[:, [i]]) for i in range(10)])
    torch.testing.assert_close(together[:10], alone)


@pytest.mark.parametrize("turned", [False, True])
def test_a_pair_whose_link_is_seen_is_refused(cliques, turned):
    fold, scorer = cliques
    pair = fold.structure[:, [5]]
    asked = torch.cat([fold.scored.pairs, pair.flip(0) if turned else pair], dim=1)
    with pytest.raises(GraphError) as caught:
        scorer.logits(asked)
    assert f"({asked[0, -1]}, {asked[1, -1]})" in caught.value.problem


def test_links_are_silent_while_they_are_learnt_from(monkeypatch):
    """In every step, all links but those of the step are heard; in the end each had its turn."""
    fold = fold_of(random_graph(60, 300), 60)
    silenced, taught = [], []
    without, judged = Messages.without, HadamardNetwork.judged

    def spy_without(self, silent):
        silenced.append(set(pair_numbers(fold.structure[:, silent]).tolist()))
        return without(self, silent)

    def spy_judged(network, h, pairs):
        if network.training:
            taught.append(set(pair_numbers(pairs).tolist()))
        return judged(network, h, pairs)

    monkeypatch.setattr(Messages, "without", spy_without)
    monkeypatch.setattr(HadamardNetwork, "judged", spy_judged)
    fitted(fold, 60)
    linked = set(pair_numbers(fold.structure).tolist())
    assert len(silenced) == len(taught) == 100
    for silent, pairs in zip(silenced, taught, strict=True):
        assert silent == pairs & linked
        assert 0 < len(silent) < len(linked) / 5
        assert len(pairs - linked) > 0
    assert set().union(*silenced[:10]) == linked
    assert sum(map(len, silenced[:10])) == len(linked)


def test_the_weights_that_judge_the_held_pairs_best_are_kept(monkeypatch):
    fold = fold_of(random_graph(60, 300), 60)  # nothing to learn, so the loss soon rises
    losses = []
    judged = HadamardNetwork.judged

    def spy(network, h, pairs):
        logits = judged(network, h, pairs)
        if not network.training:
            truth = torch.where(fold.held.real, 1.0, -1.0)
            losses.append(float(torch.nn.functional.softplus(-truth * logits).mean()))
        return logits

    monkeypatch.setattr(HadamardNetwork, "judged", spy)
    scorer = fitted(fold, 60)
    scorer.logits(fold.held.pairs)
    *during, after = losses
    assert len(during) == 10
    assert after == pytest.approx(min(during), abs=1e-6)
    assert after < during[-1]


def test_the_seed_decides_and_torch_s_own_generator_is_left_alone():
    fold = fold_of(random_graph(60, 300), 60)
    state = torch.get_rng_state()
    one, again, other = (
        fitted(fold, 60, seed=seed).logits(fold.scored.pairs) for seed in (3, 3, 4)
    )
    assert torch.equal(one, again)
    assert not torch.allclose(one, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_progress_rises_to_the_end():
    reports = []
    fitted(fold_of(two_cliques(8), 16), 16, report=reports.append)
    assert reports == sorted(reports)
    assert reports[-1] == 1
    assert len(reports) == 10


def test_nothing_learnt_nothing_said():
    with pytest.raises(ModelError, match="has not learnt anything"):
        Hadamard(torch.tensor([[0], [1]]), nodes=3).logits(torch.tensor([[0], [2]]))


def test_a_loss_that_is_no_number_is_explained(monkeypatch):
    monkeypatch.setattr(hadamard, "LEARNING_RATE", 1e38)
    with pytest.raises(ModelError) as caught:
        fitted(fold_of(random_graph(60, 300), 60), 60)
    assert "common scale" in caught.value.remedy


def test_the_learning_rate_rises_and_falls(monkeypatch):
    """During the first tenth of 100 steps it rises to nearly all, then it falls to nothing."""
    rates, step = [], torch.optim.Adam.step

    def noted(self, closure=None):
        rates.append(self.param_groups[0]["lr"] / LEARNING_RATE)
        return step(self, closure)

    monkeypatch.setattr(torch.optim.Adam, "step", noted)
    fitted(fold_of(two_cliques(8), 16), 16)
    assert len(rates) == 100
    top = rates.index(max(rates))
    assert top in (9, 10)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert 0.9 < rates[top] <= 1
    assert 0 < rates[-1] < 1e-3
    assert rates[0] == pytest.approx(0.099, abs=1e-3)
