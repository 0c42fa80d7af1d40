r"""How values at the two ends of an uncertain link respond to the coin of that link.

A sum over links is a product of weights and messages, and a message may depend on the very coin
that decides about it. With the response :math:`\delta` of the messages to a coin e,

.. math::
    E[y | b_e = 1] - E[y | b_e = 0] = D_e[m] + E[S]\,\delta + (1 - 2 p_e)\,D_e[\delta]

where :math:`D_e[m]` is the response of the weights, with messages m. :math:`\delta` matters at the
ends of the link, where its coin moves weights most. It is carried from there to there, one sum
after the other; what leaves the two ends and comes back over a third node is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.cotangents import row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.neighbours import Neighbours
from varigraph.moments.tape import Operator, Tape
from varigraph.prediction.first_order.responses import all_sums


@dataclass(frozen=True, eq=False)
class Ends:
    """The links of a pass about which coins decide, in each direction, and what they do at targets.

    Args:
        tape: record of the pass.
    """

    tape: Tape

    def of(self, messages: Gaussian, links: Neighbours) -> tuple[Tensor, Tensor] | None:
        """Response of messages to each link's coin at its target and at its source.

        Both ``[pairs, features]``; the source responds where one coin decides about both ways.
        """
        if len(self._keys) == 0:  # all links are certain: no coin moves anything
            return None
        known = self._found.get(messages.number)
        return None if known is None else self._on(links, known)

    def _on(self, links: Neighbours, known: Tensor) -> tuple[Tensor, Tensor]:
        place = torch.searchsorted(self._keys, links.keys).clamp_max(len(self._keys) - 1)
        here = torch.where((self._keys[place] == links.keys)[:, None], known[place], 0)
        same, back = links.ways_back(links)
        return here, torch.where(same[:, None], here[back], 0)

    @cached_property
    def _sums(self) -> list[tuple[Gaussian, Neighbours]]:
        """Messages of sums that have coins, and their links."""
        sums = [(messages, links) for _, messages, links in all_sums(self.tape)]
        return [(messages, links) for messages, links in sums if links.coin_of is not None]

    @cached_property
    def _keys(self) -> Tensor:  # [links], ascending
        """Every link that a coin decides about in any sum: target and source in one number."""
        tossed = [links.keys[links.tossed] for _, links in self._sums]
        keys: Tensor = torch.unique(torch.cat(tossed))
        return keys

    @cached_property
    def _found(self) -> dict[int, Tensor]:  # [links, features] each
        """Responses at the targets of all links, of messages alone; none where there are none."""
        found: dict[int, Tensor] = {}
        for place, entry in enumerate(self.tape.entries[: self._until]):
            parts = [self._moved(x, way, found, entry.value) for x, way in entry.parents]
            known = [part for part in parts if part is not None]
            if known:
                found[entry.value.number] = sum(known[1:], known[0])
            for parent, _ in entry.parents:
                if self._last_use[parent.number] == place and parent.number not in self._wanted:
                    found.pop(parent.number, None)
        return {number: part for number, part in found.items() if number in self._wanted}

    @cached_property
    def _wanted(self) -> set[int]:
        return {messages.number for messages, _ in self._sums}

    @cached_property
    def _last_use(self) -> dict[int, int]:
        """Place of the last entry that uses each value."""
        uses = enumerate(self.tape.entries)
        return {parent.number: place for place, entry in uses for parent, _ in entry.parents}

    @property
    def _until(self) -> int:
        """Place of the last sum: nothing behind it is looked at."""
        return max(self._last_use[number] for number in self._wanted)

    def _moved(
        self, parent: Gaussian, operator: Operator, found: dict[int, Tensor], value: Gaussian
    ) -> Tensor | None:  # [links, features]
        """What of a value's response comes from one parent."""
        known, links = found.get(parent.number), operator.neighbours
        if links is not None and links.coin_of is not None:
            return self._through(links, parent, known)
        if known is None or operator.matrix is not None:
            return None
        parts = [
            operator.push(known[some], (self._keys // len(parent))[some], value.mean.shape[1])
            for some in row_slices(*known.shape)
        ]
        moved = [part for part in parts if part is not None]
        return torch.cat(moved) if len(moved) == len(parts) else None

    def _through(self, links: Neighbours, messages: Gaussian, known: Tensor | None) -> Tensor:
        moved = links.differences(messages.mean)
        if known is not None:
            here, there = self._on(links, known)
            moved = moved + links.between_ends(here, there)
        total = moved.new_zeros(len(self._keys), moved.shape[1])
        total[torch.searchsorted(self._keys, links.keys[links.tossed])] = moved[links.tossed]
        return total
