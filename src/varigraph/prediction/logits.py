"""Logits whose classes move together, and the class probabilities that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.moments import Gaussian
from varigraph.moments.cotangents import row_slices
from varigraph.moments.softmax import TOTAL_POINTS, normal_points
from varigraph.prediction.sources.source import INTERACTIONS, all_parts

#: Relative variance that is added to make a covariance definite.
RIDGE = 1e-6
#: Largest correlation that is looked at. There is none beyond 1, but what is left of a difference
#: of covariances may have any.
MOST = 1e3


@dataclass(frozen=True, eq=False)
class Bent:
    r"""What the logits do beyond a linear response to the noise of a source.

    .. math::
        z_a = \mu_a + (L u)_a + \tfrac12 \textstyle\sum_{bc} \tilde K_{abc} (u_b u_c - \delta_{bc})

    Args:
        white: :math:`\tilde K` for :math:`b \le c`, ``[nodes, classes, pairs of classes]``.
        covariance: what that adds, :math:`\frac12 \sum_{bc} \tilde K_{abc} \tilde K_{dbc}`.
        part: the source, whose share that covariance is in.
    """

    white: Tensor
    covariance: Tensor
    part: str

    @classmethod
    def of(cls, straight: Tensor, bend: Tensor, *, part: str) -> Bent:
        """From the covariance :math:`L L'` and K, ``[nodes, classes, classes, classes]``."""
        whitening = _whitening(straight)[:, None]
        whole = whitening @ bend @ whitening.mT
        b, c = class_pairs(whole)
        white = whole[:, :, b, c]
        weight = 1 - (b == c).to(white) / 2  # two different classes stand for both of their orders
        return cls(white, (white * weight) @ white.mT, part)

    def moved(self, u: Tensor) -> Tensor:  # [classes, points] -> [nodes, classes, points]
        """The second order at each point."""
        b, c = class_pairs(self.covariance)
        same = (b == c).to(u)[:, None]
        moved: Tensor = self.white @ ((1 - same / 2) * (u[b] * u[c] - same))
        return moved

    def rows(self, index: slice | Tensor) -> Bent:
        """The same for some of the nodes."""
        return Bent(self.white[index], self.covariance[index], self.part)


def class_pairs(matrix: Tensor) -> Tensor:  # [..., classes, classes] -> [2, pairs of classes]
    """Every pair of classes once, each class with itself too."""
    classes = matrix.shape[-1]
    return torch.triu_indices(classes, classes, device=matrix.device)


def _whitening(covariance: Tensor) -> Tensor:  # [nodes, classes, classes]
    r"""W with :math:`W \Sigma W' = 1` where the logits move, and nearly 0 where they do not.

    With the root L of :math:`\Sigma + \delta` it is :math:`(1 - \delta L^{-1} L^{-1\prime})
    L^{-1}`: a direction of variance :math:`\lambda` is multiplied by :math:`\lambda / (\lambda +
    \delta)^{3/2}`. By :math:`L^{-1}` alone, logits that follow from each other would have their
    rounding blown up.
    """
    ridge = torch.finfo(covariance.dtype).eps ** 0.7  # far above rounding, and below what counts
    root = root_of(covariance, ridge)
    eye = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
    inverse = torch.linalg.solve_triangular(root, eye, upper=False)
    in_units = inverse * _sizes(covariance).mT
    whitening: Tensor = inverse - ridge * in_units @ (in_units.mT @ inverse)
    return whitening


def root_of(covariance: Tensor, ridge: float = RIDGE) -> Tensor:  # [nodes, classes, classes]
    """The lower root of each covariance, also where that is singular or slightly indefinite.

    Unlike eigenvectors it is unique and steady, so that the points of an integral fall on the same
    places whatever the machine. The ridge, in units of each class's own variance, makes it so.
    """
    size = _sizes(covariance)  # all in units of its own: a class that hardly moves counts too
    units = (covariance / size / size.mT).clamp(-MOST, MOST)
    eye = torch.eye(units.shape[-1], dtype=units.dtype, device=units.device)
    root: Tensor
    root, failed = torch.linalg.cholesky_ex(units + ridge * eye)
    lost = ~units.isfinite().flatten(1).all(1)
    root[lost] = torch.nan  # the answer is refused in the end
    bad = (failed > 0) & ~lost
    if bool(bad.any()):
        energy, vectors = torch.linalg.eigh(units[bad].double())  # in which it converges
        turned = (energy.clamp_min(0) + ridge).sqrt()[..., None] * vectors.mT
        upper = torch.linalg.qr(turned).R  # turned' turned = upper' upper, and no step can fail
        root[bad] = (upper * upper.diagonal(dim1=1, dim2=2).sign()[..., None]).mT.to(root)
    return size * root


def _sizes(covariance: Tensor) -> Tensor:  # [nodes, classes, classes] -> [nodes, classes, 1]
    """Standard deviations; a little more than nothing where there is none."""
    var = covariance.diagonal(dim1=1, dim2=2).abs()
    return var.clamp_min(torch.finfo(var.dtype).tiny).sqrt()[..., None]


@dataclass(frozen=True, eq=False)
class CorrelatedLogits:
    """Mean and covariance of each node's logits.

    Args:
        mean: ``[nodes, classes]``.
        shares: covariance due to each part, ``[nodes, classes, classes]``.
        bent: second order in the noise of a source, whose covariance is part of its share; None
            where the logits are linear in all noise.
    """

    mean: Tensor
    shares: Mapping[str, Tensor]
    bent: Bent | None = None

    def rows(self, index: slice | Tensor) -> CorrelatedLogits:
        """The same for some of the nodes."""
        bent = None if self.bent is None else self.bent.rows(index)
        shares = {part: share[index] for part, share in self.shares.items()}
        return CorrelatedLogits(self.mean[index], shares, bent)

    def put(self, place: Tensor, other: CorrelatedLogits) -> None:
        """Write those of other nodes, which have the same parts, over those at some places."""
        self.mean[place] = other.mean
        for part, share in self.shares.items():
            share[place] = other.shares[part]
        if self.bent is not None and other.bent is not None:
            self.bent.white[place] = other.bent.white
            self.bent.covariance[place] = other.bent.covariance

    @property
    def covariance(self) -> Tensor:  # [nodes, classes, classes]
        """Covariance from all sources together."""
        return torch.stack([self.shares[part] for part in all_parts()]).sum(0)

    @property
    def marginal(self) -> Gaussian:  # [nodes, classes]
        """Mean and variance of each logit by itself."""
        return Gaussian(self.mean, diagonal(self.covariance))


def diagonal(covariance: Tensor) -> Tensor:  # [nodes, classes, classes] -> [nodes, classes]
    """The variances in covariances."""
    return covariance.diagonal(dim1=1, dim2=2).clamp_min(0)


#: Points for the division over sources, which needs less precision than what is divided.
POINTS_FOR_FRACTIONS = 256
#: A part of the variance that so few points cannot tell from none.
NEGLIGIBLE = 1e-3
#: Up to this variance of its logits a softmax is taken by its derivatives: as exact as points, and
#: rounding is not taken for variance.
SMALL = 1e-6


def active_parts(logits: CorrelatedLogits) -> list[str]:
    """The parts that cause any variance at all."""
    return [part for part in all_parts() if bool(logits.shares[part].any())]


def class_probabilities(
    logits: CorrelatedLogits, active: Sequence[str] | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    r"""Mean of the softmax and its variance by source, by points in the space of the logits.

    With roots :math:`L_s L_s' = \Sigma_s`, draws :math:`y = \mathrm{softmax}(\mu + \sum L_s z_s)`
    and :math:`y_s` that shares only :math:`z_s` with y: :math:`V[E[y \mid s]] = Cov(y, y_s)`.

    Args:
        logits: of all nodes or of some.
        active: the parts to draw points for, the same for every block of nodes; those that cause
            any variance if left out.
    """
    active = active_parts(logits) if active is None else active
    by_source = dict.fromkeys(all_parts(), torch.zeros_like(logits.mean))
    if not active:
        return logits.mean.softmax(-1), by_source
    p, covariance = logits.mean.softmax(1), logits.covariance
    moved = _moved(p, covariance)
    mean, total = _by_derivatives(p, moved)
    fractions = _fractions_by_derivatives(logits, active, p, moved)
    large = (diagonal(covariance).amax(1) > SMALL).nonzero().ravel()
    if len(large) > 0:
        some = logits if len(large) == len(mean) else logits.rows(large)
        mean[large], total[large] = _whole(some, active)
        if len(active) > 1:
            first = {part: share[large] for part, share in fractions.items()}
            for part, share in _fractions(some, active, first).items():
                fractions[part][large] = share
    return mean, {**by_source, **{part: total * share for part, share in fractions.items()}}


def divided(logits: CorrelatedLogits) -> dict[str, Tensor]:  # [nodes, classes] each
    """The variance of the logits themselves, source by source; the parts add up to it."""
    parts = {part: diagonal(logits.shares[part]) for part in all_parts()}
    interactions = parts.pop(INTERACTIONS)
    fitting = _with_interactions(parts, diagonal(logits.covariance))
    return {**fitting, INTERACTIONS: interactions}  # the same, before it was added and taken off


def _by_derivatives(p: Tensor, moved: Tensor) -> tuple[Tensor, Tensor]:  # [nodes, classes] each
    r"""Mean and variance of the softmax to second order, with :math:`w_i = e_i - p`.

    .. math::
        V_i = p_i^2\, a_i \qquad E_i = p_i + \frac{p_i}{2} \Big(a_i - \sum_j p_j a_j\Big)
        \qquad a_i = w_i' \Sigma w_i

    Args:
        p: the softmax of the mean.
        moved: a.
    """
    shift = moved - (p * moved).sum(1, keepdim=True)
    return torch.addcmul(p, p, shift, value=0.5), p.square() * moved


def _fractions_by_derivatives(
    logits: CorrelatedLogits, active: Sequence[str], p: Tensor, moved: Tensor
) -> dict[str, Tensor]:  # [nodes, classes] each
    r"""What part of the variance each source has, to first order: :math:`w' \Sigma_s w`."""
    if len(active) == 1:
        return {active[0]: torch.ones_like(p)}
    whole = torch.where(moved > 0, moved, 1)
    sources = [part for part in active if part != INTERACTIONS]
    shares = {part: _moved(p, logits.shares[part]) / whole for part in sources}
    return _with_interactions(shares, torch.ones_like(whole))


def _moved(p: Tensor, covariance: Tensor) -> Tensor:  # [nodes, classes], [nodes, classes, classes]
    r""":math:`a_i = w_i' \Sigma w_i` by class; :math:`1 - p_i` is summed up, not subtracted."""
    own = torch.eye(p.shape[1], dtype=p.dtype, device=p.device)
    away = torch.diag_embed(p @ (1 - own)) - p[:, None] * (1 - own)
    return ((away @ covariance) * away).sum(-1).clamp_min(0)


def _with_interactions(found: Mapping[str, Tensor], total: Tensor) -> dict[str, Tensor]:
    """The parts of the sources, together no more than the total; interactions have the rest."""
    parts = {source: part.clamp_min(0) for source, part in found.items()}
    whole = torch.stack(list(parts.values())).sum(0)
    fitting = torch.where(whole > total, total / whole, 1)
    parts = {source: part * fitting for source, part in parts.items()}
    return {**parts, INTERACTIONS: (total - whole).clamp_min(0)}


def _whole(logits: CorrelatedLogits, active: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Mean and variance of the softmax, all sources together."""
    shares = {"all": logits.covariance}
    if logits.bent is not None:  # what is bent is drawn apart from what is not
        own = logits.shares[logits.bent.part]
        shares = {logits.bent.part: own}
        if len(active) > 1:
            shares["rest"] = logits.covariance - own
    whole = CorrelatedLogits(logits.mean, shares, logits.bent)
    points = _points(whole, sides=1, total=TOTAL_POINTS)
    # Made beforehand: small tensors in between would keep large ones' memory from being used again.
    mean, total = torch.empty_like(logits.mean), torch.empty_like(logits.mean)
    for rows in row_slices(len(mean), points.numel()):
        mean[rows], total[rows] = _moments(whole.rows(rows), points[0])
    return mean, total


def _points(logits: CorrelatedLogits, *, sides: int, total: int) -> Tensor:
    """Points in the space of all parts, ``[sides, parts, classes, points]``."""
    parts, classes = len(logits.shares), logits.mean.shape[1]
    points = normal_points(1, sides * parts * classes, total)[0].to(logits.mean)
    return points.T.contiguous().view(sides, parts, classes, -1)


def _moments(logits: CorrelatedLogits, points: Tensor) -> tuple[Tensor, Tensor]:
    moves = _moves(logits, points[None])[0]
    drawn = _softmax(logits.mean[..., None] + _total(moves))
    mean = drawn.mean(-1)
    return mean, _around(drawn, mean[..., None]).square_().mean(-1)


def _fractions(
    logits: CorrelatedLogits, active: Sequence[str], first: Mapping[str, Tensor]
) -> dict[str, Tensor]:  # [nodes, classes] each
    """What part of the variance each source has; interactions have what is left.

    Points are too few to tell what is next to nothing: there first order has the word.
    """
    parts = CorrelatedLogits(logits.mean, {p: logits.shares[p] for p in active}, logits.bent)
    sources = [part for part in active if part != INTERACTIONS]
    points = _points(parts, sides=2, total=POINTS_FOR_FRACTIONS)
    found = logits.mean.new_empty(len(sources), *logits.mean.shape)
    for rows in row_slices(len(logits.mean), points.numel()):
        found[:, rows] = _shared(parts.rows(rows), sources, points)
    shares = {
        part: torch.where(first[part] < NEGLIGIBLE, first[part], share)
        for part, share in zip(sources, found, strict=True)
    }
    return _with_interactions(shares, torch.ones_like(logits.mean))


def _shared(logits: CorrelatedLogits, sources: list[str], points: Tensor) -> Tensor:
    r""":math:`Cov(y, y_s) / V[y]` for each source, ``[sources, nodes, classes]``."""
    one, two = _moves(logits, points)
    centre = logits.mean[..., None]
    drawn = _softmax(centre + _total(one))
    middle = drawn.mean(-1, keepdim=True)
    drawn = _around(drawn, middle)
    var = drawn.square().mean(-1)
    others = centre + _total(two)

    def covariance(part: str) -> Tensor:
        again = _around(_softmax(others - two[part] + one[part]), middle)
        return (again * drawn).mean(-1)

    covariances = torch.stack([covariance(part) for part in sources])
    return covariances / torch.where(var > 0, var, 1)


def _around(drawn: Tensor, middle: Tensor) -> Tensor:  # [nodes, classes, points], [.., 1]
    """Class probabilities around their middle, in place.

    That of the likeliest class is what the others lack: by itself, near 1, it would be rounding.
    """
    drawn -= middle
    top = middle.argmax(1, keepdim=True).expand(-1, 1, drawn.shape[-1])
    return drawn.scatter_add_(1, top, -drawn.sum(1, keepdim=True))


def _moves(logits: CorrelatedLogits, points: Tensor) -> list[dict[str, Tensor]]:
    """How far each part moves the logits at each point, ``[nodes, classes, points]``, by side."""
    sides: list[dict[str, Tensor]] = [{} for _ in points]
    for number, (part, covariance) in enumerate(logits.shares.items()):
        bent = logits.bent if logits.bent is not None and logits.bent.part == part else None
        root = root_of(covariance if bent is None else covariance - bent.covariance)
        for side, z in zip(sides, points[:, number], strict=True):
            side[part] = root @ z
            if bent is not None:
                side[part] += bent.moved(z)
    return sides


def _total(moves: dict[str, Tensor]) -> Tensor:
    first, *others = moves.values()
    return sum(others, first)


def _softmax(logits: Tensor) -> Tensor:  # [nodes, classes, points]
    """Softmax over the classes, in place."""
    logits -= logits.amax(1, keepdim=True)
    logits.exp_()
    logits *= logits.sum(1, keepdim=True).reciprocal_()
    return logits
