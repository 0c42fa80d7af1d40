"""Covariances of the logits, source by source, to first order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.affine import Affine, InputNoise, Path
from varigraph.moments.pairs import Pairs
from varigraph.moments.softmax_moments import row_slices
from varigraph.moments.tape import Drop
from varigraph.prediction.first_order.responses import Responses

#: Nodes whose responses decide the rank of the noise's root.
SAMPLE = 128
#: Share of the outputs' variance that the low-rank root may leave out.
LEFT_OUT = 1e-3


@dataclass(frozen=True, eq=False)
class NoiseRoot:
    r"""A low-rank root of the features' noise as the first layers see it.

    The maps :math:`M_j` of all values and paths stand on top of each other in
    :math:`S = M\,\mathrm{diag}(\sqrt f)`, and :math:`R = S V` keeps the leading eigenvectors V of
    :math:`S' B S`, where B is the mean gain :math:`T' T` from there to the outputs. What is left
    out is counted where it matters, in the variance of the outputs, and is less than a thousandth.

    Args:
        leaves: the values at which the network stops being linear in the features.
        gains: B of each value, ``[features, features]``, from a sample of the nodes; none where
            the whole root is wanted.
    """

    leaves: tuple[Affine, ...]
    gains: tuple[Tensor, ...]

    @classmethod
    def of(cls, samples: Iterable[Responses]) -> NoiseRoot:
        """The root for a network, from the responses of some of its nodes."""
        leaves: dict[int, Affine] = {}
        gains: dict[int, Tensor] = {}
        for sample in samples:
            for leaf, pairs in sample.boundary:
                leaves[id(leaf)] = leaf
                gains[id(leaf)] = gains.get(id(leaf), torch.zeros(())) + _gain_of(pairs)
        return cls(tuple(leaves.values()), tuple(gains[key] for key in leaves))

    @classmethod
    def whole(cls, responses: Responses) -> NoiseRoot:
        """A root that leaves nothing out and that the weights can be learned through."""
        leaves = {id(leaf): leaf for leaf, _ in responses.boundary}
        return cls(tuple(leaves.values()), ())

    @cached_property
    def parts(self) -> dict[tuple[int, Path], Tensor]:  # [features, rank] each
        """The rows of the root that belong to each value and path."""
        rows = {(id(leaf), path): term for leaf in self.leaves for path, term in leaf.maps.items()}
        maps = torch.cat(list(rows.values()))
        scaled = maps.double() * self.noise.feature.double().sqrt()
        gamma = scaled @ scaled.T
        root = (_narrow(gamma, self._gain) if self.gains else _lower(gamma)).to(maps.dtype)
        return dict(zip(rows, root.split([len(term) for term in rows.values()]), strict=True))

    @property
    def _gain(self) -> Tensor:
        """B of all values and paths, block by block."""
        blocks = [
            float(self.noise.overlap(path, path).mean()) * gain
            for leaf, gain in zip(self.leaves, self.gains, strict=True)
            for path in leaf.maps
        ]
        gain: Tensor = torch.block_diag(*blocks)
        return gain

    @property
    def noise(self) -> InputNoise:
        """The noise of the features."""
        return self.leaves[0].noise

    @property
    def rank(self) -> int:
        """Number of columns that were kept."""
        return next(iter(self.parts.values())).shape[1]


def sample_of(rows: Tensor) -> Tensor:  # [nodes] -> [fewer]
    """Some of the nodes, evenly."""
    return rows[:: max(1, len(rows) // SAMPLE)]


def _gain_of(pairs: Pairs) -> Tensor:  # [features, features]
    r""":math:`T' T` over all pairs; in double precision, some pairs at a time."""
    flat = pairs.values.flatten(0, 1)
    total = flat.new_zeros(flat.shape[1], flat.shape[1], dtype=torch.float64)
    for some in row_slices(*flat.shape):
        part = flat[some].double()
        total += part.T @ part
    return total


def _narrow(gamma: Tensor, gain: Tensor) -> Tensor:  # [n, n], [n, n] -> [n, rank]
    r"""R with :math:`R R' \approx \Gamma`; all but a thousandth of :math:`tr(R' B R)` is kept."""
    energy, vectors = torch.linalg.eigh(gamma)
    root = vectors * energy.clamp_min(0).sqrt()
    seen, turn = torch.linalg.eigh(root.T @ gain @ root)
    seen, turn = seen.flip(0).clamp_min(0), turn.flip(1)
    rank = int((seen.cumsum(0) < (1 - LEFT_OUT) * seen.sum()).sum()) + 1
    narrow: Tensor = root @ turn[:, :rank]
    return narrow


def _lower(gamma: Tensor) -> Tensor:  # [n, n] -> [n, n]
    r"""R with :math:`R R' = \Gamma`, which moves steadily with it: eigenvectors would not."""
    ridge = LEFT_OUT**2 * gamma.diagonal().mean() + torch.finfo(gamma.dtype).tiny
    root: Tensor = torch.linalg.cholesky(gamma + ridge * torch.eye(len(gamma)).to(gamma))
    return root


def to_features(responses: Responses, root: NoiseRoot) -> Pairs:
    """Responses of the outputs to the noise of the features, in the columns of its root."""
    total: Pairs | None = None
    for leaf, pairs in responses.boundary:
        for path in leaf.terms:
            narrow = pairs.with_values(pairs.values @ root.parts[id(leaf), path])
            spread = leaf.noise.spread(narrow, path)
            total = spread if total is None else total + spread
    assert total is not None
    return total


def from_features(responses: Responses, root: NoiseRoot) -> Tensor:  # [rows, outputs, outputs]
    r""":math:`\sum_w n_w T_{uw} T_{uw}'` with the cotangents carried back to the features."""
    return to_features(responses, root).gram(root.noise.node)


def from_masks(responses: Responses, drops: Sequence[Drop], added: Sequence[Tensor]) -> Tensor:
    r""":math:`\sum_v T_{uv}\,\mathrm{diag}(q_v)\,T_{uv}'` over all places where dropout acts."""
    total = torch.zeros(())
    for drop, variance in zip(drops, added, strict=True):
        pairs = responses.of.get(id(drop.value))
        if pairs is not None:
            total = total + weighted_gram(pairs, variance)
    return total


def weighted_gram(pairs: Pairs, variance: Tensor) -> Tensor:  # [nodes, features]
    r""":math:`\sum_v T_{uv}\,\mathrm{diag}(q_v)\,T_{uv}'`."""
    scaled = pairs.values * variance[pairs.column].clamp_min(0)[:, None]
    return pairs.sum_rows(scaled @ pairs.values.mT)
