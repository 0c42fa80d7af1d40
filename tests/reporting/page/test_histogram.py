from dataclasses import replace

import torch

from reporting.page.made_up import regression
from varigraph.reporting.page.charts import charts
from varigraph.reporting.page.subject import PageSubject


def drawn(prediction, graph):
    return charts(PageSubject.of(prediction, graph), [])["histogram"]


def test_variances_that_are_all_the_same_have_no_histogram():
    prediction, graph = regression(nodes=60)
    parts = {part: torch.ones_like(var) for part, var in prediction.by_source.items()}
    assert drawn(prediction, graph) is not None
    assert drawn(replace(prediction, by_source=parts), graph) is None
