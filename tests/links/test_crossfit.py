import copy

import pytest
import torch

from links.scorers import Neighbourly, Quick, random_graph
from varigraph.links.calibration import calibration
from varigraph.links.crossfit import FoldFiles, crossfit, judged
from varigraph.links.folds import divided
from varigraph.links.link_pairs import link_pairs, numbered_pairs, pair_numbers
from varigraph.links.methods import Messages

NODES = 50


def make(links, *, seed):
    return Neighbourly(links, nodes=NODES, seed=seed)


def folds_of(edges, *, folds=4, seed=0):
    return divided(link_pairs(edges, nodes=NODES), folds=folds, seed=seed)


def ignore(done):
    """A progress bar that nobody watches."""


def test_every_pair_is_judged_by_the_model_of_its_fold():
    folds = folds_of(random_graph(NODES, 301))
    result = crossfit(folds, make)
    for number in range(4):
        alone = judged(folds[number], make, ignore)
        assert torch.equal(result.links[folds.fold_of_link == number], alone.links)
        assert torch.equal(result.others[folds.fold_of_other == number], alone.others)
        assert result.calibration[number] == alone.calibration
    assert result.links.shape == result.others.shape == (301,)


def test_no_model_is_asked_about_a_pair_it_was_given():
    Neighbourly.made.clear()
    crossfit(folds_of(random_graph(NODES, 300)), make)
    assert len(Neighbourly.made) == 4
    for scorer in Neighbourly.made:
        held, scored = (pair_numbers(pairs) for pairs in scorer.asked)
        assert torch.equal(held, pair_numbers(scorer.held))
        given = torch.cat([scorer.links, scorer.pairs, scorer.held], dim=1)
        assert not torch.isin(scored, pair_numbers(given)).any()


class Toggled:
    """A fitted scorer of one fold, asked again on graphs with other links."""

    def __init__(self, edges):
        self.numbers = pair_numbers(link_pairs(edges, nodes=NODES).pairs)
        self.fold = fold = folds_of(edges)[2]
        self.scorer = Quick(fold.structure, nodes=NODES, seed=fold.seed)
        self.scorer.fit(fold.train.pairs, fold.train.real, fold.held.pairs, fold.held.real, ignore)
        held = self.scorer.logits(fold.held.pairs)
        self.calibrate = calibration(held, fold.held.real)

    def prob(self, pair, links):  # [2, 1], numbers of the links that the graph now has
        kept_away = pair_numbers(torch.cat([self.fold.scored.pairs, self.fold.held.pairs], dim=1))
        seen = numbered_pairs(links[~torch.isin(links, kept_away)])
        twin = copy.copy(self.scorer)
        twin._links, twin._messages = pair_numbers(seen), Messages(seen, nodes=NODES)
        return float(self.calibrate(twin.logits(pair)))


def test_toggling_a_link_never_changes_its_own_score():
    edges = random_graph(NODES, 600)
    halves = edges // (NODES // 2)
    graph = Toggled(edges[:, halves[0] == halves[1]])  # something to learn, or scores are all alike
    scored, others = graph.fold.scored, 0
    for number in pair_numbers(scored.pairs).tolist():
        pair = numbered_pairs(torch.tensor([number]))
        rest = graph.numbers[graph.numbers != number]
        without = graph.prob(pair, rest)
        assert graph.prob(pair, torch.cat([rest, torch.tensor([number])])) == without
        # The test would notice: a link that may be seen does change the scores around it.
        near = (graph.fold.structure == pair[0]).any(dim=0)
        if near.any():
            other = pair_numbers(graph.fold.structure[:, near])[0]
            others += graph.prob(pair, rest[rest != other]) != without
    assert others > len(scored.real) / 2


def test_progress_rises_from_nothing_to_all():
    reports = []
    crossfit(folds_of(random_graph(NODES, 300)), make, progress=lambda *news: reports.append(news))
    done = [share for share, _ in reports]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 1)
    assert {what for _, what in reports} == {f"fold {number} of 4" for number in (1, 2, 3, 4)}


@pytest.fixture
def files(tmp_path):
    return FoldFiles(tmp_path, {"seed": 0})


def test_finished_folds_are_not_repeated(files):
    folds = folds_of(random_graph(NODES, 300))
    first = crossfit(folds, make, files=files)
    Neighbourly.made.clear()
    reports = []
    second = crossfit(folds, make, files=files, progress=lambda *news: reports.append(news))
    assert Neighbourly.made == []
    assert torch.equal(first.links, second.links)
    assert torch.equal(first.others, second.others)
    assert first.calibration == second.calibration
    assert reports[-1][0] == 1


@pytest.mark.parametrize("when", ["fit", "logits"])
@pytest.mark.parametrize("reason", [KeyboardInterrupt, MemoryError])
def test_what_was_finished_before_a_crash_is_kept(files, when, reason, monkeypatch):
    folds = folds_of(random_graph(NODES, 300))
    whole = crossfit(folds, make)
    real = getattr(Neighbourly, when)

    def dies_in_the_third_fold(self, *args):
        if len(Neighbourly.made) == 3:
            raise reason
        return real(self, *args)

    Neighbourly.made.clear()
    with monkeypatch.context() as patch:
        patch.setattr(Neighbourly, when, dies_in_the_third_fold)
        with pytest.raises(reason):
            crossfit(folds, make, files=files)
    Neighbourly.made.clear()
    resumed = crossfit(folds, make, files=files)
    assert [scorer.seed for scorer in Neighbourly.made] == [folds[2].seed, folds[3].seed]
    assert torch.equal(resumed.links, whole.links)
    assert torch.equal(resumed.others, whole.others)
    assert resumed.calibration == whole.calibration
