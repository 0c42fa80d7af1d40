"""What a network of a case answers by itself, and how far rounding moves that."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from campaign import brute_force
from campaign.agreement import Shaken
from campaign.cases import Case
from campaign.networks import APPROXIMATE, parts, sees_whole_graph


def variance_of(case: Case) -> Tensor:  # -> [nodes, features]
    x, var = case.data.x, case.data.get("x_var")
    return torch.as_tensor(0.0 if var is None else var).to(x).expand_as(x).clone()


def own_answer(case: Case, *, raw: bool = False) -> Tensor:  # -> [nodes, outputs]
    zero = torch.zeros_like(case.data.x)
    certain = case.with_data(edge_prob=None)
    return at_draws(certain, raw=raw, var=zero, coins=False, masks=False, draws=1)[0]


def at_draws(case: Case, *, raw: bool = False, **what: Any) -> Tensor:  # [draws, nodes, outputs]
    """Answers to draws: class probabilities, unless the logits themselves are wanted."""
    whole = sees_whole_graph(case.model)
    what = {"removed": case.options["links"] == "removed", **what}
    out = brute_force.outputs(
        case.model, case.data, forward=case.forward, side_by_side=not whole, **what
    )
    if raw or case.is_regression:
        return out
    ending = getattr(case.model, "ending", "")
    return {"softmax": out, "log_softmax": out.exp()}.get(ending, out.softmax(-1))


def cancelled(case: Case) -> float:
    """Rounding error of a sum of covariances before anything cancels: ε (Σ |w| σ)².

    The sum is the answer of the network with positive weights to the deviations of its features,
    less what it answers to none. Coins decide about whole messages, those of biases as well: where
    there are any, they are what is compared with none.
    """
    bold = copy.deepcopy(case.model)
    for weight in bold.parameters():
        weight.data.abs_()
    spread, coins = variance_of(case).sqrt(), case.data.get("edge_prob")
    moved = spread if coins is None else spread + case.data.x.abs()
    still = torch.zeros_like(spread)
    bold_case = case.but(model=bold)
    reach = own_answer(bold_case.with_data(x=moved), raw=True)
    silent = bold_case.with_data(x=still, edge_prob=None if coins is None else 0 * coins)
    rest = at_draws(silent, raw=True, var=still, coins=False, masks=False, draws=1)[0]
    return 10 * torch.finfo(reach.dtype).eps * float((reach - rest).abs().max()) ** 2


def shaken(case: Case, *, drawn: bool) -> Shaken:
    """How far rounding moves the network's own answers, at the draws if there are any.

    A norm of numbers that are the same but for rounding divides rounding by rounding: which links
    are added first decides about the answer, by rules or not.
    """
    var = variance_of(case) * drawn
    off = _rounding_of(case.data.x.abs() + 3 * var.sqrt())
    moved = case.with_data(x=case.data.x + off)
    what = {"var": var, "coins": False, "masks": False, "draws": 20 if drawn else 1}

    def far(raw: bool) -> float:
        off = at_draws(moved, raw=raw, **what) - at_draws(case, raw=raw, **what)
        return float(off.abs().max())

    return Shaken(far(raw=False), far(raw=True), drawn=drawn)


def moved_by_rounding(case: Case, own: Tensor) -> float:
    """How far the network's own answer moves with its features by rounding errors.

    A norm of numbers that are all the same divides what is left of rounding by next to nothing,
    behind units that let no feature through as well: what norms are given is moved too.
    """
    model = copy.deepcopy(case.model)
    for norm in parts(model, *APPROXIMATE):
        norm.register_forward_pre_hook(lambda _, inputs: (_rounded_off(inputs[0]), *inputs[1:]))
    moved = case.but(model=model).with_data(x=_rounded_off(case.data.x))
    return 100 * float((own_answer(moved) - own).abs().max())


def _rounded_off(x: Tensor) -> Tensor:
    """Numbers as sums of some size would give them, each with an error of its own."""
    return x + _rounding_of(x)


def _rounding_of(x: Tensor) -> Tensor:
    tiny = 10 * torch.finfo(x.dtype).eps * (1 + x.abs().max())
    return tiny * torch.sin(torch.arange(x.numel(), device=x.device) + 1.0).view_as(x).to(x)
