from __future__ import annotations

import warnings

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_torch_csr_tensor

from data.tiny_photo import write_photo


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The cache folder of this test alone; the user's own is never touched."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "varigraph"


@pytest.fixture
def photo(tmp_path, monkeypatch):
    """A root that holds a Photo of 5 nodes, in the format of the real one."""
    monkeypatch.delenv("VARIGRAPH_DATA", raising=False)
    monkeypatch.setenv("VARIGRAPH_UNCHECKED", "photo")
    return write_photo(tmp_path / "root")


@pytest.fixture
def graph():
    """Two links there and back between three nodes of two features."""
    return Data(
        x=torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 3.0]]),
        edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
    )


@pytest.fixture
def sparse(graph):
    """The same graph with a sparse matrix in place of edge_index."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its own sparse matrices beta
        adjacency = to_torch_csr_tensor(graph.edge_index.flip(0), size=3)
    return Data(x=graph.x, adj_t=adjacency)
