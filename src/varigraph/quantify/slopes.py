"""How one number of a network's answer follows the features and the links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from varigraph.errors import ModelError
from varigraph.moments import Gaussian
from varigraph.prediction.checks import check_last_softmax, check_output
from varigraph.prediction.prediction import Task

SOFTMAX = frozenset(
    [F.softmax, torch.softmax, Tensor.softmax, F.log_softmax, torch.log_softmax, Tensor.log_softmax]
)


class _LastSoftmax(TorchFunctionMode):
    """Notes what the last softmax of a network was applied to: its logits, whatever it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.logits: Tensor | None = None
        self.result: Tensor | None = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in SOFTMAX:
            self.logits, self.result = args[0] if args else kwargs["input"], result
        return result


def outputs(run: Callable[[Tensor], Any], x: Tensor, task: Task) -> Tensor:  # [nodes, features]
    """What a network in evaluation mode says, before its last softmax if it has one.

    Args:
        run: calls the network.
        x: the features.
        task: what the answer means, which it is checked against.

    Returns:
        ``[nodes, outputs]``, differentiable.
    """
    with _LastSoftmax() as last:
        # A copy: the model may work in place on what it is given.
        out = run(x.clone())
    if not isinstance(out, Tensor) or out.shape[:1] != x.shape[:1] or out.dim() > 2:
        raise ModelError(
            f"the forward returned {_what(out)}, not one row per node for {len(x)} nodes",
            "pick it: vg.attribute(..., forward=lambda model, x, data: model(x, ...)[0])",
        )
    ends_in_softmax = out is last.result and last.logits is not None
    if ends_in_softmax:
        check_last_softmax(task)
    check_output(Gaussian.certain(out.detach()), task)
    logits = last.logits if ends_in_softmax and last.logits is not None else out
    return logits[:, None] if logits.dim() == 1 else logits


def slopes(number: Tensor, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    r"""Derivatives :math:`\partial y / \partial z` by one backward pass.

    Args:
        number: y, a single number.
        inputs: what to differentiate by, with a name for each.

    Returns:
        A tensor of the shape of each input. No gradient is left anywhere.

    Raises:
        ModelError: y cannot be differentiated, or does not depend on one of the inputs.
    """
    try:
        found = torch.autograd.grad(number, list(inputs.values()), allow_unused=True)
    except RuntimeError as error:
        raise ModelError(
            f"the answer cannot be differentiated: {error}",
            "let the forward compute with tensors throughout, without detach() or torch.no_grad()",
        ) from error
    for name, slope in zip(inputs, found, strict=True):
        if slope is None:
            raise ModelError(
                f"the answer does not depend on the {name}, as far as its gradient tells",
                "let the forward use the x that it is given (not data.x), pass messages with "
                "layers of torch_geometric, and keep detach() and torch.no_grad() out",
            )
    return dict(zip(inputs, found, strict=True))


@contextmanager
def evaluating(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Evaluation mode with gradients, the model and the random state as before afterwards.

    Results that layers keep between calls (``cached=True``) may belong to another graph, and
    would hide the features from the gradient: they are put aside.

    Args:
        model: any network.
        device: where it runs.

    Raises:
        ModelError: the model draws random numbers all the same.
    """
    modes = [(module, module.training) for module in model.modules()]
    kept = [
        (module, name, value)
        for module, _ in modes
        for name, value in vars(module).items()
        if name.startswith("_cached")
    ]
    try:
        for module, _ in modes:
            module.training = False
        for module, name, _ in kept:
            setattr(module, name, None)
        with torch.inference_mode(False), torch.enable_grad(), _no_randomness(device):
            yield
    finally:
        for module, training in modes:
            module.training = training
        for module, name, value in kept:
            setattr(module, name, value)


@contextmanager
def _no_randomness(device: torch.device) -> Iterator[None]:
    cuda = [device] if device.type == "cuda" else []

    def state() -> list[Tensor]:
        return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, cuda)]

    with torch.random.fork_rng(devices=cuda):
        before = state()
        yield
        if not all(map(torch.equal, before, state())):
            raise ModelError(
                "the model draws random numbers in evaluation mode, so its slopes are random too",
                "F.dropout(x, rate, training=self.training), and no other randomness",
            )


def _what(out: Any) -> str:
    return f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else f"a {type(out).__name__}"
