from studies.comparison.made_up import made_up
from varigraph.studies.comparison.cells import WATCHED
from varigraph.studies.comparison.results import Results, verdicts
from varigraph.studies.comparison.tables import accuracy_table, method_tables, node_table, tables
from varigraph.studies.config import NOISE
from varigraph.studies.paper import ACCURACY, NODES, TABLES

SCORES = {"accuracy": 0.8, "cross_entropy": 0.5, "per_class_nll": -1.0, "total": 0.02}
LOSSES = {"cross_entropy": 0.5, "brier": 0.3, "ece": 0.05}


def test_table_2_has_ours_next_to_the_papers_where_the_protocol_is_the_papers():
    results = Results(
        (
            made_up("bgcn-map", protocol="paper", accuracy=(0.9, 0.8, 0.7, 0.6)),
            made_up("bgnn", protocol="paper", seed=0, accuracy=0.9),
            made_up("bgnn", protocol="paper", seed=1, accuracy=0.8),
            made_up("bgnn", accuracy=0.7),
        )
    )
    rows = accuracy_table(results).rows
    assert rows[1] == ("paper", "2.5 %", "80.00", "89.25", "85.00 ± 7.07", "90.21")
    assert rows[4] == ("held-out", "0 %", "–", "–", "70.00", "–")


def test_table_3_says_for_how_many_seeds_a_node_was_trained_on():
    def nodes(trained):
        return [
            {"node": node, "probability": p, "variance": p / 100, "trained_on": trained}
            for node, p in ((12, 0.9), (13, 0.8), (28, 0.4))
        ]

    results = Results(
        (
            made_up("bgnn", dataset="pubmed", seed=0, nodes=nodes(True), accuracy=1),
            made_up("bgnn", dataset="pubmed", seed=1, nodes=nodes(False), accuracy=1),
        )
    )
    rows = node_table(results).rows
    assert len(rows) == 3 * 4 * 2
    assert rows[0] == ("12", "0 %", "paper", "printed", "0.9230", "3e-04", "?")
    start = ("12", "0 %", "held-out", "bgnn")
    assert rows[1] == (*start, "0.9000 ± 0.0000", "0.0090 ± 0.0000", "1 of 2")


def test_tables_4_to_6_have_the_printed_rows_apart_from_held_out():
    results = Results(
        (
            made_up("bgnn", protocol="paper", dataset="pubmed", **SCORES),
            made_up("plain", dataset="pubmed", **{**SCORES, "per_class_nll": None}),
        )
    )
    papers, held_out, *_ = method_tables(results, 6)
    assert papers.rows[2] == ("2.5 %", "printed", "–", "82.83", "0.460", "10.75", "0.0029")
    assert papers.rows[3] == ("2.5 %", "bgnn", "1", "80.00", "0.500", "-1.00", "0.0200")
    assert held_out.rows[1] == ("2.5 %", "plain", "1", "80.00", "0.500", "–", "0.0200")
    assert "printed" not in {row[1] for row in held_out.rows}


def test_a_verdict_names_every_level_at_which_ours_is_worse():
    results = Results(
        (
            made_up("mc-dropout", **LOSSES),
            made_up("bgcn-map", **LOSSES),
            made_up("noise-aware", **{**LOSSES, "ece": (0.05, 0.06, 0.04, 0.07)}),
            made_up("first-order", **{**LOSSES, "brier": 9}),
        )
    )
    assert verdicts(results, "cora") == tuple(
        f"noise-aware is worse than {other} in ECE at "
        "2.5 % (0.060 against 0.050), 12 % (0.070 against 0.050)."
        for other in ("mc-dropout", "bgcn-map")
    )


def test_verdicts_compare_seeds_that_both_have():
    results = Results(
        (
            made_up("first-order", seed=0, **{**LOSSES, "ece": 0.04}),
            made_up("first-order", seed=1, **{**LOSSES, "ece": 0.90}),
            made_up("mc-dropout", seed=0, **LOSSES),
        )
    )
    (verdict,) = verdicts(results, "cora")
    assert verdict.startswith("first-order is at least as good as mc-dropout in cross entropy, ")
    assert verdicts(Results((made_up("mc-dropout", **LOSSES),)), "cora") == ()


def test_verdicts_and_what_is_known_stand_below_the_tables():
    results = Results(
        (
            made_up("first-order", **SCORES, brier=0.4, ece=0.1),
            made_up("mc-dropout", **SCORES, brier=0.3, ece=0.1),
        )
    )
    papers, _, calibration, _ = tables([4], results, ["cora"], root=None)[4]
    assert "first-order is worse than mc-dropout in Brier score at 0 %" in calibration.notes[-1]
    assert "class label" in papers.notes[-1]


def test_the_papers_tables_agree_with_each_other():
    assert {noise: row.accuracy for noise, row in TABLES["cora"].items()} == ACCURACY["bgnn"]
    assert tuple(NODES) == WATCHED["pubmed"]
    assert all(tuple(levels) == NOISE for levels in (*ACCURACY.values(), *NODES.values()))
