import pytest
import torch
from torch.testing import assert_close

from varigraph.baselines.plain import from_draws
from varigraph.errors import OptionError


def test_mean_and_variance_are_those_of_the_draws():
    draws = 3 * torch.randn(7, 5, 4, generator=torch.Generator().manual_seed(0)).double()
    pred = from_draws(iter(draws), method="ensemble")
    classes = draws.softmax(-1)
    assert_close(pred.mean, classes.mean(0))
    assert_close(pred.total, classes.var(0, correction=0))
    assert_close(pred.epistemic, pred.total)
    assert_close(pred.logits.var, draws.var(0, correction=0))
    assert_close(pred.logits.mean, draws.mean(0))
    assert (pred.method, pred.samples) == ("ensemble", 7)


def test_a_single_draw_has_no_variance():
    pred = from_draws([torch.zeros(2, 3)], method="plain")
    assert_close(pred.mean, torch.full((2, 3), 1 / 3))
    assert not pred.total.any()
    assert pred.mean.dtype == torch.float32


def test_no_draw_is_refused():
    with pytest.raises(OptionError, match="no draws"):
        from_draws([], method="plain")
