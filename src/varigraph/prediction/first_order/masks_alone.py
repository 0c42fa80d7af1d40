"""What the masks of dropout do where nothing else is random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from varigraph.prediction.linearised import added_by_masks, one_pass
from varigraph.prediction.question import Question


@dataclass(frozen=True, eq=False)
class MasksAlone:
    """Of a pass in which only dropout is random, what the division over sources needs.

    Args:
        added: variance that the masks add at each place where dropout acts.
        messages: variance of each value that is summed over neighbours, by its place on the tape.
    """

    added: Sequence[Tensor]
    messages: Mapping[int, Tensor]

    @classmethod
    def of(cls, question: Question) -> MasksAlone:
        """From a pass without a record, unless somebody asks for messages."""
        alone = question.only("weights")
        if question.links is None or "links" not in question.sources:
            return cls(added_by_masks(alone), {})
        tape = one_pass(alone, exact=False).tape
        place = {entry.value.number: number for number, entry in enumerate(tape.entries)}
        summed = [
            parent
            for entry in tape.entries
            for parent, operator in entry.parents
            if operator.matrix is not None
        ]
        messages = {place[value.number]: value.var for value in summed}
        return cls([drop.added for drop in tape.drops], messages)
