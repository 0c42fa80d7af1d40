"""Laws: what is true of every answer, whatever the network and the graph.

Each takes a case and its answer, raises AssertionError where it is broken, and says whether it had
anything to say about the case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import varigraph as vg
from campaign.agreement import (
    assert_alike,
    assert_same_answer,
    assert_within_factor,
    cancelling,
    digits,
    figures,
    is_sampled,
    rounding,
    steadiness,
    unseen,
    variances,
)
from campaign.cases import CLOSED_FORMS, Case
from campaign.networks import (
    comes_back,
    dropout_of,
    is_approximate,
    is_linear,
)
from campaign.own_answers import (
    at_draws,
    cancelled,
    moved_by_rounding,
    own_answer,
    shaken,
    variance_of,
)
from varigraph import Prediction

Law = Callable[[Case, Prediction], bool]
SMALL_NOISE = 1e-6
DRAWS = 300


def finite(_: Case, pred: Prediction) -> bool:
    """NaN and infinity are never an answer."""
    for name, values in figures(pred).items():
        assert bool(values.isfinite().all()), f"{name} is not finite: {values}"
    return True


def non_negative(_: Case, pred: Prediction) -> bool:
    """A variance has a root. Shares of a sampled answer are unbiased, and may be below zero."""
    whole = {"total": pred.total, "logits.var": pred.logits.var}
    if not is_sampled(pred):
        whole |= {name: part for name, part in pred.by_source.items() if name != "interactions"}
    for name, values in whole.items():
        assert bool((values >= 0).all()), f"{name} is negative: {values.min()}"
    return True


def adds_up(case: Case, pred: Prediction) -> bool:
    """The parts sum to the variance of the logits, which in regression are the answer."""
    for name, values in figures(pred).items():
        assert values.shape == pred.mean.shape, f"{name} has shape {tuple(values.shape)}"
    if not case.is_regression:
        return False
    size = sum(part.abs() for part in pred.by_source.values())
    assert_alike(pred.logits.mean, pred.mean, "logits.mean", relative=1e-5, floor=0)
    assert_alike(pred.total, pred.logits.var, "total", 1e-4, 1e-4 * size + rounding(pred))
    return True


def probable(case: Case, pred: Prediction) -> bool:
    """Class probabilities lie in [0, 1], add up to 1, and vary by at most m (1 - m)."""
    if case.is_regression:
        return False
    mean, slack = pred.mean, 1e-4
    assert bool(((mean >= -slack) & (mean <= 1 + slack)).all()), f"probabilities {mean}"
    assert_alike(mean.sum(-1), torch.ones_like(mean[:, 0]), "sum of probabilities", 0, slack)
    if not is_sampled(pred):  # an unbiased variance of few draws may be beyond
        most = (mean * (1 - mean)).clamp_min(0) * (1 + 1e-2) + slack
        assert bool((pred.total <= most).all()), f"total {pred.total} beyond m (1 - m) = {most}"
    return True


def repeats(case: Case, pred: Prediction) -> bool:
    """The same seed gives the same bits, or digits on a GPU, which adds in no fixed order."""
    again = case.answer()
    if pred.mean.is_cuda:
        _assert_same(case, again, pred)
        return True
    for name, values in figures(pred).items():
        assert torch.equal(values, figures(again)[name]), f"{name} differs the second time"
    return True


def picks_rows(case: Case, pred: Prediction) -> bool:
    """What is said about a node does not depend on which others are asked about."""
    nodes = case.options.get("nodes")
    if nodes is None:
        index = torch.arange(len(case.data.x)).flip(0)[::2]
        index = torch.cat([index, index[:1]])  # one of them twice
        _assert_same(case, case.but(nodes=index).answer(), pred, index)
    else:
        index = torch.as_tensor(nodes)
        index = index.nonzero().flatten() if index.dtype == torch.bool else index
        _assert_same(case, pred, case.but(nodes=None).answer(), index)
    return True


def ignores_memory(case: Case, pred: Prediction) -> bool:
    """Memory decides about the order of work, not about the answer."""
    try:
        bounded = case.but(memory="48MiB" if "memory" not in case.options else "1GiB").answer()
    except vg.errors.TooLargeError:
        return False
    if bounded.method != pred.method:
        return False
    _assert_same(case, bounded, pred)
    return True


def ignores_order_of_links(case: Case, pred: Prediction) -> bool:
    """Links are found by their ends: the order in which they are listed says nothing."""
    links = case.data.edge_index
    if links is None or links.shape[1] < 2:
        return False
    order = torch.arange(links.shape[1], device=links.device).flip(0)
    prob = case.data.edge_prob[order] if "edge_prob" in case.data else None
    reordered = case.with_data(edge_index=links[:, order], edge_prob=prob)
    _assert_same(case, reordered.answer(), pred)
    return True


def ignores_layout(case: Case, pred: Prediction) -> bool:
    """How numbers lie in memory says nothing, nor does the form in which one noise is given."""
    x, var = case.data.x, variance_of(case)
    plain = case.with_data(x=x.clone(memory_format=torch.contiguous_format), x_var=var)
    _assert_same(case, plain.answer(), pred)
    return True


def follows_names(case: Case, pred: Prediction) -> bool:
    """Numbering the nodes anew numbers the answer anew. Draws would be others."""
    data = case.data
    if _draws(case, pred) or data.edge_index is None or "nodes" in case.options:
        return False
    new = torch.arange(len(data.x), device=data.x.device).flip(0)
    old = new.argsort()
    renamed = case.with_data(
        x=data.x[old], edge_index=new[data.edge_index], x_var=variance_of(case)[old]
    )
    _assert_same(case, renamed.answer(), pred, old)
    return True


def follows_units(case: Case, pred: Prediction) -> bool:
    """An output in units 1e6 times as large has a variance 1e-12 times as large, others theirs."""
    if not case.is_regression:
        return False
    units = torch.ones_like(pred.mean[0])
    units[-1] = 1e-6
    scaled = case.but(model=_InUnits(case.model, units)).answer()
    if scaled.method.partition(":")[0] != pred.method.partition(":")[0]:
        return False
    floor = 1e-5 * pred.total + cancelling(pred)
    floor = floor + (rounding(pred) if is_sampled(pred) else unseen(pred))
    least = torch.finfo(pred.mean.dtype).tiny ** 0.5  # below it products lose their digits
    floor, found = floor * units.square() + least, variances(scaled)
    for name, values in variances(pred).items():
        assert_alike(found[name], values * units.square(), name, steadiness(pred), floor)
    return True


def rests_without_noise(case: Case, _: Prediction) -> bool:
    """Where nothing is uncertain there is no variance, and the mean is the network's own answer."""
    certain = _features_alone(case, 0 * variance_of(case))
    pred, own = certain.answer(), own_answer(case)
    size = float(own.abs().max()) + 1e-3
    assert float(pred.total.max()) <= 1e-12 * size**2, f"variance {pred.total.max()} of nothing"
    floor = digits(own) * size + moved_by_rounding(case, own)
    assert_alike(pred.mean, own, "mean", relative=0, floor=floor)
    return True


def rests_near_no_noise(case: Case, _: Prediction) -> bool:
    """Next to no noise is next to none: no curvature is infinite, no norm falls over."""
    if is_approximate(case.model):  # a norm of constants makes much of little
        return False
    quiet = _features_alone(case, torch.where(variance_of(case) > 0, 1e-20, 0.0))
    pred, own = quiet.answer(), own_answer(case)
    size = float(own.abs().max()) + 1e-3
    finite(case, pred)
    assert float(pred.total.max()) <= 1e-12 * size**2, f"variance {pred.total.max()} of 1e-20"
    assert_alike(pred.mean, own, "mean", relative=0, floor=max(digits(own), 1e-6) * size)
    return True


def names_what_is_approximate(case: Case, pred: Prediction) -> bool:
    """An answer by rules that are only approximate says so, and no other does."""
    expected = is_approximate(case.model) and not is_sampled(pred)
    assert bool(pred.approximate) == expected, f"approximate: {pred.approximate}"
    assert all(name in pred.method for name in pred.approximate), pred.method
    return expected


def agrees_with_draws_of_features(case: Case, _: Prediction) -> bool:
    """For small noise first-order is right, and sampling always: each number within a factor."""
    var = torch.where(variance_of(case) > 0, SMALL_NOISE, 0.0).to(case.data.x)
    if not _answers_truly(case) or not bool((var > 0).any()):
        return False
    alone = _features_alone(case, var)
    _or_with_more_draws(lambda draws: _agrees_number_by_number(alone.but(samples=draws), draws))
    return True


def _agrees_number_by_number(case: Case, draws: int) -> None:
    pred = case.answer()
    drawn = at_draws(case, var=case.data.x_var, coins=False, masks=False, draws=draws)
    true, mean = drawn.var(0), drawn.mean(0)
    seen = true > (100 * torch.finfo(true.dtype).eps * mean.abs().amax(0)).square()
    seen &= ~_by_few_draws(drawn)
    if is_approximate(case.model):  # refined by sampling only where it is far off in sum
        if true[seen].sum() > true.sum() / 2:
            assert_within_factor(pred.total.sum(), true.sum(), "variance due to features")
    else:
        assert_within_factor(pred.total[seen], true[seen], "variance due to features")


def _or_with_more_draws(check: Callable[[int], None]) -> None:
    """Hold against draws, and against many more if the first do not agree.

    What happens once in some hundred draws may be most of a variance, and not seem rare in a few.
    """
    try:
        check(DRAWS)
    except AssertionError:
        check(20 * DRAWS)


def _by_few_draws(drawn: Tensor) -> Tensor:  # [draws, nodes, outputs] -> [nodes, outputs]
    """Where a hundredth of the draws makes most of the variance.

    Only the tails of the noise get through a unit that is all but dead: two sets of a few hundred
    draws have little to do with each other there, and no slope says how often that happens.
    """
    tail = max(1, len(drawn) // 200)
    return drawn.sort(0).values[tail:-tail].var(0) < drawn.var(0) / 2


def agrees_with_draws_of_all(case: Case, _: Prediction) -> bool:
    """Coins and masks are not small: for linear networks, and sampled, all logits together."""
    if getattr(case.model, "ending", ""):
        return False
    uncertain = "edge_prob" in case.data and case.options.get("links") != "weight"
    removed = uncertain and case.options["links"] == "removed"  # what is divided by changes too
    closed = is_linear(case.model) and not (uncertain and comes_back(case.model)) and not removed
    if not (_answers_truly(case) and closed):
        case = case.but(method="sampled")
    if not (uncertain or dropout_of(case.model)) or dropout_of(case.model) > 0.5:
        return False
    var = torch.where(variance_of(case) > 0, SMALL_NOISE, 0.0).to(case.data.x)
    if uncertain:  # coins that hardly ever fall, or hardly ever fail, would need more draws
        prob = case.data.edge_prob
        case = case.with_data(edge_prob=torch.where(prob < 1, prob.clamp(0.5, 0.9), prob))
    asked = case.with_data(x_var=var).but(nodes=None, sources=None, weights=None, dropout=None)
    _or_with_more_draws(lambda draws: _agrees_in_sum(asked, draws, coins=uncertain))
    return True


def _agrees_in_sum(case: Case, draws: int, *, coins: bool) -> None:
    pred = case.but(samples=draws).answer()
    drawn = at_draws(case, var=case.data.x_var, coins=coins, masks=True, draws=2 * draws, raw=True)
    true, few = drawn.var(0), _by_few_draws(drawn)
    usual = true[~few].sum() > true.sum() / 2
    if usual and true.sum() > 1e-6 * drawn.mean(0).square().sum():
        assert_within_factor(pred.logits.var.sum(), true.sum(), "variance of all logits")


#: Laws of the answer itself, looked at in every case.
ALWAYS: tuple[Law, ...] = (finite, non_negative, adds_up, probable, names_what_is_approximate)
#: Laws that ask again; a few of them are looked at in each case.
SOMETIMES: tuple[Law, ...] = (
    repeats,
    picks_rows,
    ignores_memory,
    ignores_order_of_links,
    ignores_layout,
    follows_names,
    follows_units,
    rests_without_noise,
    rests_near_no_noise,
    agrees_with_draws_of_features,
    agrees_with_draws_of_all,
)


def _assert_same(case: Case, one: Prediction, two: Prediction, rows: Tensor | None = None) -> None:
    """Two answers to a case agree, but for what rounding does to covariances that cancel.

    And but for what the network itself makes of rounding, if they do not agree without it.
    """
    lost = cancelled(case) if two.method.startswith("covariance") else 0.0
    try:
        assert_same_answer(one, two, rows, cancelled=lost)
    except AssertionError:
        moved = shaken(case, drawn=is_sampled(two))
        assert_same_answer(one, two, rows, cancelled=lost, shaken=moved)


class _InUnits(nn.Module):
    """A network whose outputs are given in other units."""

    def __init__(self, model: nn.Module, units: Tensor) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("units", units)
        self.training = model.training

    def forward(self, *inputs: Any) -> Any:
        return self.model(*inputs) * self.units


def _draws(case: Case, pred: Prediction) -> bool:
    """Whether anything was drawn for an answer."""
    masks = case.options["samples"] > 0 and (dropout_of(case.model) or case.options.get("dropout"))
    by_masks = pred.method.startswith("diagonal") or case.options.get("weights") == "sampled"
    return is_sampled(pred) or bool(masks and by_masks)


def _answers_truly(case: Case) -> bool:
    """Whether the method promises more than an order of nodes for this network."""
    method = case.options["method"]
    exact = method not in CLOSED_FORMS or not is_approximate(case.model)
    return method in ("auto", "first-order", "sampled") and exact


def _features_alone(case: Case, var: Tensor, samples: int = 8) -> Case:
    """The same case with this noise in the features and nothing else uncertain."""
    only = case.with_data(x_var=var.to(case.data.x), edge_prob=None)
    return only.but(nodes=None, sources=("features",), samples=samples, weights=None, dropout=None)
