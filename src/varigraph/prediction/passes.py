"""Passes of one model over one graph: what is the same for all masks is computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from varigraph.errors import ModelError
from varigraph.moments import Gaussian, LinkProbabilities, Propagation, StandIn, propagating
from varigraph.prediction.masks import Masks, Site, Sites

#: Tensors of a layer's size that a rule holds at once: inputs, results and what is in between.
TENSORS_AT_ONCE = 12
#: Numbers in the widest tensor of a batch of masks on a processor: a few megabytes.
NUMBERS_AT_ONCE = 2**20


@dataclass
class Passes:
    """Runs a converted model, once without masks and then once for every set of masks.

    Args:
        run: calls the model with a guise in the place of its features.
        x: the features.
        links: chances of the links, where the graph has them.
    """

    run: Callable[[StandIn], Any]
    x: Gaussian
    links: LinkProbabilities | None
    sites: list[Site] = field(default_factory=list)
    _before_dropout: list[Any] = field(default_factory=list)
    _widest: int = 0
    _prepared: dict[Any, Any] = field(default_factory=dict)

    def without_masks(self) -> Gaussian:
        """One pass that finds out where dropout acts, and keeps what was computed before it."""
        sites = Sites()

        def step(compute: Callable[[], Any]) -> Any:
            result = compute()
            if not sites.found:
                self._before_dropout.append(result)
            elif isinstance(result, Gaussian):
                self._widest = max(self._widest, result.mean.numel())
            return result

        with no_randomness_but_dropout(self.x.mean.device):
            out = self._through(Propagation(self.links, sites, step, self._prepared))
        if self.links is not None and not self.links.used:
            raise ModelError(
                "the graph has link probabilities, but no message-passing layer used them",
                "pass messages with layers of torch_geometric, or leave data.edge_prob out",
            )
        self.sites = sites.found
        return out

    def with_masks(self, masks: Sequence[Tensor]) -> Gaussian:
        """Outputs ``[samples, nodes, classes]`` under masks ``[samples, *shape]``, one per site."""
        if len(masks[0]) > 1:
            return Gaussian(*torch.vmap(self._masked)(*masks))
        mean, var = self._masked(*(mask[0] for mask in masks))
        return Gaussian(mean[None], var[None])

    def _masked(self, *masks: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance under one mask for every site; what precedes them is not redone."""
        kept = iter(self._before_dropout)

        def step(compute: Callable[[], Any]) -> Any:
            result = next(kept, None)
            return compute() if result is None else result

        out = self._through(Propagation(self.links, Masks(self.sites, masks), step, self._prepared))
        return out.mean, out.var

    def masks_at_once(self, memory: int) -> int:
        """How many masks to run together: within the memory, and no more than is quick.

        Together they cost fewer calls; beyond the processor's cache they cost more than that.
        """
        numbers = sum(s.shape.numel() for s in self.sites) + TENSORS_AT_ONCE * self._widest
        in_memory = memory // (numbers * self.x.mean.element_size())
        if self.x.mean.device.type == "cpu":
            in_memory = min(in_memory, NUMBERS_AT_ONCE // max(self._widest, 1))
        return max(1, in_memory)

    def _through(self, propagation: Propagation) -> Gaussian:
        with propagating(propagation):
            out = self.run(StandIn(self.x))
        return answer_of(out)


def answer_of(out: Any) -> Gaussian:
    """The value behind what a model returned."""
    if isinstance(out, StandIn):
        return out.value
    raise ModelError(
        f"the forward returned {_what(out)}, not one value per node that depends on x",
        "pick the output: vg.predict(..., forward=lambda model, x, data: model(x, ...)[0])",
    )


def _what(out: Any) -> str:
    if isinstance(out, tuple):
        return f"a tuple of {len(out)}"
    return f"a {type(out).__name__}"


@contextmanager
def no_randomness_but_dropout(device: torch.device) -> Iterator[None]:
    """Refuse models that draw random numbers where no rule can see it, e.g. drop links."""
    before = _generator_state(device)
    yield
    if not torch.equal(before, _generator_state(device)):
        raise ModelError(
            "the model draws random numbers of its own, not only by dropout on its features "
            "(dropout_edge, dropout on edge weights, noise layers)",
            "leave that out at prediction time, or take the weights as certain: samples=0",
        )


def _generator_state(device: torch.device) -> Tensor:
    if device.type != "cuda":
        return torch.get_rng_state()
    return torch.cat([torch.get_rng_state(), torch.cuda.get_rng_state(device)])
