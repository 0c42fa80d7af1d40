"""The noise of the features as the outputs see it: a low-rank root, and how activations bend it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.cotangents import Cotangents, row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.input_noise import InputNoise, Path
from varigraph.moments.tape import Tape
from varigraph.prediction.first_order.responses import Responses

if TYPE_CHECKING:
    from varigraph.prediction.first_order.noise_blocks import Ended

#: Nodes whose responses decide the rank of the noise's root.
SAMPLE = 128
#: Share of an output's variance that the low-rank root may leave out, on average over the sample.
LEFT_OUT = 1e-3
#: The same for every single output of every node: one that loses more gets the whole root.
LEFT_OUT_ANYWHERE = 1e-2


@dataclass(frozen=True, eq=False)
class NoiseRoot:
    r"""A low-rank root of the features' noise as the first layers see it.

    The maps :math:`M_j` of all values and paths stand on top of each other in
    :math:`S = M\,\mathrm{diag}(\sqrt f)`, and :math:`R = S V` keeps the leading eigenvectors V of
    :math:`S' B S`, where B is the mean gain :math:`T' T` from there to the outputs, each of which
    is scaled to variance 1: an output in small units, or of a quiet node, counts as much as any.
    Where every feature of every node has a variance of its own, :math:`R = M`: its columns are the
    features themselves, and none can be left out.

    Args:
        leaves: the values at which the network stops being linear in the features.
        gains: B of each value and path, ``[features, features]``, from a sample of the nodes.
        whole: leave nothing out.
        single: the columns are the features themselves, :math:`R = S`.
    """

    leaves: tuple[Affine, ...]
    gains: Mapping[tuple[int, Path], Tensor]
    whole: bool = False
    single: bool = False

    @classmethod
    def of(cls, samples: Iterable[Responses], nodes: int) -> NoiseRoot:
        """The root for a network on so many nodes, from the responses of some of them.

        Small graphs need no short cut, and so the answer for some of their nodes is that for all.
        """
        leaves: dict[int, Affine] = {}
        gains: dict[tuple[int, Path], Tensor] = {}
        for sample in samples:
            leaves.update((leaf.number, leaf) for leaf, _ in sample.boundary)
            if sample.boundary and sample.boundary[0][0].noise.by_feature:
                continue
            for key, gain in _gains_of(sample).items():
                gains[key] = gains[key] + gain if key in gains else gain
        by_feature = any(leaf.noise.by_feature for leaf in leaves.values())
        return cls(tuple(leaves.values()), gains, whole=by_feature or nodes <= SAMPLE)

    @classmethod
    def all_of(cls, responses: Responses) -> NoiseRoot:
        """A root that leaves nothing out and that the weights can be learned through."""
        leaves = {leaf.number: leaf for leaf, _ in responses.boundary}
        return cls(tuple(leaves.values()), {})

    @cached_property
    def parts(self) -> dict[tuple[int, Path], Tensor]:  # [features, rank] each
        """The rows of the root that belong to each value and path."""
        return self._by_part(self._columns[0])

    @cached_property
    def left_out(self) -> dict[tuple[int, Path], Tensor]:  # [features, columns] each
        """The columns that were left out."""
        return self._by_part(self._columns[1])

    @cached_property
    def rest(self) -> dict[tuple[int, Path], Tensor]:  # [features, features] each
        """Roots of the covariance that the columns left out would have given each of them."""
        return {key: _upright(left @ left.T) for key, left in self.left_out.items()}

    def _by_part(self, columns: Tensor) -> dict[tuple[int, Path], Tensor]:
        sizes = [len(term) for term in self._maps.values()]
        pieces = columns.to(self.noise.feature.dtype).split(sizes)
        return dict(zip(self._maps, pieces, strict=True))

    @cached_property
    def _columns(self) -> tuple[Tensor, Tensor]:
        """Columns that are kept, and those that are not."""
        maps = torch.cat(list(self._maps.values()))
        scaled = maps.double() * self.noise.feature.double().sqrt()
        if self.noise.by_feature or self.single:
            return scaled, scaled[:, :0]
        gamma = scaled @ scaled.T
        if not self.gains and not self.whole:
            return _lower(gamma), gamma[:, :0]
        root = _upright(gamma)
        if self.whole:
            return root, root[:, :0]
        gain = torch.block_diag(*(self.gains[key] for key in self._maps))
        seen, turn = torch.linalg.eigh(root.T @ gain @ root)
        seen, turned = seen.flip(0).clamp_min(0), root @ turn.flip(1)
        rank = int((seen.cumsum(0) < (1 - LEFT_OUT) * seen.sum()).sum()) + 1
        return turned[:, :rank], turned[:, rank:]

    @cached_property
    def _maps(self) -> dict[tuple[int, Path], Tensor]:
        return {
            (leaf.number, path): term for leaf in self.leaves for path, term in leaf.maps.items()
        }

    @property
    def noise(self) -> InputNoise:
        """The noise of the features."""
        return self.leaves[0].noise

    def turned_to(self, other: NoiseRoot) -> Tensor:  # [columns, other's columns], float64
        r"""Q with :math:`R Q = R_2`, where the other root is one of the same noise."""
        mine, theirs = self._columns[0], other._columns[0]
        size = mine.square().sum(1, keepdim=True).sqrt()
        unit = torch.where(size > 0, size, 1)  # rows in small units count as any
        turned: Tensor = torch.linalg.pinv(mine / unit, rtol=1e-7) @ (theirs / unit)
        return turned

    @property
    def leaves_nothing_out(self) -> bool:
        """Whether all columns were kept."""
        return self._columns[1].shape[1] == 0

    @property
    def rank(self) -> int:
        """Number of columns that were kept."""
        return self._columns[0].shape[1]


def sample_of(rows: Tensor) -> Tensor:  # [nodes] -> [fewer]
    """Some of the nodes, evenly."""
    return rows[:: max(1, len(rows) // SAMPLE)]


def _gains_of(responses: Responses) -> dict[tuple[int, Path], Tensor]:
    r""":math:`T' T` of every value and path, of outputs that are scaled to variance 1."""
    seen = _variance_by_walk(responses, _roots(responses))
    scale = torch.where(seen > 0, seen, torch.inf).rsqrt()  # [rows, outputs]
    gains: dict[tuple[int, Path], Tensor] = {}
    for leaf, pairs in responses.boundary:
        for path in leaf.terms:
            arriving = leaf.noise.overlap(path, path)[pairs.column].clamp_min(0).sqrt()
            gain = _gain_of(pairs.values, scale[pairs.row] * arriving)
            known = gains.get((leaf.number, path))
            gains[leaf.number, path] = gain if known is None else known + gain
    return gains


def _gain_of(values: Tensor, scale: Tensor) -> Tensor:  # [pairs, outputs, features], [.., outputs]
    """The sum over pairs and outputs; in double precision, some pairs at a time."""
    features = values.shape[-1]
    total = values.new_zeros(features, features, dtype=torch.float64)
    for some in row_slices(len(values), max(1, values[:1].numel()), values.device):
        part = (values[some].double() * scale[some, :, None]).flatten(0, 1)
        total += part.T @ part
    return total


def _roots(responses: Responses) -> dict[tuple[int, Path], Tensor]:
    """Root of the features' noise in each value and path by itself, ``[features, features]``."""
    leaves = {leaf.number: leaf for leaf, _ in responses.boundary}
    return {
        (key, path): _upright((term.double() * leaf.noise.feature) @ term.double().T)
        for key, leaf in leaves.items()
        for path, term in leaf.maps.items()
    }


def _variance_by_walk(
    responses: Responses, roots: Mapping[tuple[int, Path], Tensor]
) -> Tensor:  # [rows, outputs]
    """Variance of the outputs from the noise of these roots, each walk taken by itself."""
    total = torch.zeros(())
    for leaf, pairs in responses.boundary:
        for path in leaf.terms:
            arriving = leaf.noise.overlap(path, path)[pairs.column]
            each = (pairs.values @ roots[leaf.number, path].to(pairs.values)).square_().sum(-1)
            total = total + pairs.sum_rows(arriving * each)
    return total.clamp_min(0)


def _upright(gamma: Tensor) -> Tensor:  # [n, n] -> [n, n]
    r"""R with :math:`R R' = \Gamma`, as exact for rows in small units as for any."""
    size = gamma.diagonal().clamp_min(torch.finfo(gamma.dtype).tiny).sqrt()
    energy, vectors = torch.linalg.eigh(gamma / size[:, None] / size)
    root: Tensor = size[:, None] * vectors * energy.clamp_min(0).sqrt()
    return root


def _lower(gamma: Tensor) -> Tensor:  # [n, n] -> [n, n]
    r"""R with :math:`R R' = \Gamma`, which moves steadily with it: eigenvectors would not."""
    ridge = LEFT_OUT**2 * gamma.diagonal() + torch.finfo(gamma.dtype).tiny
    root: Tensor = torch.linalg.cholesky(gamma + torch.diag(ridge))
    return root


def to_features(responses: Responses, root: NoiseRoot, ended: Iterable[Ended] = ()) -> Cotangents:
    """Responses of the outputs to the noise of the features, in the columns of its root."""
    total: Cotangents | None = None
    for end in ended:
        arrived = end.to_noise()
        total = arrived if total is None else total + arrived
    for leaf, pairs in responses.boundary:
        for path in leaf.terms:
            narrow = pairs.with_values(pairs.values @ root.parts[leaf.number, path])
            spread = leaf.noise.spread(narrow, path)
            total = spread if total is None else total + spread
    assert total is not None
    return total


def loses_much(
    responses: Responses, root: NoiseRoot, found: Tensor, ended: Iterable[Ended] = ()
) -> Tensor:  # -> [rows]
    """Nodes of which the root leaves out more than a little, for any of their outputs.

    Args:
        responses: of a block of output nodes.
        root: the root that was used.
        found: variances that it gave, ``[rows, outputs]``.
        ended: where responses have ended.
    """
    if root.leaves_nothing_out:
        return torch.zeros(len(found), dtype=torch.bool, device=found.device)
    lost = _variance_by_walk(responses, root.rest)
    # Walks that share their noise may add up or cancel: what is left out is set beside what was
    # found both with and without that.
    kept = _variance_by_walk(responses, root.parts)
    for end in ended:
        walks = end.by_walk
        kept, lost = kept + walks[0], lost + walks[1]
    return (lost > LEFT_OUT_ANYWHERE * torch.minimum(kept, found)).any(1)


def from_features(responses: Responses, root: NoiseRoot) -> Tensor:  # [rows, outputs, outputs]
    r""":math:`\sum_w T_{uw}\,\mathrm{diag}(n_w)\,T_{uw}'`, the cotangents carried back."""
    return to_features(responses, root).gram(root.noise.node)


def from_bends(
    tape: Tape,
    responses: Responses,
    noise: Cotangents,
    root: NoiseRoot,
    ended: Iterable[Ended] = (),
) -> Tensor:
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
        ended: where responses have ended.
    """
    covariances = _Covariances(tape, responses, noise, root, ended)
    classes = noise.values.shape[1]
    total = noise.values.new_zeros(noise.rows, classes, classes, classes)
    for bend in tape.bends:
        pairs = responses.of.get(bend.value.number)
        if pairs is not None:
            shared = covariances.of(bend.before).at(pairs).values
            total += _bent(pairs, bend.curvature, shared)
    return total


def _bent(pairs: Cotangents, curvature: Tensor, shared: Tensor) -> Tensor:  # [rows, a, b, c]
    """What one activation contributes; K is symmetric in b and c, so half of it is computed."""
    classes, size = shared.shape[1:]
    b, c = torch.triu_indices(classes, classes, device=shared.device)
    half = shared.new_zeros(pairs.rows, classes, len(b))
    for some in row_slices(len(shared), size * len(b), shared.device):
        bent = pairs.values[some] * curvature[pairs.column[some]][:, None]
        products = _products(shared[some])
        half.index_add_(0, pairs.row[some], bent @ products.mT)
    whole = half.new_empty(pairs.rows, classes, classes, classes)
    whole[:, :, b, c] = half
    whole[:, :, c, b] = half
    return whole


def _products(values: Tensor) -> Tensor:  # [pairs, classes, size] -> [pairs, half of them, size]
    """Of every two classes, in the order of their pairs."""
    classes, first = values.shape[1], 0
    found = values.new_empty(len(values), classes * (classes + 1) // 2, values.shape[2])
    for b in range(classes):
        last = first + classes - b
        torch.mul(values[:, b : b + 1], values[:, b:], out=found[:, first:last])
        first = last
    return found


class _Covariances:
    """:math:`Cov(z_u, x_v)` of outputs and values, for the pairs on which outputs respond."""

    def __init__(
        self,
        tape: Tape,
        responses: Responses,
        noise: Cotangents,
        root: NoiseRoot,
        ended: Iterable[Ended],
    ) -> None:
        self.parents = {entry.value.number: entry.parents for entry in tape.entries}
        self.visited, self.root = responses.visited, root
        self.noise = noise.with_values(noise.values * root.noise.node[noise.column][:, None])
        self.known = {
            end.at.value.number: end.pairs.with_values(end.covariances(self.noise)) for end in ended
        }

    def of(self, value: Gaussian) -> Cotangents:
        """The covariances with one value, from those with the values before it."""
        if value.number not in self.known:
            pairs = self.visited[value.number]
            if isinstance(value, Affine):
                found = self._linear(value, pairs)
            else:
                ways = self.parents[value.number]
                width = value.mean.shape[1]
                parts = [operator.forward(self.of(x), pairs, width) for x, operator in ways]
                found = torch.stack(parts).sum(0) if parts else self._none(pairs, width)
            self.known[value.number] = pairs.with_values(found)
        return self.known[value.number]

    def _none(self, pairs: Cotangents, width: int) -> Tensor:
        """With what is no feature, and comes from none."""
        return self.noise.values.new_zeros(len(pairs.row), self.noise.values.shape[1], width)

    def _linear(self, value: Affine, pairs: Cotangents) -> Tensor:
        parts = [
            self._along(path, pairs).values @ self.root.parts[value.number, path].T
            for path in value.terms
        ]
        return torch.stack(parts).sum(0)

    def _along(self, path: Path, pairs: Cotangents) -> Cotangents:
        """From the features along a path of sums to the pairs of a value."""
        if not path:
            return self.noise.at(pairs)
        matrix = self.root.noise.sums[path[0]]
        if len(path) == 1:
            return pairs.gathered(matrix, self.noise)
        return pairs.gathered(matrix, self._along(path[1:], pairs.through(matrix)))
