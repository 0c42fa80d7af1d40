"""What was prepared from a graph's links, kept for as long as the graph has them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

Made = TypeVar("Made")

_KEPT: Any = WeakIdKeyDictionary()


def kept(origin: Tensor, key: tuple[Hashable, ...], build: Callable[[], Made]) -> Made:
    """What ``build`` returns, built once for every ``key`` as long as ``origin`` is the same.

    It is forgotten with the tensor, and built anew when that was changed in place.

    Args:
        origin: the tensor that it is made from.
        key: everything else that it depends on.
        build: makes it, from the tensor's numbers: what it returns must not hold the tensor.
    """
    if origin.is_inference():  # such a tensor does not know how often it was changed
        return build()
    version, made = _KEPT.get(origin, (None, {}))
    if version != origin._version:
        made = {}
        _KEPT[origin] = origin._version, made
    if key not in made:
        # What is built in inference mode could not be learned through later.
        with torch.inference_mode(False):
            made[key] = build()
    found: Made = made[key]
    return found
