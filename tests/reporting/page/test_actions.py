import pytest
import torch

from reporting.page.made_up import made_up, regression
from varigraph.reporting.page.advice import actions, causes_of_doubt
from varigraph.reporting.page.subject import PageSubject


def test_the_doubt_about_a_class_is_what_least_trusted_says():
    prediction, graph = made_up()
    found = actions(PageSubject.of(prediction, graph))
    for row in prediction.least_trusted(40):
        cause = found["causes"][found["main"][row.node]]
        assert cause == row.cause
        assert found["share"][row.node] == pytest.approx(row.share, rel=1e-2)
        assert found["remedies"][found["main"][row.node]] == row.remedy


@pytest.mark.parametrize("subject", [made_up, regression])
def test_shares_of_every_node_and_of_the_whole_add_up(subject):
    found = PageSubject.of(*subject())
    names, shares = causes_of_doubt(found)
    assert torch.allclose(shares.sum(0), torch.ones(len(found.mean)).double())
    assert ("the network itself" in names) == found.classification
    told = actions(found)
    weights = found.doubt.whole
    wanted = (shares * weights).sum(1) / weights.sum()
    for line in told["whole"]:
        assert line["share"] == pytest.approx(float(wanted[line["cause"]]))
    assert sum(line["share"] for line in told["whole"]) == pytest.approx(1, abs=0.05)


def test_where_nothing_is_uncertain_nothing_helps():
    prediction, graph = regression()
    for var in prediction.by_source.values():
        var.zero_()
    found = actions(PageSubject.of(prediction, graph))
    assert set(found["main"]) == {-1}
    assert found["whole"] == []
