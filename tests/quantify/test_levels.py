import torch

from varigraph.quantify import accuracy, cross_entropy, per_class_nll, score

MEAN, LABELS = torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1])


def test_scores_are_those_of_the_functions():
    aleatoric, epistemic = torch.full((2, 2), 0.02), torch.full((2, 2), 0.01)
    scores = score(MEAN, aleatoric, epistemic, LABELS)
    assert scores.accuracy == accuracy(MEAN, LABELS)
    assert scores.cross_entropy == cross_entropy(MEAN, LABELS)
    assert scores.per_class_nll == per_class_nll(MEAN, aleatoric + epistemic, LABELS)
    assert round(scores.total, 6) == round(scores.aleatoric + scores.epistemic, 6) == 0.03


def test_without_any_variance_there_is_no_nll():
    zero = torch.zeros(2, 2)
    assert score(MEAN, zero, zero, LABELS).per_class_nll is None
