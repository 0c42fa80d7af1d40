"""The parts of a graph: features, links, noise, names; and what is said if they are wrong."""

from __future__ import annotations

from difflib import SequenceMatcher
from numbers import Number

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, HeteroData

from varigraph.data.noise import first, variances
from varigraph.errors import GraphError

#: What a graph says about its own uncertainty.
NOISE = ("x_var", "edge_prob")
#: What else may be noisy, as edge_attr_var and so on say.
FIELDS = ("edge_attr", "edge_weight", "pos")
#: Letters that agree, as difflib counts them: edge_porb is near enough, x_val is not.
NEAR = 0.87


def check_one_kind(graph: Data) -> None:
    """Raises if no prediction on this graph could be right, or if it has several kinds of nodes.

    Args:
        graph: the graph, which stays as it is.

    Raises:
        GraphError: naming the first culprit and what to do about it.
    """
    x = finite_features(graph)
    check_count(graph, nodes=len(x))
    check_spelling(graph)
    feature_variance(graph)
    edge_index, prob = links(graph), getattr(graph, "edge_prob", None)
    for name in FIELDS:
        field_variance(graph, name)
    if prob is None:
        return
    if edge_index is None:
        raise GraphError(
            "edge_prob is given without edge_index, so it is unknown which links are meant",
            "give the links as edge_index, in the order of edge_prob",
        )
    check_probabilities(prob, edge_index, x.dtype)
    check_links_agree(prob, edge_index, nodes=len(x))


def check_count(graph: Data, *, nodes: int) -> None:
    """Raises where the number of nodes is said to be another than that of the features."""
    if graph.num_nodes != nodes:
        raise GraphError(
            f"num_nodes is {graph.num_nodes}, but x has {nodes} rows", "del graph.num_nodes"
        )


def check_spelling(graph: Data) -> None:
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


def check_probabilities(
    prob: object,  # [edges]
    edge_index: Tensor,  # [2, edges]
    dtype: torch.dtype,
) -> None:
    """Raises unless there is one number above 0 and up to 1 for each link."""
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


def check_links_agree(
    prob: Tensor,  # [edges]
    edge_index: Tensor,  # [2, edges]
    *,
    nodes: int,
) -> None:
    """Raises where a link that is listed twice has two chances."""
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
    """``x_var``, ``edge_prob`` or the like where another name can only mean that, else None.

    Example:
        >>> intended("edge_probs"), intended("pos_variance"), intended("edge_attr")
        ('edge_prob', 'pos_var', None)
    """
    if name in NOISE:
        return None
    found = (known for known in NOISE if _is_near(_bare(name), _bare(known)))
    named = (known for known in map("{}_var".format, FIELDS) if _goes_on(name, known))
    return next(found, None) or next(named, None)


def _goes_on(name: str, known: str) -> bool:
    return name != known and _bare(name).startswith(_bare(known))


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def _is_near(name: str, known: str) -> bool:
    return name.startswith(known) or SequenceMatcher(None, name, known).ratio() >= NEAR


#: Types that torch can compute with everywhere.
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def features(graph: Data) -> Tensor:  # -> [nodes, features]
    """``graph.x``, known to be a dense matrix of floats with at least one node.

    Raises:
        GraphError: if the graph is of another kind, or ``x`` is missing or of another form.
    """
    _check_kind(graph)
    x = graph.x
    if x is None:
        raise GraphError("the graph has no features x", "graph.x = torch.ones(nodes, 1), or better")
    if not isinstance(x, Tensor):
        raise GraphError(f"x is a {type(x).__name__}, not a tensor", "graph.x = torch.as_tensor(x)")
    if x.layout != torch.strided:
        raise GraphError(f"x is stored as {x.layout}", "graph.x = graph.x.to_dense()")
    if x.is_nested:
        raise GraphError("x is nested, not a matrix", "graph.x = graph.x.to_padded_tensor(0)")
    if x.dtype not in FLOATS:
        raise GraphError(f"x has dtype {x.dtype}, not a float", "graph.x = graph.x.float()")
    if x.dim() != 2:
        raise GraphError(
            f"x has shape {tuple(x.shape)}, not [nodes, features]",
            "graph.x = graph.x.view(nodes, features)",
        )
    if x.numel() == 0:
        raise GraphError(
            f"the graph is empty: x has {x.size(0)} nodes and {x.size(1)} features",
            "give a graph with at least one node and one feature",
        )
    return x


def finite_features(graph: Data) -> Tensor:  # -> [nodes, features]
    """:func:`features`, known to hold neither NaN nor infinity.

    Raises:
        GraphError: naming the first node and feature that are not finite.
    """
    x = features(graph)
    if x.is_meta:
        raise GraphError("x is on meta, where there are no numbers", "give x with its numbers")
    if bool(x.sum().isfinite()):  # one number that is not would show in the sum
        return x
    bad = ~x.isfinite()
    if bad.any():
        node, feature = first(bad)
        raise GraphError(
            f"x[{node}, {feature}] is {x[node, feature].item()}: "
            f"node {node}, feature {feature} is not finite",
            "replace it, as by graph.x = graph.x.nan_to_num(0, 0, 0)",
        )
    return x


def _check_kind(graph: object) -> None:
    if isinstance(graph, HeteroData):
        raise GraphError(
            "the graph is a HeteroData; only vg.predict takes several kinds of nodes",
            "graph.to_homogeneous(), if its node types share their features",
        )
    if not isinstance(graph, Data):
        raise GraphError(
            f"the graph is a {type(graph).__name__}, not a torch_geometric.data.Data",
            "Data(x=features, edge_index=links)",
        )


def links(graph: Data) -> Tensor | None:  # -> [2, edges]
    """``graph.edge_index`` as a plain tensor whose node numbers exist; None where ``adj_t`` serves.

    Raises:
        GraphError: if there are links in neither form, or they do not fit the features.
    """
    x = features(graph)
    edge_index, adjacency = graph.edge_index, getattr(graph, "adj_t", None)
    if edge_index is None and adjacency is not None:
        _check_adjacency(adjacency, x)
        return None
    if edge_index is None:
        raise GraphError(
            "the graph has no links edge_index",
            "graph.edge_index = torch.empty(2, 0, dtype=torch.long), if there really are none",
        )
    plain: Tensor = edge_index.as_tensor() if isinstance(edge_index, EdgeIndex) else edge_index
    check_form(plain)
    check_device("edge_index", plain, x)
    _check_range(plain, nodes=x.size(0))
    return plain


def check_device(name: str, value: Tensor, other: Tensor) -> None:
    """Raises where two parts of a graph lie on different devices."""
    if value.device != other.device:
        raise GraphError(
            f"{name} is on {value.device}, the rest of the graph on {other.device}",
            f"graph = graph.to({str(other.device)!r})",
        )


def _check_adjacency(adjacency: object, x: Tensor) -> None:
    if not isinstance(adjacency, Tensor) or adjacency.layout != torch.sparse_csr:
        kind = adjacency.layout if isinstance(adjacency, Tensor) else type(adjacency).__name__
        raise GraphError(
            f"adj_t is a {kind}, not a sparse CSR tensor of torch",
            "give edge_index, or graph.adj_t = "
            "torch_geometric.utils.to_torch_csr_tensor(edge_index.flip(0), size=nodes)",
        )
    nodes = x.size(0)
    if adjacency.shape != (nodes, nodes):
        raise GraphError(
            f"adj_t has shape {tuple(adjacency.shape)}, but the graph has {nodes} nodes",
            f"give a matrix of shape ({nodes}, {nodes})",
        )
    check_device("adj_t", adjacency, x)
    if not bool(adjacency.values().isfinite().all()):
        raise GraphError("adj_t holds NaN or infinity", "give finite weights, 1 for plain links")


def check_form(edge_index: object) -> None:
    """Raises unless links are a matrix of whole numbers, ``[2, edges]``."""
    if not isinstance(edge_index, Tensor):
        raise GraphError(
            f"edge_index is a {type(edge_index).__name__}, not a tensor",
            "graph.edge_index = torch.as_tensor(edge_index)",
        )
    if edge_index.layout != torch.strided:
        raise GraphError(
            f"edge_index is stored as {edge_index.layout}",
            "give node numbers [2, edges], or the transposed matrix as graph.adj_t",
        )
    if edge_index.dtype != torch.int64:
        raise GraphError(
            f"edge_index has dtype {edge_index.dtype}, not torch.int64",
            "graph.edge_index = graph.edge_index.long()",
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise GraphError(
            f"edge_index has shape {tuple(edge_index.shape)}, not [2, edges]",
            "give a row of sources and a row of targets; a list of pairs is edge_index.t()",
        )


def _check_range(edge_index: Tensor, *, nodes: int) -> None:  # [2, edges]
    bad = (edge_index < 0) | (edge_index >= nodes)
    if bad.any():
        row, edge = first(bad)
        raise GraphError(
            f"edge_index[{row}, {edge}] is node {edge_index[row, edge].item()}, "
            f"but the graph has nodes 0 to {nodes - 1}",
            f"correct or drop link {edge}, or add the missing rows to x",
        )


def feature_variance(graph: Data) -> Tensor:  # -> [nodes, features]
    r"""Variance :math:`\sigma^2_{nf}` of every feature, from ``graph.x_var``.

    ``x_var`` is a number for all, a vector ``[features]``, a column ``[nodes, 1]`` or a full
    matrix ``[nodes, features]``; without it the features count as exact and the variance is 0. A
    vector always means features, even where there are as many nodes; in a batch of graphs it may
    be what batching made of a number or a vector for each graph.

    Args:
        graph: with features ``x``, whose dtype and device the variance takes on.

    Returns:
        A matrix that may share memory with ``x_var``, so read it only.

    Raises:
        GraphError: if ``x_var`` fits no such shape, or is negative, NaN or infinite anywhere.
    """
    x = features(graph)
    batch = (graph.batch, graph.num_graphs) if isinstance(graph, Batch) else None
    return variances("x", getattr(graph, "x_var", None), x, "node, feature", batch)


def field_variance(graph: Data, name: str) -> Tensor | None:  # -> the shape of the field
    """Variance of every number in one of :data:`FIELDS`; None where the graph has no noise there.

    ``edge_attr_var`` and so on are given as ``x_var`` is, with edges in the place of nodes where
    the field has a row for each; of a field ``[edges]`` also as ``[edges]``.

    Args:
        graph: with links and the field.
        name: of the field.

    Raises:
        GraphError: the field is missing or no table of floats, or the variance does not fit it.
    """
    said, value = graph.get(f"{name}_var"), graph.get(name)
    if said is None:
        return None
    index = links(graph)
    of_edges = name.startswith("edge")
    kind, count = ("edge", graph.num_edges) if of_edges else ("node", len(graph.x))
    if not isinstance(value, Tensor) or value.dtype not in FLOATS or value.dim() not in (1, 2):
        kept = f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else "no tensor"
        raise GraphError(
            f"{name}_var is given, and {name} is {kept}: there is nothing that noise could move",
            f"give {name} as floats, [{kind}s] or [{kind}s, columns]; or leave {name}_var out",
        )
    check_device(name, value, graph.x)
    if len(value) != count or (of_edges and index is None):
        raise GraphError(
            f"{name} has {len(value)} rows, but there are {count} {kind}s",
            f"give {name} with one row for each {kind}",
        )
    batch = None
    if isinstance(graph, Batch):
        owner = graph.batch[index[0]] if of_edges and index is not None else graph.batch
        batch = owner, graph.num_graphs
    flat = value.dim() == 1
    table = value[:, None] if flat else value
    var = variances(name, said, table, f"{kind}, column", batch, flat=flat)
    return var[:, 0] if flat else var
