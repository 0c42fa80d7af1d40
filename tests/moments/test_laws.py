"""Every rule, five laws, both precisions."""

import pytest
import torch
from torch_geometric import nn as gnn

from moments.cases import CASES, ROUGH, features
from varigraph.moments import Gaussian, Propagation, propagating
from varigraph.moments.registry import FUNCTIONS, LAYERS
from varigraph.moments.tape import Tape
from varigraph.testing import apply, check_rule
from varigraph.testing.laws import _along, _apply, plain


@pytest.mark.parametrize("case", [c for c in CASES if c.tolerance], ids=lambda c: c.rule)
def test_rule_obeys_the_laws(case):
    check_rule(
        case.target,
        *case.args,
        x=case.x,
        oracle=case.oracle,
        linear=case.linear,
        tolerance=case.tolerance,
        **case.kwargs,
    )


@pytest.mark.parametrize("case", ROUGH, ids=lambda c: c.rule)
def test_approximate_rule_obeys_the_laws_and_is_off_by_what_was_measured(case):
    """On six nodes with noise as large as the signal, variances are off by 0.1 to 1.5 of the truth.

    docs/rules.md has these figures; test_approximate.py has those of Cora.
    """
    found = check_rule(
        case.target, *case.args, x=case.x, oracle=case.oracle, tolerance=1.05 * case.off
    )
    assert found == pytest.approx(case.off, rel=0.05)


def test_every_rule_has_a_case():
    covered = {case.rule for case in CASES}
    rules = {*FUNCTIONS.values(), *LAYERS.values()}
    moves_alike = {r for r in rules if r.apply.__name__ == "move"}  # one rule for all of these
    missing = {r.names for r in rules - moves_alike if not covered & set(r.names)}
    assert missing == {("log_softmax",), ("softmax",)}  # kept for the end: test_softmax.py


def widened(values):
    """A function of the means whose derivatives the rules of norms are to have on record."""
    noise = features().var
    norm = layer_with_weights()
    spread = values.var(-1, keepdim=True, correction=0) + 0.75 * noise.mean(-1, keepdim=True)
    centred = values - values.mean(-1, keepdim=True)
    return norm.weight * centred / (spread + norm.eps).sqrt() + norm.bias


def layer_with_weights():
    norm = torch.nn.LayerNorm(4).double().requires_grad_(False)
    norm.weight.copy_(torch.tensor([0.5, 1.0, 1.5, 2.0]))
    norm.bias.copy_(torch.tensor([1.0, 0.0, -1.0, 0.5]))
    return norm


def lengthened(values):
    return values / (values.square() + features().var).sum(1, keepdim=True).sqrt()


@pytest.mark.parametrize(
    ("norm", "of_means"),
    [(layer_with_weights(), widened), (torch.nn.functional.normalize, lengthened)],
)
def test_norms_have_the_jacobian_of_their_mean(norm, of_means):
    """At the expected spread; responses along a direction as well as variances."""
    x, tape = features(), Tape()
    tape.record(x)
    with propagating(Propagation(tape=tape)):
        got = _apply(norm, x)
    matrix = torch.autograd.functional.jacobian(of_means, x.mean)
    assert torch.allclose(got.mean, of_means(x.mean))
    assert torch.allclose(got.var, torch.einsum("uovi,vi->uo", matrix.square(), x.var))
    direction = torch.sin(torch.arange(24.0).double()).view(6, 4)
    want = torch.einsum("uovi,vi->uo", matrix, direction)
    assert torch.allclose(_along(tape, x, got, direction), want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_one_feature_a_norm_leaves_nothing(dtype):
    generator = torch.Generator().manual_seed(0)
    x = Gaussian(*torch.rand(2, 100, 1, generator=generator, dtype=dtype))
    assert not apply(torch.nn.LayerNorm(1).to(dtype), x).var.any()


def test_what_a_norm_leaves_of_two_features_is_no_rounding():
    """Some hundred-thousandths of what comes in, in single precision."""
    generator = torch.Generator().manual_seed(0)
    mean, var = torch.randn(100, 2, generator=generator), torch.tensor(1e-9).expand(100, 2)
    norm = torch.nn.LayerNorm(2, elementwise_affine=False).requires_grad_(False)
    matrix = torch.func.vmap(torch.func.jacrev(norm))(mean.double())
    want = (matrix.square() * var[:, None]).sum(-1)
    got = apply(norm, Gaussian(mean, var)).var.double()
    assert torch.allclose(got, want, rtol=0.1, atol=0)


@pytest.mark.parametrize(
    "norm",
    [
        gnn.GraphNorm(4),
        gnn.LayerNorm(4),
        gnn.LayerNorm(4, mode="node"),
        gnn.PairNorm(),
        gnn.PairNorm(2.0, scale_individually=True),
    ],
)
@pytest.mark.parametrize("batch", [None, torch.tensor([0, 0, 0, 1, 1, 1])])
def test_graph_norms_follow_the_batch(norm, batch):
    x = Gaussian.certain(features().mean)
    got = apply(norm, x, batch)
    assert torch.allclose(got.mean, plain(norm, x.mean, batch), atol=1e-6)
