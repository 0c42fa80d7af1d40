"""How noise bends the logits: what an activation does beyond its slope, which makes them skew."""

from __future__ import annotations

import torch
from torch import Tensor

from varigraph.moments.affine import Affine, Path
from varigraph.moments.chunks import row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.pairs import Pairs
from varigraph.moments.tape import Tape
from varigraph.prediction.first_order.responses import Responses
from varigraph.prediction.first_order.shares import NoiseRoot


def from_bends(tape: Tape, responses: Responses, noise: Pairs, root: NoiseRoot) -> Tensor:
    r"""Second order of the logits z in themselves, :math:`K_{abc}`, ``[rows, a, b, c]``.

    .. math::
        K_{abc} = \sum_{vk} T_{a,vk}\,c_{vk}\,V_{b,vk} V_{c,vk} \qquad
        V_{b,vk} = Cov(z_b, x_{vk})

    over all activations k at nodes v, with the response T of the logits to them, the averaged
    bend c and the value x before them. :math:`K_{abc} + K_{bac} + K_{cab}` is the third cumulant of
    the logits, to leading order. It is what tells a skew distribution from a Gaussian.

    Args:
        tape: record of the pass.
        responses: responses of a block of output nodes.
        noise: their responses to the noise of the features, in the columns of its root.
        root: that root.
    """
    covariances = _Covariances(tape, responses, noise, root)
    classes = noise.values.shape[1]
    total = noise.values.new_zeros(noise.rows, classes, classes, classes)
    for bend in tape.bends:
        pairs = responses.of.get(bend.value.number)
        if pairs is not None:
            shared = covariances.of(bend.before).at(pairs).values
            total += _bent(pairs, bend.curvature, shared)
    return total


def _bent(pairs: Pairs, curvature: Tensor, shared: Tensor) -> Tensor:  # [rows, a, b, c]
    """What one activation contributes; K is symmetric in b and c, so half of it is computed."""
    classes, size = shared.shape[1:]
    b, c = torch.triu_indices(classes, classes, device=shared.device)
    half = shared.new_zeros(pairs.rows, classes, len(b))
    for some in row_slices(len(shared), size * len(b)):
        bent = pairs.values[some] * curvature[pairs.column[some]][:, None]
        products = shared[some, b] * shared[some, c]
        half.index_add_(0, pairs.row[some], bent @ products.mT)
    whole = half.new_empty(pairs.rows, classes, classes, classes)
    whole[:, :, b, c] = half
    whole[:, :, c, b] = half
    return whole


class _Covariances:
    """:math:`Cov(z_u, x_v)` of outputs and values, for the pairs on which outputs respond."""

    def __init__(self, tape: Tape, responses: Responses, noise: Pairs, root: NoiseRoot) -> None:
        self.parents = {entry.value.number: entry.parents for entry in tape.entries}
        self.visited, self.root = responses.visited, root
        self.noise = noise.with_values(noise.values * root.noise.node[noise.column, None, None])
        self.known: dict[int, Pairs] = {}

    def of(self, value: Gaussian) -> Pairs:
        """The covariances with one value, from those with the values before it."""
        if value.number not in self.known:
            pairs = self.visited[value.number]
            if isinstance(value, Affine):
                found = self._linear(value, pairs)
            else:
                ways = self.parents[value.number]
                width = value.mean.shape[1]
                parts = [operator.forward(self.of(x), pairs, width) for x, operator in ways]
                found = torch.stack(parts).sum(0)
            self.known[value.number] = pairs.with_values(found)
        return self.known[value.number]

    def _linear(self, value: Affine, pairs: Pairs) -> Tensor:
        parts = [
            self._along(path, pairs).values @ self.root.parts[value.number, path].T
            for path in value.terms
        ]
        return torch.stack(parts).sum(0)

    def _along(self, path: Path, pairs: Pairs) -> Pairs:
        """From the features along a path of sums to the pairs of a value."""
        if not path:
            return self.noise.at(pairs)
        matrix = self.root.noise.sums[path[0]]
        if len(path) == 1:
            return pairs.gathered(matrix, self.noise)
        return pairs.gathered(matrix, self._along(path[1:], pairs.through(matrix)))
