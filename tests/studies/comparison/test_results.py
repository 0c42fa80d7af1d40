import math
import statistics

import pytest

from studies.comparison.made_up import made_up
from varigraph.studies.comparison.results import Figure, Results


def test_a_figure_is_mean_and_standard_deviation_over_seeds():
    values = [0.5, 0.7, 0.9]
    figure = Figure.of(values)
    assert figure.mean == pytest.approx(0.7)
    assert figure.std == pytest.approx(statistics.stdev(values))
    assert figure.seeds == 3
    assert math.isnan(Figure.of([0.5]).std)
    assert Figure.of([]) is None


def test_a_question_finds_its_numbers_and_no_others():
    results = Results(
        (
            made_up("plain", seed=0, ece=0.1),
            made_up("plain", seed=1, ece=0.3),
            made_up("bgnn", seed=0, ece=0.5),
            made_up("plain", seed=0, ece=0.9, protocol="paper"),
            made_up("plain", seed=0, ece=0.8, dataset="pubmed"),
        )
    )
    assert results.by_seed("held-out", "cora", "plain", 5.0, "ece") == {0: 0.1, 1: 0.3}
    assert results.figure("held-out", "cora", "plain", 5.0, "ece").mean == pytest.approx(0.2)
    assert results.figure("held-out", "cora", "plain", 5.0, "brier") is None
    assert results.methods("held-out", "cora") == ["plain", "bgnn"]


def test_what_has_no_value_stays_in_the_long_list_and_out_of_the_figures():
    results = Results((made_up("plain", seed=0, auroc=None), made_up("plain", seed=1, auroc=0.7)))
    assert results.figure("held-out", "cora", "plain", 0.0, "auroc").seeds == 1
    lines = results.to_csv().splitlines()
    assert lines[0] == "protocol,dataset,method,noise,seed,metric,value"
    assert "held-out,cora,plain,0.0,0,auroc," in lines
    assert "held-out,cora,plain,0.0,1,auroc,0.7" in lines
