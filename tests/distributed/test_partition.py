import json
import shutil

import numpy as np
import pytest
import torch

from distributed.graphs import FEATURES, NODES, small_graph
from varigraph.distributed import Partition, dividing, large_graph, partition
from varigraph.distributed.share import Share
from varigraph.errors import FileError, GraphError, OptionError
from varigraph.moments.links import coins_of


@pytest.mark.parametrize("by", ["range", "hash"])
def test_parts_hold_the_links_of_their_nodes_and_what_these_look_at(tmp_path, by):
    graph = small_graph()
    found = partition(graph, tmp_path / "parts", parts=3, by=by)
    assert (found.parts, found.nodes, found.links) == (3, NODES, graph.num_edges)
    assert (found.noisy, found.uncertain_links) == (True, True)
    coin = coins_of(graph.edge_index, graph.edge_prob, NODES).of_edge
    seen_nodes, seen_links = [], []
    for number in range(3):
        share = Share(found, number, 3)
        data, own = share.data(), share.own
        known, links = share.numbering.nodes, data.edge_index[:, :-1]  # one is filling
        seen_nodes += own.tolist()
        seen_links += share.numbering.links[:-1].tolist()
        # All links that lead to its nodes, in the order of the whole, and no others.
        listed = np.flatnonzero(np.isin(graph.edge_index[1], own))
        assert share.numbering.links[:-1].tolist() == listed.tolist()
        assert torch.equal(torch.from_numpy(known)[links], graph.edge_index[:, listed])
        assert (links[1] < len(own)).all()
        assert (data.edge_index[:, -1] >= share.known).all()
        ends = len(own) + len(share.far)
        assert torch.equal(data.x[:ends], graph.x[known[:ends]])
        assert torch.equal(data.x_var[:ends], graph.x_var[known[:ends]])
        assert torch.equal(data.edge_prob[:-1], graph.edge_prob[listed])
        assert share.numbering.coins[:-1].tolist() == coin[listed].tolist()
        assert set(share.far) == set(graph.edge_index[0, listed].tolist()) - set(own.tolist())
    assert sorted(seen_nodes) == list(range(NODES))
    assert sorted(seen_links) == list(range(graph.num_edges))


def test_every_row_that_is_sent_arrives_where_it_is_waited_for(tmp_path):
    found = partition(small_graph(), tmp_path, parts=4, by="hash")
    parts = [found.open(number) for number in range(4)]
    sent = [np.split(part.own[part.sent], np.cumsum(part.sent_counts)[:-1]) for part in parts]
    for number, part in enumerate(parts):
        arriving = np.concatenate([each[number] for each in sent])
        assert arriving.tolist() == part.far.tolist()
    assert found.rows_exchanged == sum(len(part.sent) for part in parts)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_processes_with_several_parts_wait_for_what_they_are_sent(tmp_path, count):
    found = partition(small_graph(), tmp_path, parts=5, by="hash")
    shares = [Share(found, rank, count) for rank in range(count)]
    sent = [np.split(share.own[share.sent], np.cumsum(share.sent_counts)[:-1]) for share in shares]
    for rank, share in enumerate(shares):
        arriving = np.concatenate([each[rank] for each in sent])
        assert arriving.tolist() == share.far.tolist()
        assert share.far_counts == [len(each[rank]) for each in sent]
        # What a value is about is told by its number of rows, whatever a layer adds or drops.
        numbers, rows = share.numbering, share.rows
        between, links = len(numbers.between), len(numbers.links)
        kinds = {rows, between, links, rows + between, rows + links}
        assert len(kinds) == (3 if between == links else 5)
    assert np.concatenate([share.own for share in shares]).size == NODES


def test_coins_are_numbered_alike_however_many_are_counted_together(tmp_path, monkeypatch):
    monkeypatch.setattr(dividing, "COINS_AT_ONCE", 7)
    monkeypatch.setattr(large_graph, "PIECE", 10)
    graph = small_graph()
    found = partition(graph, tmp_path, parts=2, by="range")
    coin = coins_of(graph.edge_index, graph.edge_prob, NODES).of_edge
    for number in range(2):
        part = found.open(number)
        assert part.coins.tolist() == coin[part.links].tolist()


def test_ranges_have_about_as_many_links_each(tmp_path):
    hub = torch.stack([torch.arange(1, 41), torch.zeros(40, dtype=torch.long)])
    ring = torch.stack([torch.arange(41), (torch.arange(41) + 1) % 41])
    from torch_geometric.data import Data

    graph = Data(x=torch.ones(41, 1), edge_index=torch.cat([hub, ring], dim=1))
    found = partition(graph, tmp_path, parts=3, by="range")
    own = [found.counts(part)["own"] for part in range(3)]
    assert own[0] < own[1]  # the first has the hub
    assert all(own)
    assert sum(own) == 41


def as_files(graph, folder, kind):
    if kind == "npy":
        for name, value in graph:
            np.save(folder / f"{name}.npy", value.numpy())
        return sorted(folder.glob("*.npy"))
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    source, target = graph.edge_index.numpy()
    links = {"source": source, "target": target, "edge_prob": graph.edge_prob.numpy()}
    parquet.write_table(arrow.table(links), folder / "links.parquet")
    columns = {f"x_{k}": graph.x[:, k].numpy() for k in range(FEATURES)}
    lists = arrow.array(list(graph.x_var.numpy()))
    nodes = arrow.table({"node": np.arange(NODES), **columns, "x_var": lists})
    parquet.write_table(nodes, folder / "nodes.parquet")
    return [folder / "links.parquet", folder / "nodes.parquet"]


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_files_give_the_same_parts_as_the_graph_in_memory(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(large_graph, "PIECE", 64)
    graph, files = small_graph(), tmp_path / "files"
    files.mkdir()
    there = partition(graph, tmp_path / "memory", parts=2)
    found = partition(as_files(graph, files, kind), tmp_path / "disk", parts=2)
    assert found.fingerprint == there.fingerprint
    assert not (tmp_path / "disk" / "scratch").exists()


def test_parts_that_are_missing_damaged_or_of_another_graph_are_refused(tmp_path):
    found = partition(small_graph(), tmp_path / "one", parts=2)
    other = small_graph()
    other.x = other.x + 1
    partition(other, tmp_path / "other", parts=2)
    shutil.copytree(tmp_path / "one", tmp_path / "mixed")
    shutil.rmtree(tmp_path / "mixed" / "part-00001")
    with pytest.raises(FileError, match="part-00001: is missing"):
        Partition.read(tmp_path / "mixed").open(1)
    shutil.copytree(tmp_path / "other" / "part-00001", tmp_path / "mixed" / "part-00001")
    with pytest.raises(FileError, match="not part 1 of this graph"):
        Partition.read(tmp_path / "mixed").open(1)
    (found.folder / "part-00000" / "link.npy").write_bytes(b"short")
    with pytest.raises(FileError, match="another size"):
        found.open(0)
    manifest = found.folder / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "nodes": 7}))
    with pytest.raises(FileError, match="damaged"):
        Partition.read(found.folder)


def test_graphs_and_options_that_cannot_be_right_are_refused(tmp_path):
    graph = small_graph()
    with pytest.raises(OptionError, match="31 parts of 30 nodes"):
        partition(graph, tmp_path / "a", parts=31)
    with pytest.raises(OptionError, match="would have no node"):
        partition(graph, tmp_path / "b", parts=29, by="hash")
    graph.edge_index[0, 3] = NODES
    with pytest.raises(GraphError, match="link 3 has the end 30"):
        partition(graph, tmp_path / "c", parts=2)
    with pytest.raises(FileError, match="none of the files"):
        partition([tmp_path / "graph.txt"], tmp_path / "d", parts=2)
