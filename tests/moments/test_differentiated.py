"""Functions without a rule, row by row: moments and responses by torch's own Jacobians."""

import pytest
import torch
from torch import nn
from torch.autograd.functional import jacobian
from torch.nn import functional as F

from varigraph.errors import MissingRuleError
from varigraph.moments import Gaussian, Propagation, propagating
from varigraph.moments import differentiated as module
from varigraph.moments.differentiated import differentiated, differentiated_layer, rowwise
from varigraph.moments.tape import Tape
from varigraph.testing.laws import _along

ROWS = 7


def value(features, seed=0):
    random = torch.Generator().manual_seed(seed)
    mean = torch.randn(ROWS, features, generator=random).double()
    return Gaussian(mean, torch.rand(ROWS, features, generator=random).double())


RANDOM = torch.Generator().manual_seed(9)
WEIGHT = torch.randn(3, 4, 5, generator=RANDOM).double()
PER_ROW = torch.randn(ROWS, 4, generator=RANDOM).double()
EQUAL = PER_ROW[:, :1] * torch.arange(1.0, 5.0).double()

#: Function, widths of its uncertain arguments, and whether it is affine.
FUNCTIONS = {
    "glu": (F.glu, (4,), False),
    "logsumexp": (lambda x: torch.logsumexp(x, -1, keepdim=True), (4,), False),
    "log": (lambda x: torch.log(x.square() + 1), (4,), False),
    "erf": (torch.erf, (4,), False),
    "softmax in the middle": (lambda x: torch.softmax(x, -1) * 2, (4,), False),
    "a norm": (lambda x: x / torch.linalg.vector_norm(x, dim=-1, keepdim=True), (4,), False),
    "quotient": (lambda x, y: x / (y.square() + 1), (4, 4), False),
    "bilinear": (lambda x, y: F.bilinear(x, y, WEIGHT), (4, 5), False),
    "einsum": (lambda x: torch.einsum("ni,oij->noj", x, WEIGHT).flatten(1), (4,), True),
    "weights of rows": (lambda x: x * PER_ROW, (4,), True),
    "sorted": (lambda x: x.sort(1).values, (4,), False),
    "cumulated": (lambda x: x.cumsum(1), (4,), True),
    "group norm": (lambda x: F.group_norm(x, 2), (4,), False),
    "one twice": (lambda x: torch.addcmul(x, x, x), (4,), False),
}
each = pytest.mark.parametrize("name", FUNCTIONS)


def full_jacobians(function, values):
    """[rows, outputs, rows, features] for each argument, by torch."""
    return jacobian(function, tuple(each.mean for each in values))


@each
def test_moments_are_those_of_the_full_jacobian(name):
    function, widths, _ = FUNCTIONS[name]
    values = [value(width, seed) for seed, width in enumerate(widths)]
    got = differentiated(function, *values)
    assert torch.equal(got.mean, function(*(each.mean for each in values)))
    parts = zip(full_jacobians(function, values), values, strict=True)
    want = sum(torch.einsum("uovi,vi->uo", j.square(), each.var) for j, each in parts)
    assert torch.allclose(got.var, want)


@each
def test_responses_are_those_of_the_full_jacobian(name):
    function, widths, affine = FUNCTIONS[name]
    values, tape = [value(width, seed) for seed, width in enumerate(widths)], Tape()
    for given in values:
        tape.record(given)
    with propagating(Propagation(tape=tape)) as propagation:
        got = differentiated(function, *values)
    assert bool(propagation.approximate) != affine
    for matrix, given in zip(full_jacobians(function, values), values, strict=True):
        direction = value(given.mean.shape[1], 5).mean
        want = torch.einsum("uovi,vi->uo", matrix, direction)
        assert torch.allclose(_along(tape, given, got, direction), want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_of_pairs_have_the_shape_that_the_function_gives(dtype):
    x, y = (Gaussian(v.mean.to(dtype), v.var.to(dtype)) for v in (value(4), value(4, 1)))
    got = differentiated(F.cosine_similarity, x, y, dim=1)
    assert torch.equal(got.mean, F.cosine_similarity(x.mean, y.mean))
    assert got.var.shape == (ROWS,)
    in_rows, shape = rowwise(F.cosine_similarity, [x, y], "cosine_similarity")
    assert (in_rows.mean.shape, shape) == ((ROWS, 1), (ROWS,))


def test_values_in_lists_and_options():
    x, y = value(4), value(2, 1)
    got = differentiated(torch.hstack, [x, y])
    assert torch.equal(got.var, torch.cat([x.var, y.var], 1))
    got = differentiated(torch.einsum, "ni,oi->no", x, other := torch.ones(3, 4).double())
    assert torch.allclose(got.var, x.var @ other.square().T)


def test_layers_that_act_row_by_row():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        bilinear, cell = nn.Bilinear(4, 5, 2).double(), nn.GRUCell(4, 5).double()
    x, y = value(4), value(5, 1)
    with torch.no_grad():
        for layer in (bilinear, cell):
            got = differentiated_layer(layer, x, y)
            parts = zip(full_jacobians(layer, [x, y]), (x, y), strict=True)
            want = sum(torch.einsum("uovi,vi->uo", j.square(), each.var) for j, each in parts)
            assert torch.allclose(got.var, want)


def test_what_does_not_depend_on_the_values_is_returned_as_it_is():
    got = differentiated(torch.zeros_like, value(4))
    assert torch.equal(got, torch.zeros(ROWS, 4).double())


def first_row_everywhere(x):
    return x[:1].expand_as(x).clone()


def last_two_changed(x):
    return torch.cat([x[:-2], x[-2:].flip(0)])


def partly_detached(x):
    return x * x.detach()


def drawn(x):
    return x * torch.rand(4).double()


def changed(x):
    return x.mul_(2)


#: What must be refused, and why.
REFUSED = {
    "mean over rows": (lambda x: x - x.mean(0), "mixes rows"),
    "softmax over rows": (lambda x: x.softmax(0), "mixes rows"),
    "one row for all": (first_row_everywhere, "mixes rows"),
    "two rows exchanged": (last_two_changed, "mixes rows"),
    "shifted by one": (lambda x: x.roll(1, 0), "mixes rows"),
    "sorted rows": (lambda x: x.sort(0).values, "mixes rows"),
    "turned": (lambda x: torch.cat([x, x], 1)[:, :ROWS].T, "mixes rows"),
    "fewer rows": (lambda x: x[:3], "rows"),
    "one number": (torch.sum, "rows"),
    "comparison": (lambda x: x > 0, "real numbers"),
    "largest place": (lambda x: x.argmax(1), "real numbers"),
    "several results": (lambda x: x.sort(1), "real numbers"),
    "comparison as numbers": (lambda x: (x > 0).double(), "no derivatives"),
    "rounded": (torch.round, "slopes|no derivatives"),
    "sign": (torch.sign, "slopes|no derivatives"),
    "detached": (lambda x: x.detach() * 2, "no derivatives"),
    "partly detached": (partly_detached, "not its slopes"),
    "random": (drawn, "draws random numbers"),
    "changes": (changed, "in place"),
    "in place": (torch.Tensor.mul_, "in place"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_a_smooth_function_of_rows_is_refused(name):
    function, why = REFUSED[name]
    args = (2.0,) if function is torch.Tensor.mul_ else ()
    x = value(4)
    before = x.mean.clone()
    with pytest.raises(MissingRuleError, match=why):
        differentiated(function, x, *args)
    assert torch.equal(x.mean, before)


@pytest.mark.parametrize("options", [{"inplace": True}, {"out": torch.empty(ROWS, 4)}])
def test_options_that_write_elsewhere_are_refused(options):
    with pytest.raises(MissingRuleError, match="in place"):
        differentiated(lambda x, **_: x.exp(), value(4), **options)


def test_other_shapes_are_refused():
    with pytest.raises(MissingRuleError, match="rows of features"):
        differentiated(torch.erf, Gaussian(torch.zeros(3), torch.ones(3)))
    with pytest.raises(MissingRuleError, match="of the same number"):
        differentiated(torch.cdist, value(4), Gaussian(torch.zeros(3, 4), torch.ones(3, 4)))


def test_derivatives_that_are_too_many_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST", ROWS * 4 * 4 - 1)
    with pytest.raises(MissingRuleError, match=f"{ROWS * 16} numbers"):
        differentiated(lambda x: x.softmax(1), value(4))


def test_weights_are_not_learned_through_it():
    weight = torch.ones(4, dtype=torch.float64, requires_grad=True)
    with pytest.raises(MissingRuleError, match="learned"):
        differentiated(lambda x: x.softmax(1) * weight, value(4))
    with torch.no_grad():
        differentiated(lambda x: x.softmax(1) * weight, value(4))


def test_the_state_of_the_generator_is_not_touched():
    before = torch.get_rng_state()
    differentiated(torch.erf, value(4))
    assert torch.equal(torch.get_rng_state(), before)
