"""The audit of a run; tests/cli has it from the command line."""

import pytest

from varigraph.data import load
from varigraph.studies import run as study
from varigraph.studies.link_table import LinkRows
from varigraph.studies.saved_run import audit_run


@pytest.mark.parametrize(
    ("reading", "sources"),
    [
        ("bernoulli", ["total", "features", "links", "weights"]),
        ("weight", ["total", "features", "weights"]),  # a weight is a number, nothing is drawn
    ],
)
def test_uncertain_links_of_the_run_are_audited(tmp_path, reading, sources):
    graph = load("cora")
    graph.edge_prob = 0.4 + 0.5 * (graph.edge_index.sum(dim=0) % 10) / 10
    (tmp_path / "links.csv").write_text(LinkRows.of(graph).csv())
    links = str(tmp_path / "links.csv")
    options = {"samples": 2, "noise": (5,), "epochs": 1, "links": links, "reading": reading}
    study.run("cora", out=tmp_path / "run", **options)
    done = audit_run(out=tmp_path / "run", samples=10)
    assert [row.source for row in done.found.rows] == sources
