"""Products of two noises, of the weights of attention and the values that they weigh.

A product is of second order and has no response. Its covariance at a node asks for that of all
scores and values which arrive there, many of which share their noise. A few draws of the noise, to
first order and of all nodes at once, have all of that; the product of what they move is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.cotangents import Cotangents, at_once, row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.scores import Product
from varigraph.moments.tape import Operator, Tape
from varigraph.prediction.first_order.noise_blocks import NoiseBlocks
from varigraph.prediction.first_order.noise_root import NoiseRoot
from varigraph.prediction.first_order.responses import Responses
from varigraph.prediction.first_order.shares import weighted_gram

#: Draws of all nodes together, and the fewest and the most draws.
DRAWS, FEWEST, MOST = 2**16, 16, 2**11


def covariances(
    tape: Tape, root: NoiseRoot, ends: Sequence[NoiseBlocks]
) -> dict[int, Tensor]:  # [nodes, features, features] each
    """Covariance of the products at each node, by the numbers of the sums that they are in.

    Args:
        tape: record of the pass.
        root: of the noise of the features.
        ends: values whose response to the noise is known already.
    """
    nodes = len(tape.entries[0].value)
    draws = min(max(DRAWS // nodes, FEWEST), MOST)
    found = {product.value.number: _Moments(product) for product in tape.products}
    for some in _drawn(root, draws, numbers=_numbers(tape.products, root)):
        moved = Moved(tape, root, some, ends)
        for moments in found.values():
            moments.add(moments.product.moved(moved.of))
    return {number: moments.covariance for number, moments in found.items()}


def from_products(
    responses: Responses, products: Mapping[int, Tensor]
) -> Tensor:  # [rows, outputs, outputs]
    """Covariance that they cause in the outputs."""
    parts = [weighted_gram(responses.of[number], each) for number, each in products.items()]
    return torch.stack(parts).sum(0)


class _Moments:
    """Covariance of a product at each node, some draws after the other."""

    def __init__(self, product: Product) -> None:
        self.product, self.draws = product, 0
        mean = product.value.mean
        self.total = torch.zeros_like(mean)
        self.squares = mean.new_zeros(*mean.shape, mean.shape[1])

    def add(self, drawn: Tensor) -> None:  # [nodes, draws, features]
        self.draws += drawn.shape[1]
        self.total += drawn.sum(1)
        for some in row_slices(len(drawn), self.squares[:1].numel(), drawn.device):
            self.squares[some] += drawn[some].mT @ drawn[some]

    @property
    def covariance(self) -> Tensor:
        middle = self.total / self.draws
        around = self.squares - middle[:, :, None] * self.total[:, None]
        return around / (self.draws - 1)


def _numbers(products: Sequence[Product], root: NoiseRoot) -> int:
    """Numbers that are held for one draw."""
    nodes = max(len(product.sent) for product in products)
    width = max([root.rank] + [product.sent.mean.shape[1] for product in products])
    return nodes * width + max(len(product.sender) for product in products)


def _drawn(root: NoiseRoot, draws: int, numbers: int) -> Iterator[Tensor]:
    """Draws of the noise in the columns of its root, ``[nodes, some draws, rank]``."""
    node, generator = root.noise.node, torch.Generator().manual_seed(0)
    size = max(1, at_once(node.device) // numbers)
    for first in range(0, draws, size):
        # One by one: they are the same ones however many there is room for.
        each = [
            torch.randn(len(node), root.rank, generator=generator, dtype=node.dtype)
            for _ in range(first, min(first + size, draws))
        ]
        unit = torch.stack(each, 1).to(node.device) * _signs(root)
        yield unit * node.clamp_min(0).sqrt()[:, None]


def _signs(root: NoiseRoot) -> Tensor:  # [rank]
    """Signs by which draws are the same ones whichever way rounding has turned a column."""
    columns = torch.cat(list(root.parts.values()))
    largest = columns.gather(0, columns.abs().argmax(0, keepdim=True))[0]
    return largest.sign()


class Moved:
    """How far draws of the noise move values, to first order.

    Args:
        tape: record of the pass.
        root: of the noise.
        draws: in its columns, ``[nodes, draws, rank]``.
        ends: values whose response to the noise is known already.
    """

    def __init__(
        self, tape: Tape, root: NoiseRoot, draws: Tensor, ends: Sequence[NoiseBlocks]
    ) -> None:
        self.parents = {entry.value.number: entry.parents for entry in tape.entries}
        self.root, self.draws = root, draws
        self.known = {number: x for end in ends for number, x in end.moved(draws).items()}
        self._every: dict[int, Tensor] = {}

    def of(self, value: Gaussian) -> Tensor:  # [rows, draws, features]
        """One value, from those before it."""
        if value.number not in self.known:
            found = self._linear(value) if isinstance(value, Affine) else self._made(value)
            self.known[value.number] = found
        return self.known[value.number]

    def _made(self, value: Gaussian) -> Tensor:
        """From its parents; what has none is uncertain by another source."""
        parts = [self._through(o, parent, value) for parent, o in self.parents[value.number]]
        none = value.mean.new_zeros(len(value), self.draws.shape[1], value.mean.shape[1])
        return reduce(torch.add, parts, none)

    def _through(self, operator: Operator, parent: Gaussian, value: Gaussian) -> Tensor:
        before = self._at_all(parent, self.of(parent))
        return operator.forward(before, self._at_all(value, before.values), value.mean.shape[1])

    def _linear(self, value: Affine) -> Tensor:
        parts = []
        for path in value.terms:
            x = self.draws
            for number in reversed(path):
                x = (self.root.noise.sums[number] @ x.flatten(1)).unflatten(1, x.shape[1:])
            parts.append(x @ self.root.parts[value.number, path].T)
        return torch.stack(parts).sum(0)

    def _at_all(self, value: Gaussian, values: Tensor) -> Cotangents:
        """All rows of a value, as pairs of one output."""
        rows = len(value)
        every = self._every.setdefault(rows, torch.arange(rows, device=values.device))
        none = self._every.setdefault(-rows, torch.zeros_like(every))
        return Cotangents(none, every, values, rows, 1)
