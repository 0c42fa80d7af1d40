import pytest

from varigraph.choices import DATASETS
from varigraph.errors import DatasetError
from varigraph.studies.dataset_facts import ORIGINS, SIZES, dataset_facts


def test_every_data_set_is_described():
    assert set(SIZES) == set(ORIGINS) == set(DATASETS)


def sizes(graph):
    links = graph.edge_index
    once = int((links[0] < links[1]).sum() + (links[0] == links[1]).sum())
    return graph.num_nodes, once, graph.num_features, int(graph.y.max()) + 1


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "computers"])
def test_sizes_are_those_of_the_files(name, stored, real_data):
    size = SIZES[name]
    assert sizes(stored(name)) == (size.nodes, size.links, size.features, size.classes)
    assert dataset_facts(name, root=real_data).there


def test_an_unknown_name():
    with pytest.raises(DatasetError, match="coral"):
        dataset_facts("coral")
