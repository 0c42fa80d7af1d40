import os

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import varigraph as vg
from varigraph.errors import OptionError
from varigraph.prediction import memory
from varigraph.prediction.memory import as_bytes


@pytest.mark.parametrize("amount", ["", "GiB", "-1GiB", "2 TB", 0, "0MiB", "1e3"])
def test_what_is_no_amount_is_refused(amount):
    with pytest.raises(OptionError, match="not an amount of memory"):
        as_bytes(amount)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of 64 pages of 1,000 bytes, in a container without a bound."""
    pages = {"SC_PAGE_SIZE": 1_000, "SC_PHYS_PAGES": 64}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(memory, "CONTAINER", tmp_path / "memory.max")
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    (tmp_path / "memory.max").write_text("max\n")
    return tmp_path / "memory.max"


def test_half_is_that_of_the_machine(machine):
    assert as_bytes("half") == 32_000
    machine.unlink()
    assert as_bytes("half") == 32_000


def test_half_of_a_container_is_less(machine):
    machine.write_text("20000\n")
    assert as_bytes("half") == 10_000


def test_processes_of_one_machine_share_its_half(machine, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert as_bytes("half") == 8_000


def test_a_machine_that_does_not_tell(machine, monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    assert as_bytes("half") == memory.USUAL_RAM // 2


def test_half_of_what_is_free_on_a_gpu_counts_what_torch_keeps(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (500, 9_000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 300)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 100)
    assert as_bytes("half", torch.device("cuda")) == 350


@pytest.mark.parametrize("method", ["diagonal", "first-order", "sampled"])
def test_a_prediction_says_by_how_much_it_was_bounded(method):
    graph = Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), x_var=0.1)
    model = GCN(2, 4, 2, 2, dropout=0.5).eval()
    assert vg.predict(model, graph, method=method, memory="300MB").memory == 300_000_000
    assert vg.predict(model, graph, method=method).memory == as_bytes("half")
