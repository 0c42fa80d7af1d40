import pytest
import torch

from links.scorers import Neighbourly, random_graph
from varigraph.links.calibration import calibration
from varigraph.links.crossfit import judged
from varigraph.links.folds import divided
from varigraph.links.link_pairs import link_pairs, pair_numbers
from varigraph.links.methods import common_neighbours


@pytest.fixture
def fold():
    return divided(link_pairs(random_graph(50, 300), nodes=50), folds=3)[1]


def make(links, *, seed):
    return Neighbourly(links, nodes=50, seed=seed)


def ignore(done):
    """A progress bar that nobody watches."""


def test_the_model_is_given_what_it_may_see_and_nothing_else(fold):
    Neighbourly.made.clear()
    judged(fold, make, ignore)
    (scorer,) = Neighbourly.made
    assert torch.equal(scorer.links, fold.structure)
    assert torch.equal(scorer.pairs, fold.train.pairs)
    assert torch.equal(scorer.real, fold.train.real)
    assert torch.equal(scorer.held, fold.held.pairs)
    assert torch.equal(scorer.held_real, fold.held.real)
    assert scorer.seed == fold.seed
    seen = torch.cat([scorer.links, scorer.pairs, scorer.held], dim=1)
    assert not torch.isin(pair_numbers(fold.scored.pairs), pair_numbers(seen)).any()


def test_scores_are_calibrated_on_the_held_pairs_alone(fold):
    result = judged(fold, make, ignore)

    def logits(pairs):
        return common_neighbours(pairs, fold.structure, nodes=50).float() - 0.5

    curve = calibration(logits(fold.held.pairs), fold.held.real, seed=fold.seed)
    prob = curve(logits(fold.scored.pairs))
    assert torch.equal(result.links, prob[fold.scored.real])
    assert torch.equal(result.others, prob[~fold.scored.real])
    assert result.calibration == curve.name
