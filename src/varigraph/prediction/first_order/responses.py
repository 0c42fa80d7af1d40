"""Walking a tape back: how the outputs of a block of nodes respond to every value before them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.affine import Affine
from varigraph.moments.cotangents import Cotangents
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.neighbours import Neighbours
from varigraph.moments.tape import Entry, Operator, Tape
from varigraph.sparse import Sparse


@dataclass
class Responses:
    """Cotangents of a block of output nodes, value by value.

    Args:
        of: cotangent of every value, by its number.
        boundary: cotangents of values that are linear in the features, from the first step that
            is not: :class:`Affine` values and the part of their cotangent that comes from it.
        visited: the pairs of every value on the way, by its number, without their cotangents.
        ended: cotangents of values behind which nothing was visited, by their numbers.
    """

    of: dict[int, Cotangents] = field(default_factory=dict)
    boundary: list[tuple[Affine, Cotangents]] = field(default_factory=list)
    visited: dict[int, Cotangents] = field(default_factory=dict)
    ended: dict[int, Cotangents] = field(default_factory=dict)


def walk_back(
    tape: Tape, output: Gaussian, rows: Tensor, *, until: set[int], ends: Collection[int] = ()
) -> Responses:
    """Cotangents for the outputs of some nodes.

    Args:
        tape: record of the pass.
        output: the value to start from.
        rows: its nodes to answer for.
        until: numbers of the values whose cotangents are wanted; what lies before all of them is
            not visited, unless it is on the way to the noise of the features.
        ends: numbers of values behind which nothing is visited at all.
    """
    _refuse_unknown(tape, output)
    size = output.mean.shape[1]
    start = Cotangents.identity(rows, len(output), output.mean, size)
    responses = Responses({output.number: start})
    if isinstance(output, Affine):
        responses.boundary.append((output, start))
    for entry, parents in way_back(tape, output, until=until, ends=ends):
        pairs = responses.of[entry.value.number]
        if entry.value.number in ends:
            responses.ended[entry.value.number] = pairs
        for parent, operator in parents:
            _pass_on(responses, entry, parent, operator, pairs)
        responses.visited[entry.value.number] = pairs.pattern
        if entry.value.number not in until:
            del responses.of[entry.value.number]
    return responses


def way_back(
    tape: Tape, output: Gaussian, *, until: set[int], ends: Collection[int] = ()
) -> Iterator[tuple[Entry, list[tuple[Gaussian, Operator]]]]:
    """The values on the way, the last one first, each with those of its parents to visit.

    Args:
        tape: record of the pass.
        output: where to start.
        until: as in :func:`walk_back`.
        ends: likewise.
    """
    needed, reached = needed_for(tape, until), {output.number}
    for entry in reversed(tape.entries):
        if entry.value.number not in reached:
            continue
        parents = [
            (parent, operator)
            for parent, operator in entry.parents
            if entry.value.number not in ends
            if parent.number in needed or not isinstance(parent, Affine) or leaves(entry, parent)
        ]
        for parent, _ in parents:
            _refuse_unknown(tape, parent)
            reached.add(parent.number)
        yield entry, parents


def leaves(entry: Entry, parent: Gaussian) -> bool:
    """Whether a step is the first that is not linear in the features."""
    return isinstance(parent, Affine) and not isinstance(entry.value, Affine)


def _pass_on(
    responses: Responses, entry: Entry, parent: Gaussian, operator: Operator, pairs: Cotangents
) -> None:
    moved = operator.back(pairs, parent.mean.shape[1])
    if leaves(entry, parent) and isinstance(parent, Affine):
        responses.boundary.append((parent, moved))
    known = responses.of.get(parent.number)
    responses.of[parent.number] = moved if known is None else known + moved


def _refuse_unknown(tape: Tape, value: Gaussian) -> None:
    if not tape.knows(value):
        raise MissingRuleError(
            f"{tape.maker_of(value)} has no first-order response",
            'take method="sampled", which works for any model',
        )


def needed_for(tape: Tape, until: set[int]) -> set[int]:
    """Values that are wanted, or lie between the output and one that is."""
    needed = set(until)
    for entry in tape.entries:
        if any(parent.number in needed for parent, _ in entry.parents):
            needed.add(entry.value.number)
    return needed


def sums_on_the_way(tape: Tape, output: Gaussian) -> list[Sparse]:
    """The longest chain of sums from the output back, the last one first."""
    longest: dict[int, list[Sparse]] = {}
    for entry in tape.entries:
        ways = [
            ([] if operator.matrix is None else [operator.matrix]) + longest.get(parent.number, [])
            for parent, operator in entry.parents
        ]
        longest[entry.value.number] = max(ways, key=len, default=[])
    return longest.get(output.number, [])


def all_sums(tape: Tape) -> Iterator[tuple[Entry, Gaussian, Neighbours]]:
    """Every sum over neighbours on the tape: its entry, its messages and its links."""
    for entry in tape.entries:
        for parent, operator in entry.parents:
            if operator.neighbours is not None:
                yield entry, parent, operator.neighbours
