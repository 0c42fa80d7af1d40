"""Files made to stall, to fill the memory or to run code: each is refused, and quickly."""

import gzip
import io
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.lib import format as npy
from torch_geometric.data import Data

import varigraph as vg
from varigraph.data import opened_files
from varigraph.errors import FileError, OptionError, VarigraphError
from varigraph.studies.own_model.saved_files import read_graph, read_weights

MB = 1 << 20
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")


def refusal(read, path):
    with pytest.raises(VarigraphError) as caught:
        read(path)
    assert caught.value.remedy
    return caught.value


def gzipped(path, piece, pieces):
    """Writes a repeated piece of a megabyte, of which the whole is never in memory."""
    with gzip.open(path, "wb", compresslevel=9) as stream:
        for _ in range(pieces):
            stream.write(piece)
    return path


def declared(path, sizes, *, content=b"", method=zipfile.ZIP_DEFLATED):
    """An archive whose entries are said to be as large as asked, though nearly nothing is there."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name in sizes:
            archive.writestr(name, content)
        for entry in archive.infolist():
            entry.file_size = sizes[entry.filename]
    return path


@pytest.fixture
def peak():
    """Megabytes that were in use at once since the test began, or since the last call."""

    def most():
        used = tracemalloc.get_traced_memory()[1] / MB
        tracemalloc.reset_peak()
        return used

    tracemalloc.start()
    yield most
    tracemalloc.stop()


# What is no file at all


@needs_pipes
@pytest.mark.parametrize("name", ["links.tsv", "links.csv", "links.graphml"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    assert "a pipe or a device" in refusal(vg.read_links, tmp_path / name).problem


@needs_pipes
def test_nor_is_one_by_the_other_readers(tmp_path):
    for name, read in {"a.pt": read_weights, "a.safetensors": read_weights}.items():
        os.mkfifo(tmp_path / name)
        assert "a pipe or a device" in refusal(read, tmp_path / name).problem
    os.mkfifo(tmp_path / "a.npz")
    assert "is no file" in refusal(read_graph, str(tmp_path / "a.npz")).problem


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_a_device_without_end_is_refused(tmp_path):
    (tmp_path / "links.tsv").symlink_to("/dev/zero")
    assert "a pipe or a device" in refusal(vg.read_links, tmp_path / "links.tsv").problem


def test_a_path_with_a_zero_byte_is_explained():
    assert "zero byte" in refusal(vg.read_links, "links\0.tsv").problem


# Text that grows


def test_gzip_of_blank_lines_is_given_up(tmp_path):
    path = gzipped(tmp_path / "links.tsv.gz", b"\n" * MB, 40)
    assert path.stat().st_size < MB / 10
    assert "nothing but blank lines" in refusal(vg.read_links, path).problem


@pytest.mark.parametrize("name", ["links.tsv.gz", "links.graphml.gz"])
def test_gzip_that_grows_out_of_proportion_is_given_up(tmp_path, name, peak, monkeypatch):
    monkeypatch.setenv(opened_files.UNPACKED_VARIABLE, "1")
    edge = b"<edge source='a' target='b'/>\n" if "graphml" in name else b"a b 0.5\n"
    path = gzipped(tmp_path / name, edge * (MB // len(edge)), 12)
    if "graphml" in name:
        path.write_bytes(gzip.compress(b"<graphml><graph>") + path.read_bytes())
    with pytest.raises(FileError, match="bytes unpack to more than") as caught:
        vg.read_links(path, score=False)
    assert "VARIGRAPH_UNPACKED_MB=" in caught.value.remedy
    assert peak() < 100


def test_the_bounds_are_as_documented(monkeypatch):
    monkeypatch.delenv(opened_files.UNPACKED_VARIABLE, raising=False)
    most = opened_files.most_unpacked
    assert most(1000, always=opened_files.TEXT) == 16 * MB
    assert most(MB, always=opened_files.TEXT) == 100 * MB
    assert most(MB, always=opened_files.ARRAYS) == 1024 * MB


def test_plain_blank_lines_are_given_up_as_well(tmp_path):
    path = tmp_path / "links.tsv"
    path.write_bytes(b"a b 0.5\n" + b"\n" * (1 << 21))
    error = refusal(vg.read_links, path)
    assert "nothing but blank lines" in error.problem
    assert 1 << 20 <= error.line < 1 << 21


def test_blank_lines_between_links_are_not_counted_together(tmp_path):
    path = tmp_path / "links.tsv"
    path.write_bytes((b"\n" * 300_000).join(b"a%d b 0.5\n" % n for n in range(6)))
    assert vg.read_links(path).num_edges == 12


def test_a_line_without_end_is_refused(tmp_path, peak):
    path = gzipped(tmp_path / "links.tsv.gz", b"a" * MB, 15)
    error = refusal(vg.read_links, path)
    assert "more than 65,536 characters" in error.problem
    assert error.line == 1
    assert peak() < 50


def test_lines_of_very_many_fields_do_not_add_up(tmp_path, peak):
    path = tmp_path / "links.tsv"
    path.write_bytes((b"a " * 32_000 + b"\n") * 200)
    assert "32000 columns instead of three" in refusal(vg.read_links, path).problem
    assert peak() < 60


def test_the_bound_can_be_moved(tmp_path, monkeypatch):
    text = "".join(f"a b{n % 50} 0.5\n" for n in range(120_000))
    path = tmp_path / "links.tsv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert len(text) > opened_files.RATIO * path.stat().st_size
    assert vg.read_links(path).num_nodes == 51
    monkeypatch.setenv(opened_files.UNPACKED_VARIABLE, "1")
    assert "unpack to more than" in refusal(vg.read_links, path).problem
    monkeypatch.setenv(opened_files.UNPACKED_VARIABLE, "4")
    assert vg.read_links(path).num_nodes == 51
    monkeypatch.setenv(opened_files.UNPACKED_VARIABLE, "much")
    with pytest.raises(OptionError, match="'much'"):
        vg.read_links(path)


# Archives that grow


def test_arrays_are_not_unpacked_to_find_out_how_large_they_are(tmp_path, peak):
    path = declared(tmp_path / "graph.npz", {"x.npy": 3 << 30, "edge_index.npy": 3 << 30})
    error = refusal(read_graph, str(path))
    assert "bytes unpack to more than 1,073,741,824" in error.problem
    assert peak() < 50


def test_many_small_entries_count_together(tmp_path):
    path = declared(tmp_path / "graph.npz", {f"{n}_mask.npy": 1 << 24 for n in range(100)})
    assert "unpack to more than" in refusal(read_graph, str(path)).problem


def test_an_archive_that_lies_about_its_sizes_is_not_believed(tmp_path, peak):
    packed = io.BytesIO()
    npy.write_array_header_1_0(
        packed, {"descr": "<f8", "fortran_order": False, "shape": (1 << 23,)}
    )
    content = packed.getvalue() + bytes(1 << 26)
    path = tmp_path / "graph.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content)
        archive.infolist()[0].file_size = 1000
    del content
    peak()
    assert "cannot be read" in refusal(read_graph, str(path)).problem
    assert peak() < 100


def test_unusual_ways_of_packing_are_refused(tmp_path):
    path = declared(tmp_path / "graph.npz", {"x.npy": 100}, method=zipfile.ZIP_BZIP2)
    assert "packed in an unusual way" in refusal(read_graph, str(path)).problem


@pytest.mark.parametrize(
    ("descr", "shape"), [("|S0", (10**15,)), ("<f8", (10**15,)), ("<f8", (-1,)), ("<U9", (10**9,))]
)
def test_headers_that_promise_more_than_follows_are_refused(tmp_path, descr, shape, peak):
    header = io.BytesIO()
    npy.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(tmp_path / "graph.npz", "w") as archive:
        archive.writestr("node_names.npy", header.getvalue())
    assert "cannot be read" in refusal(read_graph, str(tmp_path / "graph.npz")).problem
    assert peak() < 50


def test_saved_tensors_are_not_unpacked_to_find_out_how_large_they_are(tmp_path, peak):
    torch.save({"x": torch.ones(4)}, tmp_path / "plain.pt")
    with zipfile.ZipFile(tmp_path / "plain.pt") as plain:
        names = plain.namelist()
    path = declared(tmp_path / "weights.pt", dict.fromkeys(names, 2 << 30))
    assert "unpack to more than" in refusal(read_weights, path).problem
    assert peak() < 50


def test_a_tensor_that_repeats_itself_without_end_is_refused(tmp_path):
    endless = torch.ones(1).expand(1 << 20, 1 << 20)
    torch.save(Data(x=endless), tmp_path / "graph.pt")
    assert "unpack to more than" in refusal(read_graph, str(tmp_path / "graph.pt")).problem
    torch.save(Data(x=torch.ones(3, 1), edge_prob=torch.ones(1).expand(4)), tmp_path / "graph.pt")
    assert read_graph(str(tmp_path / "graph.pt")).edge_prob.shape == (4,)


def test_what_goes_round_in_circles_is_refused(tmp_path):
    circle = {"x": []}
    circle["x"].append(circle)
    torch.save(circle, tmp_path / "weights.pt")
    assert "not a state dict" in refusal(read_weights, tmp_path / "weights.pt").problem


def test_large_archives_that_are_not_packed_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv(opened_files.UNPACKED_VARIABLE, "0")
    np.savez(tmp_path / "graph.npz", x=np.ones((200, 50)), edge_index=np.zeros((2, 0), dtype=int))
    assert read_graph(str(tmp_path / "graph.npz")).num_nodes == 200


# GraphML


def graphml(folder, content):
    path = folder / "links.graphml"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["foo", "gbk", "utf-7", "rot13", "idna", "punycode", "undefined"])
def test_encodings_that_cannot_be_read_are_named(tmp_path, name):
    head = f'<?xml version="1.0" encoding="{name}"?>\n<graphml/>'
    error = refusal(vg.read_links, graphml(tmp_path, head.encode()))
    assert "its encoding cannot be read" in error.problem
    assert error.line == 1
    assert "UTF-8" in error.remedy


ONE = b'<edge source="a" target="b"><data key="p">1</data></edge>'
EDGE = b'<key id="p" for="edge"/><graph>\n' + ONE


@pytest.mark.parametrize(
    ("rest", "line"),
    [
        (b'\n<node id="\xff\xfe"/></graph></graphml>', 3),
        (b'\n<node id="a\0b"/></graph></graphml>', 3),
        (b"\n\0</graph></graphml>", 3),
        (b"\n", 3),
        (b"\n<edge source=", 3),
        (b'\n<edge source="a" target="b">\n' + ONE + b"</edge>", 4),
        (b'\n<!DOCTYPE x [<!ENTITY a "b">]>', 3),
    ],
)
def test_what_is_wrong_in_the_middle_is_named_with_its_line(tmp_path, rest, line):
    with pytest.raises(FileError) as caught:
        vg.read_links(graphml(tmp_path, b"<graphml>" + EDGE + rest), score="p")
    assert caught.value.line == line


def test_entities_do_not_multiply(tmp_path, peak):
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 30))
    bomb = f'<!DOCTYPE x [<!ENTITY e0 "ha">{entities}]><graphml>&e29;</graphml>'
    assert "document type" in refusal(vg.read_links, graphml(tmp_path, bomb.encode())).problem
    assert peak() < 20


@pytest.mark.parametrize("start", [b'<node id="', b"<!-- ", b"<"])
def test_a_tag_without_end_is_given_up(tmp_path, start, peak):
    path = graphml(tmp_path, b"<graphml>" + start + b"x" * (8 * MB))
    assert "a tag or comment has more than" in refusal(vg.read_links, path).problem
    assert peak() < 30


def test_a_score_without_end_is_given_up(tmp_path):
    content = b"<graphml>" + EDGE.replace(b"1<", b"1" * (2 * MB) + b"<")
    with pytest.raises(FileError, match="a score has more than"):
        vg.read_links(graphml(tmp_path, content), score="p")
