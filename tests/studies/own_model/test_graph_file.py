import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from cli.own_networks import NAMES, small_graph
from varigraph.data import read_links
from varigraph.errors import DatasetError, FileError, GraphError
from varigraph.studies.own_model.saved_files import read_graph


def arrays(**more):
    graph = small_graph()
    return {"x": graph.x.numpy(), "edge_index": graph.edge_index.numpy(), **more}


def same(one, two):
    assert torch.equal(one.x, two.x)
    assert torch.equal(one.edge_index, two.edge_index)


@pytest.mark.parametrize("form", [lambda g: g, lambda g: g.to_dict(), lambda g: (g, None)])
def test_saved_graphs(tmp_path, form):
    graph = small_graph(x_var=0.5, edge_prob=torch.full((30,), 0.5))
    torch.save(form(graph), tmp_path / "graph.pt")
    found = read_graph(str(tmp_path / "graph.pt"))
    same(found, graph)
    assert found.x_var == 0.5
    assert torch.equal(found.edge_prob, graph.edge_prob)


def test_a_graph_of_a_link_file_is_read_back(tmp_path):
    (tmp_path / "links.tsv").write_text("a\tb\t0.9\nb\tc\t0.5\nb\ta\t0.9\n")
    graph = read_links(tmp_path / "links.tsv")
    graph.x = torch.ones(3, 2)
    torch.save(graph, tmp_path / "graph.pt")
    found = read_graph(str(tmp_path / "graph.pt"))
    same(found, graph)
    assert found.reading == graph.reading
    assert found.reading.duplicates == 1


@pytest.mark.parametrize("names", [np.array(NAMES), np.array([name.encode() for name in NAMES])])
def test_arrays(tmp_path, names):
    held = arrays(x_var=np.float64(0.5), edge_prob=np.full(30, 0.5, dtype=">f4"), node_names=names)
    held["edge_index"] = held["edge_index"].astype(np.uint16)
    held["train_mask"] = np.arange(12) < 4
    np.savez(tmp_path / "graph.npz", **held)
    found = read_graph(str(tmp_path / "graph.npz"))
    same(found, small_graph())
    assert found.node_names == NAMES
    assert found.x_var.item() == 0.5
    assert torch.equal(found.edge_prob, torch.full((30,), 0.5))
    assert found.train_mask.sum() == 4


def test_a_data_set_by_its_name():
    assert read_graph("Cora").num_nodes == 2708


@pytest.mark.parametrize("kind", ["graph.npz", "graph.pt"])
def test_names_that_mean_nothing_are_refused(tmp_path, kind):
    held = arrays(edge_probs=np.full(30, 0.5))
    if kind.endswith(".npz"):
        np.savez(tmp_path / kind, **held)
    else:
        torch.save({name: torch.from_numpy(value) for name, value in held.items()}, tmp_path / kind)
    with pytest.raises(FileError, match="'edge_probs', whose meaning is unknown") as caught:
        read_graph(str(tmp_path / kind))
    assert "did you mean edge_prob?" in caught.value.remedy


@pytest.mark.parametrize(("name", "known"), [("edge_probs", "edge_prob"), ("x_variance", "x_var")])
def test_misspelt_noise_of_a_saved_data_is_refused(tmp_path, name, known):
    torch.save(small_graph(**{name: torch.full((30,), 0.5)}), tmp_path / "graph.pt")
    with pytest.raises(FileError, match=f"'{name}', whose meaning is unknown") as caught:
        read_graph(str(tmp_path / "graph.pt"))
    assert f"did you mean {known}?" in caught.value.remedy


def test_a_saved_data_may_have_more_of_its_own(tmp_path):
    torch.save(small_graph(edge_type=torch.zeros(30), x_val=1.0), tmp_path / "graph.pt")
    assert read_graph(str(tmp_path / "graph.pt")).x_val == 1.0


@pytest.mark.parametrize(
    ("name", "near"), [("edge_idx", "edge_index"), ("nodes_names", "node_names")]
)
def test_other_names_are_answered_by_the_nearest(tmp_path, name, near):
    np.savez(tmp_path / "graph.npz", **arrays(**{name: np.ones(3)}))
    with pytest.raises(FileError, match=f"'{name}', whose meaning is unknown") as caught:
        read_graph(str(tmp_path / "graph.npz"))
    assert f"did you mean {near}?" in caught.value.remedy


def test_a_name_that_is_near_to_nothing_is_answered_by_all(tmp_path):
    np.savez(tmp_path / "graph.npz", **arrays(temperature=np.ones(3)))
    with pytest.raises(FileError) as caught:
        read_graph(str(tmp_path / "graph.npz"))
    assert "use the names x, edge_index, x_var, edge_prob" in caught.value.remedy


def test_objects_in_arrays_are_not_unpickled(tmp_path):
    np.savez(tmp_path / "graph.npz", **arrays(node_names=np.array([object()] * 12)))
    with pytest.raises(FileError, match="without running code"):
        read_graph(str(tmp_path / "graph.npz"))


@pytest.mark.parametrize(
    ("held", "error", "problem"),
    [
        ([small_graph()], FileError, "holds a list, not one graph"),
        (torch.ones(3), FileError, "holds a Tensor"),
        (HeteroData(), GraphError, "HeteroData"),
        (Data(x=torch.ones(3, 2), node_names=["a"]), GraphError, "1 node_names for 3 nodes"),
    ],
)
def test_what_is_no_graph(tmp_path, held, error, problem):
    torch.save(held, tmp_path / "graph.pt")
    with pytest.raises(error, match=problem):
        read_graph(str(tmp_path / "graph.pt"))


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "graph.npz").write_bytes(b"half")
    with pytest.raises(FileError, match="cannot be read"):
        read_graph(str(tmp_path / "graph.npz"))
    (tmp_path / "graph.txt").write_text("0 1")
    with pytest.raises(FileError, match=r"\.txt files"):
        read_graph(str(tmp_path / "graph.txt"))
    with pytest.raises(DatasetError, match="no file, folder or data set"):
        read_graph(str(tmp_path / "none.pt"))
