"""One look at a graph before work starts, so that mistakes are explained where they are made."""

from __future__ import annotations

from difflib import SequenceMatcher
from numbers import Number

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data.graph_parts import FLOATS, check_device, finite_features, first, links
from varigraph.data.noise import feature_variance
from varigraph.errors import GraphError

#: What a graph says about its own uncertainty.
NOISE = ("x_var", "edge_prob")
#: Letters that agree, as difflib counts them: edge_porb is near enough, x_val is not.
NEAR = 0.87


def check_graph(graph: Data) -> None:
    """Raises if no prediction on this graph could be right; otherwise does nothing.

    Looked at are the features ``x``, their variance ``x_var``, the links ``edge_index`` (or
    ``adj_t``, a sparse CSR matrix of torch) and their probabilities ``edge_prob``.

    Args:
        graph: the graph, which stays as it is.

    Raises:
        GraphError: naming the first culprit and what to do about it.
    """
    x = finite_features(graph)
    _check_count(graph, nodes=len(x))
    _check_spelling(graph)
    feature_variance(graph)
    edge_index, prob = links(graph), getattr(graph, "edge_prob", None)
    if prob is None:
        return
    if edge_index is None:
        raise GraphError(
            "edge_prob is given without edge_index, so it is unknown which links are meant",
            "give the links as edge_index, in the order of edge_prob",
        )
    _check_probabilities(prob, edge_index, x.dtype)
    _check_agreement(prob, edge_index, nodes=len(x))


def _check_count(graph: Data, *, nodes: int) -> None:
    if graph.num_nodes != nodes:
        raise GraphError(
            f"num_nodes is {graph.num_nodes}, but x has {nodes} rows", "del graph.num_nodes"
        )


def _check_spelling(graph: Data) -> None:
    """A graph may carry anything, but not its noise under a name that nobody looks at."""
    for name, value in graph.to_dict().items():
        near = intended(name)
        if near is not None and graph.get(near) is None and _holds_numbers(value):
            raise GraphError(
                f"the graph has {name}, and no {near}: did you mean that?",
                f"graph.{near} = graph.{name}; del graph.{name}",
            )


def _holds_numbers(value: object) -> bool:
    return isinstance(value, Number) or (isinstance(value, Tensor) and value.is_floating_point())


def _check_probabilities(
    prob: object,  # [edges]
    edge_index: Tensor,  # [2, edges]
    dtype: torch.dtype,
) -> None:
    if not isinstance(prob, Tensor) or prob.dtype not in FLOATS or prob.layout != torch.strided:
        kind = prob.dtype if isinstance(prob, Tensor) else f"a {type(prob).__name__}"
        raise GraphError(
            f"edge_prob is {kind}, not a tensor of floats",
            "graph.edge_prob = torch.as_tensor(edge_prob).float()",
        )
    edges = edge_index.size(1)
    if prob.shape != (edges,):
        raise GraphError(
            f"edge_prob has shape {tuple(prob.shape)}, but there are {edges} links",
            f"give one probability for each column of edge_index: shape ({edges},)",
        )
    check_device("edge_prob", prob, edge_index)
    bad = ~((prob.to(dtype) > 0) & (prob <= 1))  # what is 0 in the network's type is 0
    if bad.any():
        edge = first(bad)[0]
        raise GraphError(
            f"edge_prob[{edge}] is {prob[edge].item()}, outside (0, 1]",
            "give each link its probability, and drop those that cannot exist",
        )


def _check_agreement(
    prob: Tensor,  # [edges]
    edge_index: Tensor,  # [2, edges]
    *,
    nodes: int,
) -> None:
    pair = edge_index[0] * nodes + edge_index[1]  # [edges]
    order = pair.argsort(stable=True)
    bad = (pair[order].diff() == 0) & (prob[order].diff() != 0)
    if bad.any():
        one, two = order[first(bad)[0] :][:2].tolist()
        raise GraphError(
            f"the link {tuple(edge_index[:, one].tolist())} is listed twice with different "
            f"probabilities: edge_prob[{one}] is {prob[one].item():.4g}, "
            f"edge_prob[{two}] is {prob[two].item():.4g}",
            "keep one of the two",
        )


def intended(name: str) -> str | None:
    """``x_var`` or ``edge_prob`` where another name can only mean that, else None.

    Example:
        >>> intended("edge_probs"), intended("x_variance"), intended("edge_attr")
        ('edge_prob', 'x_var', None)
    """
    if name in NOISE:
        return None
    return next((known for known in NOISE if _is_near(_bare(name), _bare(known))), None)


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def _is_near(name: str, known: str) -> bool:
    return name.startswith(known) or SequenceMatcher(None, name, known).ratio() >= NEAR
