"""Whether a layer's links are between the nodes of the graph, by the numbers they have there."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from varigraph.errors import ModelError
from varigraph.moments.links import plain, unchanged

REMEDY = (
    'links="removed", which takes links out of the graph itself; or pool nodes only after the last '
    "message-passing layer"
)


class KnownLinks(Protocol):
    """The links of a graph, such as ``LinkProbabilities``."""

    @property
    def nodes(self) -> int: ...  # noqa: D102

    @property
    def listed(self) -> tuple[Tensor, Tensor]: ...  # noqa: D102

    @property
    def repeats(self) -> bool: ...  # noqa: D102

    def places(self, edge_index: Tensor) -> Tensor:  # [2, m] -> [m]
        """Which of the listed links each one is; -1 where it is none of them."""


def same_nodes(what: str, rows: set[int], links: KnownLinks) -> None:
    """Raises if a layer works on other nodes than those of the graph.

    Chances of links are found by the numbers of their ends, and pooling numbers nodes anew.

    Args:
        what: the layer, in words.
        rows: numbers of nodes that it works on.
        links: those of the graph.

    Raises:
        ModelError: there are more or fewer.
    """
    other = sorted(rows - {links.nodes})
    if other:
        raise ModelError(
            f"{what} works on {other[0]} nodes, the link probabilities are for {links.nodes}: "
            "nodes were pooled or numbered anew, and which link is which is not known",
            REMEDY,
        )


class OneOrder:
    """Sees to it that a layer is given its links in one order, whatever the features are.

    Where all nodes stay, but are numbered anew by a score, links change places from run to run.

    Args:
        what: the layer, in words.
        links: those of the graph.
    """

    def __init__(self, what: str, links: KnownLinks) -> None:
        self._what, self._links = what, links
        self._seen: dict[int, Tensor] = {}
        self._last: tuple[Tensor, int] | None = None

    def check(self, edge_index: Tensor) -> None:  # [2, m]
        """Raises if links come in another order than before, which neither list nor sorting has."""
        given = plain(edge_index)
        if self._last is not None and unchanged(given, self._last):
            return
        if in_known_order(given, self._links):
            self._last = given, given._version
            return
        before = self._seen.setdefault(given.shape[1], given)
        if not torch.equal(given, before):
            raise ModelError(
                f"{self._what} is given its links in another order from run to run: it seems that "
                "nodes are numbered anew, and which link is which is not known",
                REMEDY,
            )


def in_known_order(edge_index: Tensor, links: KnownLinks) -> bool:  # [2, m]
    """Whether links stand as in the graph, some left out, either way round, or are sorted."""
    listed = links.listed[0]
    if edge_index.shape == listed.shape and torch.equal(edge_index, listed):
        return True
    if links.repeats:  # a link may stand in several places
        return True
    ends = edge_index[:, edge_index[0] != edge_index[1]]
    if any(bool((end[1:] >= end[:-1]).all()) for end in ends):
        return True
    there, back = links.places(ends), links.places(ends.flip(0))
    if bool((there < 0).any()):  # which is said where the links are looked up
        return True
    return any(bool((at >= 0).all() and (at[1:] > at[:-1]).all()) for at in (there, back))
