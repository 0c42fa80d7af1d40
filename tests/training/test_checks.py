import copy

import pytest
import torch
from torch_geometric.nn import SAGEConv

from varigraph.errors import GraphError, ModelError
from varigraph.training import paper_network
from varigraph.training.train import check_trainable


def changed(graph, **values):
    other = copy.copy(graph)
    other.update(values)
    return other


def test_a_good_pair_passes(graph):
    check_trainable(paper_network(graph), graph)


@pytest.mark.parametrize("name", ["train_mask", "val_mask", "y", "x", "edge_index"])
def test_what_is_missing_is_named(graph, name):
    model, lacking = paper_network(graph), copy.copy(graph)
    del lacking[name]
    with pytest.raises(GraphError, match=rf"\b{name}\b"):
        check_trainable(model, lacking)


@pytest.mark.parametrize("y", [-torch.ones(80).long(), torch.ones(80), torch.ones(79).long()])
def test_labels_that_are_no_classes_are_refused(graph, y):
    with pytest.raises(GraphError, match="classes"):
        check_trainable(paper_network(graph), changed(graph, y=y))


def test_an_empty_mask_is_refused(graph):
    with pytest.raises(GraphError, match="val_mask"):
        check_trainable(paper_network(graph), changed(graph, val_mask=graph.val_mask & False))


def test_a_network_that_does_not_fit_is_refused(graph):
    with pytest.raises(ModelError, match=r"float64[\s\S]*graph.x.to"):
        check_trainable(paper_network(graph).double(), graph)
    with pytest.raises(ModelError, match="meta"):
        check_trainable(paper_network(graph).to("meta"), graph)
    with pytest.raises(ModelError, match="no size yet"):
        check_trainable(SAGEConv(-1, 2), graph)
