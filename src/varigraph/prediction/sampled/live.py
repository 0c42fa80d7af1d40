"""How much memory a network's own tensors take, function by function."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, ValuesView
from typing import Any

import torch
from torch import Tensor


class LiveTensors:
    """Counts the bytes of tensors that functions returned, as long as somebody holds them.

    What is given to a function and came from none (features, weights, links) is not counted, nor
    are its views.
    """

    def __init__(self) -> None:
        self._made: list[weakref.ref[Tensor]] = []
        self._given: dict[int, weakref.ref[Tensor]] = {}

    def note(self, args: Iterable[Any], result: Any) -> int:
        """What is held once a function has been called, in bytes.

        Args:
            args: its arguments.
            result: what it returned.
        """
        self._made = [made for made in self._made if made() is not None]
        known = self._bytes_by_place()
        for tensor in _tensors(args):
            for place, _ in _storages(tensor):
                if place not in known:
                    self._given[place] = weakref.ref(tensor)
        self._made += [weakref.ref(tensor) for tensor in _tensors([result])]
        given = {place for place, tensor in self._given.items() if tensor() is not None}
        found = self._bytes_by_place()
        return sum(size for place, size in found.items() if place not in given)

    def _bytes_by_place(self) -> dict[int, int]:
        held = [tensor for made in self._made if (tensor := made()) is not None]
        return {place: size for tensor in held for place, size in _storages(tensor)}


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (tuple, list, ValuesView)):
            yield from _tensors(value)


def _storages(tensor: Tensor) -> list[tuple[int, int]]:
    """Addresses and sizes of what holds a tensor's numbers."""
    if tensor.layout == torch.sparse_csr:
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        return [pair for part in parts for pair in _storages(part)]
    try:
        storage = tensor.untyped_storage()
        return [(storage.data_ptr(), storage.nbytes())]
    except (RuntimeError, NotImplementedError):  # tensors of other kinds have no storage to ask
        return []
