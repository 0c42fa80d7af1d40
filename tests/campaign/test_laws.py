"""Every law catches the mistake that it is there for: predictions that lie, each in one way."""

import itertools
import warnings
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import varigraph as vg
from campaign import laws, own_answers
from campaign.cases import Case
from campaign.choices import FromSeed
from campaign.trial import BrokenLawError, judged

LINKS = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
VAR = torch.tensor([[0.01], [0.0], [1.0], [1e-6]])


def scaled(pred, factor):
    """The same answer with all variances times a factor, a number for each of them."""
    parts = {name: part * factor for name, part in pred.by_source.items()}
    logits = vg.Gaussian(pred.logits.mean, pred.logits.var * factor)
    return replace(pred, by_source=parts, logits=logits)


def not_a_number(pred, model, data, options):
    return replace(pred, mean=pred.mean * float("nan"))


def below_zero(pred, model, data, options):
    return scaled(pred, -1)


def two_wholes(pred, model, data, options):
    return replace(pred, logits=vg.Gaussian(pred.logits.mean, 2 * pred.logits.var))


def too_probable(pred, model, data, options):
    return replace(pred, mean=2 * pred.mean)


def nothing_but_exact(pred, model, data, options):
    return replace(pred, approximate=())


def another_each_time(pred, model, data, options, count=itertools.count(1)):  # noqa: B008
    return scaled(pred, next(count))


def as_many_are_asked(pred, model, data, options):
    return scaled(pred, len(pred.mean))


def as_memory_allows(pred, model, data, options):
    return scaled(pred, 2 if "memory" in options else 1)


def as_listed(pred, model, data, options):
    return scaled(pred, 1 + float(data.edge_index[1, 0]))


def as_laid_out(pred, model, data, options):
    return scaled(pred, 1 if data.x.is_contiguous() else 2)


def of_the_first_node(pred, model, data, options):
    factor = torch.ones_like(pred.mean)
    factor[0] = 2
    return scaled(pred, factor)


def lost_beside_other_outputs(pred, model, data, options):
    seen = pred.total > 1e-3 * pred.total.amax(1, keepdim=True)
    return scaled(pred, seen.to(pred.mean))


def never_at_rest(pred, model, data, options):
    return replace(pred, by_source={k: part + 1e-6 for k, part in pred.by_source.items()})


def bent_without_end(pred, model, data, options):
    slight = 0 < float(data.x_var.max()) < 1e-9
    return replace(pred, mean=pred.mean + slight)


def too_large(pred, model, data, options):
    return scaled(pred, 5)


LIES = [
    (laws.finite, not_a_number),
    (laws.non_negative, below_zero),
    (laws.adds_up, two_wholes),
    (laws.probable, too_probable),
    (laws.names_what_is_approximate, nothing_but_exact),
    (laws.repeats, another_each_time),
    (laws.picks_rows, as_many_are_asked),
    (laws.ignores_memory, as_memory_allows),
    (laws.ignores_order_of_links, as_listed),
    (laws.ignores_layout, as_laid_out),
    (laws.follows_names, of_the_first_node),
    (laws.follows_units, lost_beside_other_outputs),
    (laws.rests_without_noise, never_at_rest),
    (laws.rests_near_no_noise, bent_without_end),
    (laws.agrees_with_draws_of_features, too_large),
    (laws.agrees_with_draws_of_all, too_large),
]


def honest(pred, model, data, options):
    return pred


def asked(lie=honest, *, task="regression", **options):
    """A case whose answer is told with a lie."""
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64).T  # its columns lie one after the other
    data = Data(x=x, edge_index=LINKS, x_var=VAR.double(), edge_prob=torch.full((8,), 0.7))
    norm = "LayerNorm" if options.pop("norm", False) else None
    model = GraphSAGE(3, 4, 2, 2, dropout=0.2, act="tanh", norm=norm).double()

    def told(model, data, **options):
        return lie(vg.predict(model, data, **options), model, data, options)

    options = {"method": "auto", "samples": 20, "seed": 0, "task": task, **options}
    options.setdefault("links", "bernoulli")
    return Case(model, data, options, told)


def case_of(law, lie=honest):
    """A case that the law has something to say about."""
    if law is laws.names_what_is_approximate:
        return asked(lie, norm=True, method="first-order")
    return asked(lie, task="classification" if law is laws.probable else "regression")


@pytest.mark.parametrize(("law", "lie"), LIES, ids=lambda function: function.__name__)
def test_each_law_catches_its_lie(law, lie):
    case = case_of(law, lie)
    with pytest.raises(AssertionError):
        law(case, case.answer())


@pytest.mark.parametrize("law", [law for law, _ in LIES], ids=lambda law: law.__name__)
def test_each_law_lets_the_truth_pass(law):
    case = case_of(law)
    assert law(case, case.answer())


def test_coins_of_messages_that_biases_send_leave_rounding_as_well():
    case = asked(method="covariance")
    silent = case.with_data(x=0 * case.data.x, x_var=0 * case.data.x_var)
    variance = float(silent.answer().by_source["links"].max())
    assert 0 < own_answers.cancelled(silent) < 1e-9 * variance
    assert own_answers.cancelled(silent.with_data(edge_prob=None)) == 0


def test_a_norm_makes_much_of_rounding_where_no_feature_gets_through():
    case = asked(norm=True)
    for part in (case.model.convs[0].lin_l, case.model.convs[0].lin_r):
        part.weight.data.zero_()  # every node is the same from here on
    own = own_answers.own_answer(case)
    assert 1e-12 < own_answers.moved_by_rounding(case, own) < 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_draws_leave_open_is_rounding(dtype):
    case = asked(method="sampled")
    plain = case.but(model=case.model.to(dtype)).with_data(
        x=case.data.x.to(dtype), x_var=case.data.x_var.to(dtype)
    )
    found = own_answers.shaken(plain, drawn=True)
    assert 0 < found.logits < 1e3 * torch.finfo(dtype).eps


def test_every_law_is_tested_by_a_lie():
    assert {law for law, _ in LIES} == {*laws.ALWAYS, *laws.SOMETIMES}


def changed_mode(model, data, **options):
    model.train(not model.training)
    return vg.predict(model, data, **options)


def changed_noise(model, data, **options):
    pred = vg.predict(model, data, **options)
    data.x_var.mul_(2)
    return pred


def drew(model, data, **options):
    torch.rand(1)
    return vg.predict(model, data, **options)


def left_a_hook(model, data, **options):
    model.convs[0].register_forward_hook(lambda *_: None)
    return vg.predict(model, data, **options)


def refused_and_touched(model, data, **options):
    model.convs[0].mark = True
    return vg.predict(model, data, **{**options, "samples": 1, "method": "sampled"})


@pytest.mark.parametrize(
    "predict", [changed_mode, changed_noise, drew, left_a_hook, refused_and_touched]
)
def test_what_is_touched_is_seen(predict):
    case = replace(asked(samples=1), predict=predict)
    with pytest.raises(BrokenLawError, match="untouched"):
        judged(case, FromSeed(0))


def crashed(model, data, **options):
    raise IndexError("tuple index out of range")


def warned(model, data, **options):
    warnings.warn("of some library", stacklevel=2)
    return vg.predict(model, data, **options)


def refused(model, data, **options):
    raise vg.errors.OptionError("I would rather not", "ask another")


@pytest.mark.parametrize("predict", [crashed, warned, refused])
def test_an_answer_is_no_crash_no_strange_warning_and_no_strange_refusal(predict):
    with pytest.raises(BrokenLawError, match="answers"):
        judged(replace(asked(), predict=predict), FromSeed(0))


def test_a_known_refusal_is_counted():
    verdict = judged(asked(samples=1, method="sampled"), FromSeed(0))
    assert verdict.refused == 1
    assert not verdict.failures
