import pytest
import torch

from studies.comparison import fakes
from varigraph.files.whole_file import UnusedFileWarning
from varigraph.studies.comparison.cells import Cell
from varigraph.studies.comparison.methods import METHODS
from varigraph.studies.comparison.pieces import (
    Bench,
    LinkPiece,
    NetworkPiece,
    trained_network,
    unfinished,
)
from varigraph.studies.comparison.protocols import Options

SHARED = next(method for method in METHODS if method.shares_network)


@pytest.fixture
def options(tmp_path, root):
    return Options(tmp_path, samples=3, links=None, quick=True, root=root)


def test_what_is_needed_stands_before_what_needs_it(tmp_path, root):
    options = Options(tmp_path, root=root)
    cells = [Cell(SHARED, "computers", seed) for seed in (0, 1)]
    names = list(unfinished(cells, options))
    assert names == [
        "links/computers",
        "networks/held-out/computers/seed-0",
        cells[0].name,
        "networks/held-out/computers/seed-1",
        cells[1].name,
    ]


def test_a_network_is_trained_once_and_found_again(options):
    piece = NetworkPiece("held-out", "computers", 1)
    assert not piece.finished(options)
    piece.make(options)
    assert piece.finished(options)
    assert piece.seconds(options) > 0
    bench = Bench(options, "held-out", "computers", 1)
    first = trained_network(bench).state_dict()
    path = options.folder / f"{piece.name}.pt"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.warns(UnusedFileWarning):
        assert not piece.finished(options)
    piece.make(options)
    again = trained_network(bench).state_dict()
    assert all(again[name].equal(first[name]) for name in first)
    assert not trained_network(bench).training


def test_finished_cells_do_not_ask_for_their_network(options):
    cell = Cell(SHARED, "computers", 0)
    for piece in unfinished([cell], options).values():
        piece.make(options)
    (options.folder / "networks/held-out/computers/seed-0.pt").unlink()
    assert unfinished([cell], options) == {}


def test_links_are_computed_once_for_all_seeds(counted, tmp_path, root):
    options = Options(tmp_path, links="hadamard", root=root)
    piece = LinkPiece("computers")
    piece.make(options)
    assert len(counted) == 5
    assert piece.finished(options)
    graphs = [Bench(options, "held-out", "computers", seed).graph for seed in (0, 1)]
    assert graphs[0].edge_prob.equal(graphs[1].edge_prob)
    assert len(graphs[0].edge_prob) == graphs[0].num_edges
    assert len(counted) == 5


def test_a_bench_shows_the_same_noise_to_every_method(options):
    benches = [Bench(options, "held-out", "computers", 0) for _ in range(2)]
    assert benches[0].seen_through(5.0).x.equal(benches[1].seen_through(5.0).x)
    known = benches[0].knowing(5.0)
    assert known.x.equal(benches[0].graph.x)
    assert torch.as_tensor(known.x_var).equal(benches[1].seen_through(5.0).x_var)
    assert "x_var" not in benches[0].graph


def test_a_slow_method_gets_fewer_seeds():
    slow = fakes.Method("slow", fakes.mild, "fake", most_seeds={"pubmed": 2})
    assert [len(slow.seeds("pubmed", wanted)) for wanted in (1, 5)] == [1, 2]
    assert len(slow.seeds("cora", 5)) == 5
