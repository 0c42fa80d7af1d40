import pytest
import torch

from cli.own_networks import NODES, small_graph
from varigraph.errors import OptionError
from varigraph.studies.own_model.answers import chosen_nodes


@pytest.fixture
def named():
    """Names that are numbers, but not those of the nodes."""
    return small_graph(node_names=[str(NODES - n) for n in range(NODES - 1)] + ["2"])


def test_all_by_default(named):
    assert chosen_nodes(None, named) == list(range(NODES))


def test_numbers_and_masks_and_files(tmp_path):
    graph = small_graph(test_mask=torch.arange(NODES) > 9)
    assert chosen_nodes(" 5, 0,5", graph) == [5, 0, 5]
    assert chosen_nodes("test", graph) == chosen_nodes("test_mask", graph) == [10, 11]
    (tmp_path / "nodes.txt").write_text("3\n\n 1 \n")
    assert chosen_nodes(str(tmp_path / "nodes.txt"), graph) == [3, 1]


def test_a_name_that_is_a_number_is_a_name(named):
    assert chosen_nodes("12,5", named) == [0, 7]
    with pytest.raises(OptionError, match="no node is called '0'"):
        chosen_nodes("0", named)
    with pytest.raises(OptionError, match="more than one node is called '2'"):
        chosen_nodes("2", named)


@pytest.mark.parametrize("text", ["", ",", "x", "1.5", "-1", "12", "y"])
def test_nodes_that_are_not_there(text):
    graph = small_graph(y=torch.zeros(NODES, dtype=torch.long))
    with pytest.raises(OptionError):
        chosen_nodes(text, graph)


def test_an_empty_mask():
    graph = small_graph(test_mask=torch.zeros(NODES, dtype=torch.bool))
    with pytest.raises(OptionError, match="names no node"):
        chosen_nodes("test", graph)
