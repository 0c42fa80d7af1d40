import pytest
import torch
from torch_geometric.data import Data

from varigraph.errors import FileError, OptionError
from varigraph.studies.links import LinkSource, link_source

GRAPH = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)


def applied(source, graph=GRAPH):
    return source.applied(
        graph, "cora", seed=0, folder=None, root=None, progress=lambda fraction, what: None
    )


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "seal"  # the name of a method, but a file by its path
    path.write_text("1 0 0.25\n1 2 0.75\n")
    return path


def test_methods_keep_their_name_and_files_get_their_whole_path(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    assert link_source(None) is None
    assert link_source("seal") == "seal"
    assert link_source("./seal") == str(path)


@pytest.mark.parametrize("links", ["auto", "sael", ".", ""])
def test_what_is_neither_is_refused(links):
    with pytest.raises(OptionError, match=r"no file and no method[\s\S]*seal"):
        link_source(links)


def test_the_links_of_a_file_are_applied_to_a_copy(path):
    graph = applied(LinkSource.of(str(path), GRAPH))
    assert graph.edge_prob.tolist() == [0.25, 0.25, 0.75, 0.75]
    assert "edge_prob" not in GRAPH


def test_without_a_source_the_graph_stays(path):
    source = LinkSource.of(None, GRAPH)
    assert applied(source) is GRAPH
    assert source.fingerprint is None


def test_the_fingerprint_follows_the_numbers_not_the_file(path):
    first = LinkSource.of(str(path), GRAPH).fingerprint
    path.write_text("# the same\n2 1 0.75\n0 1 0.25\n")
    assert LinkSource.of(str(path), GRAPH).fingerprint == first
    path.write_text("2 1 0.75\n0 1 0.26\n")
    assert LinkSource.of(str(path), GRAPH).fingerprint != first


def test_mistakes_show_before_any_work(path):
    path.write_text("0 1 0.5\n")
    with pytest.raises(FileError, match="lacks the link 1 - 2"):
        LinkSource.of(str(path), GRAPH)
