"""Several kinds of nodes and links: what is said if they are wrong; one graph of all of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData

from varigraph.data.graph_parts import (
    check_count,
    check_device,
    check_form,
    check_links_agree,
    check_one_kind,
    check_probabilities,
    check_spelling,
    feature_variance,
    finite_features,
)
from varigraph.data.noise import first
from varigraph.errors import GraphError

#: The name of a kind of links: those that they come from, what they mean, those that they go to.
Relation = tuple[str, str, str]
#: What a way back is called, by torch_geometric's ``ToUndirected``.
BACK = "rev_"
#: Uncertain inputs that only a graph of one kind of nodes and links may have.
OF_ONE_KIND = ("edge_attr_var", "edge_weight_var", "pos_var")


def check_graph(graph: Data | HeteroData) -> None:
    """Raises if no prediction on this graph could be right; otherwise does nothing.

    Looked at are the features ``x``, their variance ``x_var``, the links ``edge_index`` (or
    ``adj_t``, a sparse CSR matrix of torch) and their probabilities ``edge_prob``; of every kind of
    nodes and links, where there are several. Of a graph of one kind also ``edge_attr_var``,
    ``edge_weight_var`` and ``pos_var``.

    Args:
        graph: the graph, which stays as it is.

    Raises:
        GraphError: naming the first culprit and what to do about it.
    """
    if isinstance(graph, HeteroData):
        check_kinds(graph)
    else:
        check_one_kind(graph)


def check_kinds(graph: HeteroData) -> None:
    """Raises if no prediction on a graph of several kinds could be right.

    Args:
        graph: the graph, which stays as it is.

    Raises:
        GraphError: naming the kind, the culprit and what to do about it.
    """
    for kind in graph.node_types:
        with _blamed_on(kind):
            _check_nodes(graph, kind)
    for relation in graph.edge_types:
        with _blamed_on(relation):
            _check_relation(graph, relation)
    noisy = noisy_kinds(graph)
    if not noisy:
        raise GraphError(
            f"no kind of nodes has features x; there are {graph.node_types}",
            f"graph[{(graph.node_types or ['user'])[0]!r}].x = torch.ones(nodes, 1), or better",
        )
    one = graph[noisy[0]].x
    for kind in noisy[1:]:
        x = graph[kind].x
        check_device(f"x of {kind!r}", x, one)
        if x.dtype != one.dtype:
            raise GraphError(
                f"x of {kind!r} is {x.dtype}, x of {noisy[0]!r} is {one.dtype}",
                f"graph[{kind!r}].x = graph[{kind!r}].x.to({one.dtype})",
            )


@contextmanager
def _blamed_on(kind: str | Relation) -> Iterator[None]:
    """What is said here of a graph is said of one kind of its nodes or links."""
    try:
        yield
    except GraphError as error:
        remedy = error.remedy.replace("graph.", f"graph[{kind!r}].")
        raise GraphError(f"{kind!r}: {error.problem}", remedy) from error


def _check_nodes(graph: HeteroData, kind: str) -> None:
    alone = Data(**graph[kind].to_dict())
    check_spelling(alone)
    _refuse_further_noise(alone)
    if _is_stacked(alone.x) or alone.get("x_var") is not None:
        x = finite_features(alone)
        check_count(alone, nodes=len(x))
        var = alone.get("x_var")
        if isinstance(graph, Batch) and isinstance(var, Tensor) and var.dim() == 1:
            raise GraphError(
                f"x_var has {len(var)} numbers in a batch: for each graph or for each feature?",
                "give [nodes, 1] or [nodes, features] before graphs are put together",
            )
        feature_variance(alone)


def _check_relation(graph: HeteroData, relation: Relation) -> None:
    alone = Data(**graph[relation].to_dict())
    check_spelling(alone)
    _refuse_further_noise(alone)
    edge_index, prob = alone.edge_index, alone.get("edge_prob")
    if prob is not None and (edge_index is None or alone.get("adj_t") is not None):
        raise GraphError(
            "edge_prob needs the links as edge_index, and only so",
            "graph.edge_index = ..., in the order of edge_prob; del graph.adj_t",
        )
    if edge_index is None:
        return
    check_form(edge_index)
    ends = [node_count(graph, kind) for kind in (relation[0], relation[2])]
    for row, (kind, count) in enumerate(zip((relation[0], relation[2]), ends, strict=True)):
        bad = (edge_index[row] < 0) | (edge_index[row] >= count)
        if bool(bad.any()):
            edge = first(bad)[0]
            raise GraphError(
                f"edge_index[{row}, {edge}] is node {int(edge_index[row, edge])}, but there are "
                f"{count} nodes of kind {kind!r}, counted from 0",
                f"correct or drop link {edge}, or add the missing rows to x of {kind!r}",
            )
    if prob is not None:
        check_probabilities(prob, edge_index, torch.float32)
        check_links_agree(prob, edge_index, nodes=max(ends))


def _refuse_further_noise(alone: Data) -> None:
    for name in OF_ONE_KIND:
        if alone.get(name) is not None:
            raise GraphError(
                f"{name} is known to graphs of one kind of nodes and links only",
                f"del graph.{name}; noise in features and chances of links have x_var, edge_prob",
            )


def sources_of_kinds(graph: Data | HeteroData, fields: Mapping[str, str]) -> list[str]:
    """Names of sources of one kind, source:kind; a way back is of the kind that it is the way of.

    Args:
        graph: of one kind of nodes and links, which has none, or of several.
        fields: what makes each source uncertain.
    """
    if not isinstance(graph, HeteroData):
        return []
    found = ((source, _kinds_with(graph, field)) for source, field in fields.items())
    return list(dict.fromkeys(f"{source}:{kind}" for source, kinds in found for _, kind in kinds))


def only_kinds(graph: HeteroData, sources: Iterable[str], fields: Mapping[str, str]) -> HeteroData:
    """The graph with nothing uncertain but these kinds, for sources that name any.

    Args:
        graph: which stays as it is.
        sources: as users name them, with or without kinds.
        fields: what makes each source uncertain.
    """
    found, listed = copy.copy(graph), set(sources)
    for source, field in fields.items():
        if source not in listed and any(each.startswith(f"{source}:") for each in listed):
            for store, kind in _kinds_with(found, field):
                if f"{source}:{kind}" not in listed:
                    del store[field]
    return found


def _kinds_with(graph: HeteroData, field: str) -> list[tuple[Any, str]]:
    """Where a field is kept, and what the kind is called there."""
    nodes = [(store, kind) for kind, store in graph.node_items()]
    links = [(store, relation[1].removeprefix(BACK)) for relation, store in graph.edge_items()]
    return [(store, kind) for store, kind in (*nodes, *links) if field in store]


def _is_stacked(x: object) -> bool:
    """Whether features are numbers that may have noise; others are handed on as they are."""
    return isinstance(x, Tensor) and x.is_floating_point()


def noisy_kinds(graph: HeteroData) -> list[str]:
    """The kinds of nodes with features that are, or could be, uncertain."""
    return [kind for kind in graph.node_types if _is_stacked(graph[kind].get("x"))]


def node_count(graph: HeteroData, kind: str) -> int:
    """How many nodes of a kind there are; as many as links need, where nothing else tells."""
    store = graph[kind]
    if any(name in store for name in ("x", "num_nodes", "pos", "batch")):
        return int(store.num_nodes or 0)
    known = [store[name] for name in store if isinstance(store[name], Tensor) and store[name].dim()]
    ends = [
        1 + int(links.edge_index[row].max())
        for relation in graph.edge_types
        if (links := graph[relation]).get("edge_index") is not None and links.edge_index.numel()
        for row, name in ((0, relation[0]), (1, relation[2]))
        if name == kind
    ]
    return len(known[0]) if known else max(ends, default=0)


def field_of(graph: Data | HeteroData, field: str) -> Any:
    """A field of the graph; a dict by kind, where there are several; None where it has none."""
    if field == "edge_index":
        one, other = _field_of(graph, "edge_index"), _field_of(graph, "adj_t")
        several = isinstance(one, dict) and isinstance(other, dict)
        return {**other, **one} if several else other if one is None else one
    return _field_of(graph, field)


def _field_of(graph: Data | HeteroData, field: str) -> Any:
    if not isinstance(graph, HeteroData):
        return graph.get(field)
    stores = dict([*graph.node_items(), *graph.edge_items()])
    by_kind = {kind: store[field] for kind, store in stores.items() if field in store}
    return by_kind or graph._global_store.get(field)


class StackedGraph(Data):  # type: ignore[misc]
    r"""All kinds of nodes in one matrix of features, all kinds of links in one list.

    Kinds stand below each other. Those whose noise is the same for all features share columns;
    others have columns of their own, so that the variance of all is a product
    :math:`n_w f_k` wherever it is one for each kind. What stands beside the features of a kind is
    seen by nobody.

    Attributes:
        whole: the graph of several kinds.
        places: rows and columns of the features of each kind.
        relations: the kinds of links in the list, and how many each has.
        coin_ends: the links with numbers for their ends such that those of other relations are
            never the same, and those of a way back are, ``[2, edges]``.
        coin_nodes: number of these numbers.
    """

    whole: HeteroData
    places: dict[str, tuple[slice, slice]]
    relations: dict[Relation, int]
    coin_ends: Tensor
    coin_nodes: int

    @classmethod
    def of(cls, graph: HeteroData, answered: object = None) -> StackedGraph:
        """Put a graph of several kinds into one, which :func:`check_kinds` has looked at.

        Args:
            graph: which stays as it is.
            answered: the kind of nodes whose names count, if it is one.
        """
        places, x, var = _stacked_features(graph)
        found = cls(x=x, x_var=var)
        listed = [each for each in graph.edge_types if graph[each].get("edge_index") is not None]
        counts = {each: graph[each].edge_index.size(1) for each in listed}
        found.__dict__.update(whole=graph, places=places, relations=counts)
        found._list_links(graph)
        if isinstance(answered, str) and answered in graph.node_types:
            found.node_names = graph[answered].get("node_names")
        return found

    def _list_links(self, graph: HeteroData) -> None:
        start, nodes = {}, 0
        for kind in graph.node_types:
            start[kind], nodes = nodes, nodes + node_count(graph, kind)
        ends, apart, group = [], [], {each: k for k, each in enumerate(self.relations)}
        for each in self.relations:
            index = graph[each].edge_index.as_subclass(Tensor)
            ends.append(index + index.new_tensor([[start[each[0]]], [start[each[2]]]]))
            apart.append(ends[-1] + nodes * group[_forth(each, self.relations)])
        none = self.x.new_zeros((2, 0), dtype=torch.long)
        self.edge_index, self.num_nodes = torch.cat([none, *ends], 1), len(self.x)
        coin_ends = torch.cat([none, *apart], 1)
        self.__dict__.update(coin_ends=coin_ends, coin_nodes=max(1, nodes * len(group)))
        if any(graph[each].get("edge_prob") is not None for each in self.relations):
            self.edge_prob = torch.cat([_chances(graph, each, self.x) for each in self.relations])

    def apart(self, x: Any) -> HeteroData:  # [nodes, features]
        """The graph of several kinds, with what stands in the place of the features."""
        found = copy.copy(self.whole)
        for kind, (rows, columns) in self.places.items():
            found[kind].x = x[rows, columns].contiguous()
        return found


def _forth(relation: Relation, known: dict[Relation, int]) -> Relation:
    """The relation that this is the way back of; itself, if it is none."""
    one, name, two = relation
    forth = (two, name.removeprefix(BACK), one)
    return forth if name.startswith(BACK) and forth in known else relation


def _chances(graph: HeteroData, relation: Relation, like: Tensor) -> Tensor:  # [edges]
    prob: Tensor | None = graph[relation].get("edge_prob")
    if prob is None:
        return like.new_ones(graph[relation].edge_index.size(1))
    return prob.to(like)


def _stacked_features(
    graph: HeteroData,
) -> tuple[dict[str, tuple[slice, slice]], Tensor, Tensor]:
    """Where each kind stands; all features, and their variances, ``[nodes, features]``."""
    kinds = noisy_kinds(graph)
    alone = {kind: Data(x=graph[kind].x, x_var=graph[kind].get("x_var")) for kind in kinds}
    variances = {kind: feature_variance(data) for kind, data in alone.items()}
    shared = [kind for kind in kinds if _is_even(variances[kind])]
    width = max((graph[kind].x.size(1) for kind in shared), default=0)
    places, row = {}, 0
    for kind in kinds:
        nodes, features = graph[kind].x.shape
        column = 0 if kind in shared else width
        width += 0 if kind in shared else features
        places[kind] = slice(row, row + nodes), slice(column, column + features)
        row += nodes
    x = graph[kinds[0]].x.new_zeros(row, width)
    node, feature = x.new_ones(row, 1), x.new_ones(width)
    uneven = []
    for kind, (rows, columns) in places.items():
        x[rows, columns] = graph[kind].x
        var = variances[kind]
        if kind in shared:
            node[rows] = var[:, :1]
        elif _is_same(var):
            feature[columns] = var[0]
        else:
            uneven.append(kind)
    product = (node * feature).contiguous() if uneven else node * feature
    for kind in uneven:  # by node and by feature at once: only draws can tell
        product[places[kind]] = variances[kind]
    return places, x, product


def _is_even(var: Tensor) -> bool:  # [nodes, features]
    """Whether all features of a node have the same variance."""
    return var.stride(1) == 0 or bool((var == var[:, :1]).all())


def _is_same(var: Tensor) -> bool:  # [nodes, features]
    """Whether all nodes have the same variances."""
    return var.stride(0) == 0 or bool((var == var[:1]).all())
