"""What a source causes in the outputs of a linearised network, block of nodes by block."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.cotangents import Cotangents
from varigraph.moments.tape import Noise
from varigraph.prediction.first_order.responses import Responses, all_sums
from varigraph.prediction.linearised import added_noise, one_pass
from varigraph.prediction.memory import held_by
from varigraph.prediction.sources.source import INTERACTIONS, Source, considered

if TYPE_CHECKING:
    from varigraph.prediction.first_order.method import FirstOrder
    from varigraph.prediction.first_order.noise_blocks import Ended
    from varigraph.prediction.first_order.noise_root import NoiseRoot
    from varigraph.prediction.first_order.row_costs import RowCosts
    from varigraph.prediction.logits import Bent
    from varigraph.prediction.question import Question


@dataclass(eq=False)
class Block:
    """Logits of some nodes, while their shares are computed.

    Args:
        rows: the nodes.
        responses: of their outputs.
        root: of the noise of the features; None where none is needed.
        mean: of the logits, ``[rows, outputs]``.
        shares: covariance due to each part, ``[rows, outputs, outputs]``.
        poor: nodes that lose too much by the rank of the root.
        bent: second order in the noise of a source, where there is any.
        ended: where responses have ended because the root is known from there on.
    """

    rows: Tensor
    responses: Responses
    root: NoiseRoot | None
    mean: Tensor
    shares: dict[str, Tensor]
    poor: Tensor
    bent: Bent | None = None
    ended: Sequence[Ended] = ()

    def add(self, part: str, covariance: Tensor) -> None:
        """Add to a share."""
        self.shares[part] = self.shares[part] + covariance


class Share(ABC):
    """The share of one source.

    Args:
        source: its name.
        network: the network whose outputs are looked at.
    """

    def __init__(self, source: str, network: FirstOrder) -> None:
        # Weakly: a circle would keep the record of the pass until Python looks for circles.
        self.source, self.network = source, cast("FirstOrder", weakref.proxy(network))

    @property
    @abstractmethod
    def active(self) -> bool:
        """Whether it causes variance."""

    @property
    def interacts(self) -> bool:
        """Whether it causes variance that would not be there without other sources."""
        return False

    @property
    @abstractmethod
    def wanted(self) -> set[int]:
        """Numbers of the values to which the response of the outputs is needed."""

    @property
    def returning(self) -> set[int]:
        """Numbers of the values at which it changes the responses to others."""
        return set()

    @property
    def held(self) -> int:
        """Bytes that are held throughout."""
        return 0

    @property
    def messages(self) -> Mapping[int, Tensor]:
        """Variance that it alone gives to what is summed over links, by its place on the tape."""
        return {}

    def cost(self, rank: int, costs: RowCosts) -> Tensor:  # [nodes]
        """Bytes for each output node, with so many columns in the root of the features' noise."""
        return torch.zeros(())

    def change(self, responses: Responses) -> None:
        """Add what it does to the responses of a block."""
        return

    @abstractmethod
    def add_to(self, block: Block) -> None:
        """Compute the share of a block."""


@dataclass(frozen=True, eq=False)
class NoiseAlone:
    """Of a pass in which only one source is random, what the division over sources needs.

    Args:
        added: variance that it adds at each place.
        messages: variance of each value that is summed over neighbours, by its place on the tape.
    """

    added: Sequence[Tensor]
    messages: Mapping[int, Tensor]

    @classmethod
    def of(cls, question: Question, source: Source) -> NoiseAlone | None:
        """From a pass without a record, unless somebody asks for messages.

        None where the source is certain, or nothing else is uncertain.
        """
        others = [each for each in considered(question) if each is not source]
        if not source.uncertain(question) or not any(each.uncertain(question) for each in others):
            return None
        alone = question.only(source.name)
        if question.links is None or not question.links.uncertain:
            return cls([noise.added for noise in added_noise(alone)], {})
        tape = one_pass(alone, exact=False).tape
        place = {entry.value.number: number for number, entry in enumerate(tape.entries)}
        messages = {place[value.number]: value.var for _, value, _ in all_sums(tape)}
        return cls([noise.added for noise in tape.noises], messages)


class NoiseShare(Share):
    r"""The share of a source that adds independent noise: :math:`\sum_v T_{uv} V_v T_{uv}'`.

    Args:
        source: its name.
        network: the network whose outputs are looked at.
        alone: what it does alone; None where nothing else is uncertain.
    """

    def __init__(self, source: str, network: FirstOrder, alone: NoiseAlone | None) -> None:
        super().__init__(source, network)
        added = [noise.added for noise in self.noises]
        self.alone = alone or NoiseAlone(added, {})
        if len(self.alone.added) != len(added):
            raise MissingRuleError(
                f"the share of {source} cannot be told apart: it acts on values that nothing else "
                "than another source makes uncertain",
                'method="sampled", or consider fewer of them: sources=',
            )

    @cached_property
    def noises(self) -> list[Noise]:
        """Where it adds noise."""
        return [noise for noise in self.network.whole.tape.noises if noise.source == self.source]

    @cached_property
    def active(self) -> bool:  # noqa: D102
        return any(bool(added.any()) for added in self.alone.added)

    @property
    def wanted(self) -> set[int]:  # noqa: D102
        return {noise.value.number for noise in self.noises}

    @property
    def held(self) -> int:  # noqa: D102
        numbers = 2 * sum(added.nbytes for added in self.alone.added)
        # Messages are from a pass with a record of its own.
        return numbers + (held_by(self.network.whole.tape) if self.alone.messages else 0)

    @property
    def messages(self) -> Mapping[int, Tensor]:  # noqa: D102
        return self.alone.messages

    def cost(self, rank: int, costs: RowCosts) -> Tensor:  # noqa: D102
        return costs.from_noises(self.noises)

    @cached_property
    def _more(self) -> list[Tensor]:
        """What it adds beside that, because of the other sources."""
        pairs = zip(self.noises, self.alone.added, strict=True)
        return [noise.added - alone for noise, alone in pairs]

    def add_to(self, block: Block) -> None:  # noqa: D102
        if self.noises:
            responses = block.responses
            block.add(self.source, from_noises(responses, self.noises, self.alone.added))
            block.add(INTERACTIONS, from_noises(responses, self.noises, self._more))


def from_noises(
    responses: Responses, noises: Sequence[Noise], added: Sequence[Tensor]
) -> Tensor:  # [rows, outputs, outputs]
    r""":math:`\sum_v T_{uv} V_v T_{uv}'` over all places of noise of this covariance."""
    total = torch.zeros(())
    for noise, covariance in zip(noises, added, strict=True):
        pairs = responses.of.get(noise.value.number)
        if pairs is not None:
            total = total + weighted_gram(pairs, covariance)
    return total


def weighted_gram(pairs: Cotangents, covariance: Tensor) -> Tensor:  # -> [rows, outputs, outputs]
    r""":math:`\sum_v T_{uv} V_v T_{uv}'`.

    Args:
        pairs: cotangents T.
        covariance: V of each node, or its diagonal, ``[nodes, features]``.
    """
    if covariance.dim() == 2:
        scaled = pairs.values * covariance[pairs.column].clamp_min(0)[:, None]
    else:
        scaled = pairs.values @ covariance[pairs.column]
    return pairs.sum_rows(scaled @ pairs.values.mT)
