"""What holds for every network, however it is answered for."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from corpus.asking import asked
from corpus.draws import plain_logits
from corpus.registry import Network
from varigraph.errors import VarigraphError

#: Noise that changes nothing that could be seen, and doubt that single precision can still hold.
TINY, DOUBT = 2.0**-40, 2.0**-20
#: Share of the size of the answers that rounding may take. A coin that hardly ever falls spreads by
#: the root of its doubt, and closed forms, to which all spread is Gaussian, bend that at a kink.
ROUNDING = 1e-4
#: One row is enough to see what a question leaves behind.
FIRST = torch.tensor([0])


def is_own_answer(network: Network, source: str, method: str) -> bool:
    """With next to no noise the mean is what the network itself says, in logits and in answers.

    Args:
        network: the network.
        source: what is uncertain.
        method: how it is answered for. What was sampled is not followed in closed form again.
    """
    model, certain = network.trained(), nearly_certain(network.data)
    way = {"method": "sampled"} if method.startswith("sampled") else {}
    with unchanged(model):
        answer = asked(network, source, model=model, data=certain, samples=2, **way)
    plain = plain_logits(network, network.trained(), network.x, network.data)[0]
    allowed = (DOUBT**0.5 if source == "links" else ROUNDING) * (1 + float(plain.abs().mean()))
    pairs = (answer.logits.mean, plain), (answer.mean, as_answers(plain, network.task))
    return all(
        said.shape == own.shape and float((said - own).abs().max()) <= allowed
        for said, own in pairs
    )


def as_answers(logits: Tensor, task: str) -> Tensor:  # [rows, outputs]
    """Class probabilities, probabilities of labels, or values."""
    if task == "regression":
        return logits
    return logits.softmax(-1) if task == "classification" else logits.sigmoid()


def nearly_certain(data: Any) -> Any:
    """The same graph with tiny variances, and chances that are next to 1."""
    data = copy.copy(data)
    for store in data.stores:
        for name, value in (("x_var", TINY), ("edge_prob", 1 - DOUBT)):
            if name in store:
                store[name] = torch.full_like(store[name], value)
    return data


def check_left_alone(network: Network) -> None:
    """The network is as it was after dropout was opened; judgements see to the other sources."""
    for method in ("first-order", "sampled"):
        model = network.trained()
        with unchanged(model), suppress(VarigraphError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some have no dropout, which is told
            asked(network, "weights", model=model, method=method, samples=2, nodes=FIRST)


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Raises if a network is not the same afterwards, bit by bit."""
    before = everything_on(model)
    yield
    after = everything_on(model)
    changed = [name for name in before.keys() | after.keys() if not same(before, after, name)]
    assert not changed, f"{changed} changed"


def everything_on(model: nn.Module) -> dict[str, Any]:
    """All that hangs on the modules of a network: weights, buffers, modes, hooks, what it keeps."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        kept = {**vars(module), **module._parameters, **module._buffers}
        for key, value in kept.items():
            is_table = isinstance(value, (dict, list))
            found[f"{name}.{key}"] = list(value) if is_table else copy.copy(value)
    return found


def same(before: dict[str, Any], after: dict[str, Any], name: str) -> bool:
    """Whether a field is what it was."""
    if name not in before or name not in after:
        return False
    first, second = before[name], after[name]
    if isinstance(first, Tensor):
        # Some layers leave weights that they do not use as memory was, which may be NaN.
        near = {"rtol": 0, "atol": 0, "equal_nan": True}
        alike = type(first) is type(second) and first.shape == second.shape
        return alike and torch.allclose(first, second, **near)
    return type(first) is type(second) and (not isinstance(first, (int, str)) or first == second)
