"""What layers cache: nothing that depends on the features, everything that does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def sound_caches(model: nn.Module) -> Iterator[None]:
    """While this is open, layers normalise their links once, and forget the rest.

    A layer with ``cached=True`` that keeps neighbour sums of the features (``SGConv``) would answer
    for those of an earlier run. One that keeps the normalised links (``GCNConv``) has no reason to
    compute them again in every run, whatever ``cached`` says, as long as it is given the same
    links. What stood in the caches before belongs to another graph, and comes back afterwards.

    Args:
        model: any network.
    """
    with ExitStack() as stack:
        for layer in model.modules():
            held = {name: value for name, value in vars(layer).items() if _is_cache(name)}
            if "cached" not in vars(layer) or not held:
                continue
            stack.callback(vars(layer).update, {**held, "cached": vars(layer)["cached"]})
            vars(layer).update({**dict.fromkeys(held), "cached": False})
            if "_cached_edge_index" in held:
                vars(layer)["cached"] = True
                watch = layer.register_forward_pre_hook(_SameLinks(), with_kwargs=True)
                stack.callback(watch.remove)
        yield


def unchanged(tensor: Tensor, before: tuple[Tensor, int] | None) -> bool:
    """Whether a tensor holds the same numbers as one seen before, with its version then."""
    if before is None or before[0]._version != before[1]:
        return False
    if tensor is before[0] or tensor.layout != torch.strided:
        return tensor is before[0]
    return torch.equal(tensor, before[0])


def _is_cache(name: str) -> bool:
    return name.startswith("_cached_")


class _SameLinks:
    """A hook that empties a layer's caches when anything but its features has changed."""

    def __init__(self) -> None:
        self._before: list[tuple[Tensor, int]] = []

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        others = (*args[1:], *(value for name, value in kwargs.items() if name != "x"))
        links = [other for other in others if isinstance(other, Tensor)]
        known = len(links) == len(self._before)
        if not known or not all(map(unchanged, links, self._before)):
            held = [name for name in vars(layer) if _is_cache(name)]
            vars(layer).update(dict.fromkeys(held))
            self._before = [(tensor, tensor._version) for tensor in links]
