"""Files in which a few bytes were changed at random: they are read, or refused in our own words."""

import gzip
import io
import random
import warnings

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import varigraph as vg
from varigraph.errors import VarigraphError
from varigraph.studies.own_model.saved_files import read_graph, read_weights

CASES = 150
TABLE = 'from,to,p\na,b,0.5\n"x, y",π,0.25\n'.encode()
GRAPHML = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<graphml><key id="d" for="edge" attr.name="p">'
    b'<default>1</default></key><graph><node id="a"/><edge source="a" target="b"><data key="d">0.5'
    b'</data></edge><edge source="b" target="c"/></graph></graphml>'
)
WEIGHTS = {"a.weight": torch.ones(3, 3), "b": torch.arange(4)}
#: Bytes that mean something in one format or another.
TELLING = (b"\0", b"\xff\xfe", b"\n", b"\r", b'"', b"<", b"<edge>", b"</edge>", b"<graph>", b"nan")


def graph():
    links = torch.tensor([[0, 1], [1, 2]])
    return Data(x=torch.ones(3, 2), edge_index=links, node_names=["a", "b", "c"])


def saved(save, *held, **named):
    stream = io.BytesIO()
    save(*held, stream, **named) if held else save(stream, **named)
    return stream.getvalue()


def arrays():
    return {
        "x": np.ones((3, 2)),
        "edge_index": np.array([[0], [1]]),
        "node_names": np.array([*"abc"]),
    }


def files():
    yield "links.csv", TABLE
    yield "links.tsv", TABLE.split(b"\n", 1)[1].replace(b",", b"\t")
    yield "links.graphml", GRAPHML
    yield "links.csv.gz", gzip.compress(TABLE, mtime=0)
    yield "links.graphml.gz", gzip.compress(GRAPHML, mtime=0)
    yield "stored.npz", saved(np.savez, **arrays())
    yield "packed.npz", saved(np.savez_compressed, **arrays())
    yield "graph.pt", saved(torch.save, graph())
    yield "old.pt", saved(torch.save, graph().to_dict(), _use_new_zipfile_serialization=False)
    yield "weights.pth", saved(torch.save, WEIGHTS)


def read(path):
    if path.name.startswith("links"):
        return vg.read_links(path, score=None if "tsv" in path.name else "p")
    return read_weights(path) if path.suffix == ".pth" else read_graph(str(path))


def damaged(content, draw):
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 4))):
        place, other = (draw.randrange(len(changed) + 1) for _ in range(2))
        piece = draw.choice(
            (bytes([draw.randrange(256)]), draw.choice(TELLING), changed[other : other + 20])
        )
        length = draw.choice((0, 1, len(piece), len(changed)))  # inserted, replaced, or cut off
        changed[place : place + length] = piece
    return bytes(changed)


@pytest.mark.parametrize(("name", "content"), [pytest.param(*file, id=file[0]) for file in files()])
def test_damaged_files_are_read_or_refused(tmp_path, name, content):
    path, draw, refused = tmp_path / name, random.Random(name), 0
    path.write_bytes(content)
    read(path)
    for _ in range(CASES):
        path.write_bytes(damaged(content, draw))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", vg.data.DroppedLinksWarning)
                read(path)
        except VarigraphError:
            refused += 1
    assert refused > CASES // 2  # so the damage is real
