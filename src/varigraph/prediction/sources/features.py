"""Noise in the features of the nodes (AU1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from varigraph.moments import Gaussian
from varigraph.moments.affine import Affine
from varigraph.prediction.first_order.noise_root import from_bends, loses_much, to_features
from varigraph.prediction.first_order.products import from_products
from varigraph.prediction.first_order.shares import Block, Share
from varigraph.prediction.logits import Bent, diagonal
from varigraph.prediction.sources.source import Drawn, Leaf, Source

if TYPE_CHECKING:
    from varigraph.prediction.first_order.method import FirstOrder
    from varigraph.prediction.first_order.row_costs import RowCosts
    from varigraph.prediction.masks import Site
    from varigraph.prediction.question import Question
    from varigraph.prediction.sampled.network import Inputs, Network


class Features(Source):
    """``data.x_var``: independent noise in every feature, which a pass starts from."""

    name = "features"
    field = "x_var"
    moves_features = True
    places_noise = False  # what is linear in the features carries their noise along
    in_small_space = True
    remedy = "measure its features, or its neighbours', again"

    def held(self, question: Question) -> Question:  # noqa: D102
        mean = question.x.mean
        return replace(question, x=Gaussian(mean, torch.zeros_like(mean[:1, :1]).expand_as(mean)))

    def uncertain(self, question: Question) -> bool:  # noqa: D102
        return question.noisy

    def share(self, network: FirstOrder) -> FeatureShare:  # noqa: D102
        return FeatureShare(self.name, network)

    def draw(self, network: Network, sample: int, sites: Sequence[Site]) -> Drawn:  # noqa: D102
        # A draw of the features serves runs that follow each other, other draws every second run.
        draw = partial(network.features.draw, seed=network.question.seed)
        return {"x": network.known("x", sample, draw, keep=1)}

    def use(self, inputs: Inputs, drawn: Drawn) -> None:  # noqa: D102
        inputs.x = drawn["x"]

    def bytes_of_draw(self, network: Network) -> int:  # noqa: D102
        return network.features.bytes

    def leaf(self, question: Question) -> Leaf:  # noqa: D102
        x = question.x.mean.detach().requires_grad_()
        return Leaf(x, question.x.var, {"x": x})


class FeatureShare(Share):
    """The share of the features' noise: exact while values are linear in it, then bent."""

    @property
    def active(self) -> bool:  # noqa: D102
        return self.network.question.noisy

    @property
    def wanted(self) -> set[int]:  # noqa: D102
        tape, bent = self.network.whole.tape, self.network.bent
        values = [bend.value for bend in tape.bends] + [each.value for each in tape.products]
        return {value.number for value in values} if bent else set()

    @property
    def held(self) -> int:  # noqa: D102
        means = [product.value.mean for product in self.network.whole.tape.products]
        products = sum(2 * mean.nbytes * mean.shape[1] for mean in means) if self.active else 0
        return self.network.question.linear_features.noise.held + products

    def cost(self, rank: int, costs: RowCosts) -> Tensor:  # noqa: D102
        return costs.from_features(rank) if self.network.bent else torch.zeros(())

    def add_to(self, block: Block) -> None:  # noqa: D102
        output, root = self.network.whole.output, block.root
        if isinstance(output, Affine):
            block.shares[self.source] = output.covariance_of(block.rows)
        elif root is not None:
            noise = to_features(block.responses, root, block.ended)
            straight = noise.gram(root.noise.node)
            block.poor = loses_much(block.responses, root, diagonal(straight), block.ended)
            tape = self.network.whole.tape
            bend = from_bends(tape, block.responses, noise, root, block.ended)
            block.bent = Bent.of(straight, bend, part=self.source)
            block.shares[self.source] = straight + block.bent.covariance
            if self.network.products:
                block.add(self.source, from_products(block.responses, self.network.products))


FEATURES = Features.name
