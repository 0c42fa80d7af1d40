import os
import pickle
import warnings
import zipfile

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from varigraph.errors import FileError
from varigraph.studies.own_model.saved_files import read_pickle


class Spy:
    """Its pickle creates a folder when it is read with code."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def read(path):
    return read_pickle(path, remedy="save it anew")


def test_graphs_come_back_with_all_that_they_had(tmp_path):
    graph = Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), x_var=0.5)
    graph.node_names = ["a", "b", "c"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its own sparse matrices beta
        graph.adj_t = torch.eye(3).to_sparse_csr()
    torch.save(graph, tmp_path / "graph.pt")
    back = read(tmp_path / "graph.pt")
    assert isinstance(back, Data)
    assert back.keys() == graph.keys()
    assert torch.equal(back.x, graph.x)
    assert back.node_names == ["a", "b", "c"]
    assert torch.equal(back.adj_t.to_dense(), torch.eye(3))


def test_what_is_allowed_here_is_not_allowed_elsewhere_afterwards(tmp_path):
    torch.save(Data(x=torch.ones(1, 1)), tmp_path / "graph.pt")
    read(tmp_path / "graph.pt")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "graph.pt", weights_only=True)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(
    "hide", [lambda spy: spy, lambda spy: {"x": [spy]}, lambda spy: Data(x=spy)]
)
def test_code_is_not_run(tmp_path, hide, old):
    path, created = tmp_path / "bad.pt", tmp_path / "created"
    torch.save(hide(Spy(created)), path, _use_new_zipfile_serialization=not old)
    with pytest.raises(FileError, match="could run code; nothing was run") as caught:
        read(path)
    assert "mkdir" in caught.value.problem
    assert not created.exists()
    torch.load(path, weights_only=False)  # the trap does work
    assert created.exists()


@pytest.mark.parametrize("content", [b"", b"half", b"PK\x03\x04 half", pickle.dumps({"x": 1})])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "bad.pt"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"bad\.pt: ") as caught:
        read(path)
    assert caught.value.remedy


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"weight": torch.arange(1000.0)}, path)
    content = bytearray(path.read_bytes())
    place = content.index(torch.arange(500.0, 510.0).numpy().tobytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileError, match="wrong checksum"):
        read(path)
    assert zipfile.is_zipfile(path)


def test_a_missing_file_and_another_kind_of_graph(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        read(tmp_path / "none.pt")
    torch.save(HeteroData(), tmp_path / "hetero.pt")
    assert isinstance(read(tmp_path / "hetero.pt"), HeteroData)
