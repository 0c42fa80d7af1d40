"""Several processes answer as one does."""

import pytest
import torch

import varigraph as vg
from distributed.graphs import small_graph
from distributed.networks import HIDDEN, Net
from distributed.processes import in_processes
from varigraph.distributed import partition, predict, read_answer

PARTS, SAMPLES = 4, 8
#: Networks, methods, and how links are read; with noise in the features and masks throughout.
CASES = [
    ("SAGEConv", "sampled", "removed"),
    ("GCNConv", "sampled", "removed"),
    ("GCNConv", "sampled", "bernoulli"),
    ("GINConv", "sampled", "removed"),
    ("GraphConv", "sampled", "removed"),
    ("GATConv", "sampled", "removed"),
    ("GATv2Conv", "sampled", "removed"),
    ("SAGEConv", "diagonal", "removed"),
    ("SAGEConv", "diagonal", "bernoulli"),
    ("SAGEConv max", "diagonal", "bernoulli"),
    ("GCNConv", "diagonal", "bernoulli"),
    ("GCNConv", "diagonal", "weight"),
    ("GINConv", "diagonal", "removed"),
    ("GraphConv", "diagonal", "removed"),
]


def double_graph():
    graph = small_graph(loops=False)
    return graph.apply(lambda t: t.double() if t.is_floating_point() else t)


def out_of(folder, count, case):
    return folder / f"{count}-{'-'.join(case)}"


def answer_all(folder, count):
    found = []
    for case in CASES:
        kind, method, links = case
        out = out_of(folder, count, case)
        made = predict(Net(kind), folder / "parts", out, method=method, links=links, samples=SAMPLES)
        found.append((made.exchanges, made.rows_sent, made.bytes_sent))
    return found


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """The answers of 1, 2 and 4 processes on disk, and what each process has sent."""
    folder = tmp_path_factory.mktemp("answers")
    parts = partition(double_graph(), folder / "parts", parts=PARTS, by="hash")
    sent = {count: in_processes(count, answer_all, folder, count) for count in (2, 4)}
    sent[1] = [answer_all(folder, 1)]
    return folder, parts, sent


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_processes_answer_as_one_does(answered, case):
    folder, _, sent = answered
    assert all(isinstance(each, list) for count in (2, 4) for each in sent[count]), sent
    kind, method, links = case
    alone = vg.predict(Net(kind), double_graph(), method=method, links=links, samples=SAMPLES)
    assert all((alone.by_source[part] != 0).any() for part in ("features", "weights"))
    assert (alone.by_source["links"] != 0).any() == (links != "weight")
    for count in (1, 2, 4):
        found = read_answer(out_of(folder, count, case))
        assert (found.method, found.samples, found.task) == (alone.method, alone.samples, alone.task)
        torch.testing.assert_close(found.mean, alone.mean, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.plain, alone.plain, rtol=0, atol=1e-12)
        for part, var in alone.by_source.items():
            torch.testing.assert_close(found.by_source[part], var, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.logits.var, alone.logits.var, rtol=1e-9, atol=1e-12)
