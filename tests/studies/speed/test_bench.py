import numpy as np
import pytest

import varigraph as vg
from varigraph.errors import DatasetError, OptionError
from varigraph.studies.speed import bench as study
from varigraph.studies.speed.bench import Truth
from varigraph.studies.speed.contenders import CSR, ONLY_FEATURES, PLAIN, Contender
from varigraph.studies.speed.trial import Trial


@pytest.fixture
def quick(monkeypatch):
    """Three contenders; trials are made up, so that no process is started."""
    var = np.full((2708, 7), 0.5, dtype=np.float32)
    trials = {
        PLAIN: Trial(2.0, 2**20, 4, var),
        CSR: Trial(1.0, 2**20, 4, var),
        "ours": Trial(4.0, 2**21, 4, var, var),
    }
    contenders = [
        Contender(PLAIN, None),
        Contender(CSR, None),
        Contender("ours", None, ONLY_FEATURES),
    ]
    monkeypatch.setattr(study, "present", lambda: contenders)
    monkeypatch.setattr(study, "tried", lambda name, builder, terms: trials[name])


def test_a_bench_puts_it_together(quick):
    told = []
    found = study.bench(
        "Cora", masks=4, epochs=1, draws=20, progress=lambda *step: told.append(step)
    )
    assert (found.dataset, found.nodes, found.links, found.features) == ("cora", 2708, 10556, 1433)
    assert [row.name for row in found.rows] == [PLAIN, CSR, "ours"]
    assert [row.fidelity is None for row in found.rows] == [True, True, False]
    assert found.ratio(found.row("ours"), PLAIN) == 2
    assert {stage for stage, _, _ in told} == {"training", "timing", "fidelity"}


def test_fidelity_is_that_of_an_audit():
    workload = study.trained_workload("cora", masks=4, memory="1GiB", epochs=1)
    truth = Truth(workload.model, workload.graph, memory="1GiB", seed=0, draws=60)
    options = {"method": "diagonal", "sources": ("features",)}
    var = vg.predict(workload.model, workload.graph, samples=0, **options).logits.var
    audit = vg.audit(
        workload.model, workload.graph, samples=60, nodes=workload.graph.test_mask, **options
    )
    expected = audit.rows[0].logits.median
    assert truth.fidelity(var.numpy(), ("features",)) == pytest.approx(expected, rel=1e-4)
    assert expected < 0.5  # the diagonal form is far too small


@pytest.mark.parametrize(
    "mistake",
    [{"masks": 1}, {"repeats": 0}, {"threads": 0}, {"memory": "much"}, {"device": "cuda"}],
)
def test_mistakes_are_told_before_the_work(mistake, monkeypatch):
    monkeypatch.setattr(study.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(study, "trained_workload", None)
    with pytest.raises(OptionError):
        study.bench("cora", **mistake)


def test_an_unknown_data_set_is_told():
    with pytest.raises(DatasetError):
        study.bench("coral")
