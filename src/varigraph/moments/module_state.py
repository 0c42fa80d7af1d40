"""What is on the modules of a model, so that it can be as before."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar

import torch
from torch import nn

Result = TypeVar("Result")
#: What users keep things in.
CONTAINERS = frozenset([list, dict, set, OrderedDict, defaultdict])


@contextmanager
def untouched(model: nn.Module, *, but_caches: bool = False) -> Iterator[None]:
    """What runs leave on the modules of a model meanwhile is taken back, buffers included.

    Args:
        model: any network.
        but_caches: leave what layers of torch_geometric keep of their links, which is sound as long
            as these are the same, see :func:`running`.
    """
    found = [_State(module) for module in model.modules()]
    try:
        yield
    finally:
        for state in found:
            state.put_back(but_caches=but_caches)


def keeps_something(model: nn.Module, run: Callable[[], Result]) -> tuple[Result, bool]:
    """What a run returns, and whether it left something on the model, which is taken back.

    Args:
        model: any network.
        run: runs it.
    """
    found = [_State(module) for module in model.modules()]
    try:
        return run(), any(state.changed for state in found)
    finally:
        for state in found:
            state.put_back(but_caches=False)


class _State:
    """What is on a module: its attributes, what lists and dicts among them hold, its buffers."""

    def __init__(self, module: nn.Module) -> None:
        self._module, self._fields = module, dict(vars(module))
        self._held = [(v, copy(v)) for v in self._fields.values() if type(v) in CONTAINERS]
        buffers = (buffer for buffer in module._buffers.values() if buffer is not None)
        self._buffers = [(buffer, buffer._version, buffer.clone()) for buffer in buffers]

    @property
    def changed(self) -> bool:
        """Whether any of it is another thing by now."""
        now = vars(self._module)
        if now.keys() != self._fields.keys():
            return True
        return (
            any(now[name] is not value for name, value in self._fields.items())
            or any(not _same(container, before) for container, before in self._held)
            or any(buffer._version != version for buffer, version, _ in self._buffers)
        )

    def put_back(self, *, but_caches: bool) -> None:
        """Make it so again."""
        now = vars(self._module)
        kept = {name for name in now if but_caches and is_cache(name)}
        for name in now.keys() - self._fields.keys() - kept:
            del now[name]
        now.update({name: v for name, v in self._fields.items() if name not in kept})
        for container, before in self._held:
            if not _same(container, before):
                container.clear()
                (container.extend if isinstance(container, list) else container.update)(before)
        for buffer, version, before in self._buffers:
            if buffer._version != version:
                with torch.no_grad():
                    buffer.copy_(before)


def _same(container: Any, before: Any) -> bool:
    """Whether a list, dict or set holds the very same things."""
    if len(container) != len(before):
        return False
    if isinstance(container, dict):
        return all(key in container and container[key] is before[key] for key in before)
    if isinstance(container, set):
        return bool(container == before)
    return all(one is two for one, two in zip(container, before, strict=True))


def is_cache(name: str) -> bool:
    """Whether layers of torch_geometric keep something under this name."""
    return name.startswith("_cached_")
