"""The bound on the memory is kept, measured from outside, or refused before the work starts."""

import gc
import json
import subprocess
import sys

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GraphSAGE

import varigraph as vg
from varigraph.errors import OptionError, TooLargeError
from varigraph.prediction.processor import give_back
from varigraph.prediction.sampled import shortcuts
from varigraph.prediction.sampled.plan import Plan
from varigraph.prediction.sampled.runs import HeldTensors

NODES, LINKS, FEATURES, CLASSES = 40_000, 200_000, 50, 10
#: What the system reports may be so much above the bound.
TOLERANCE = 1.1
MIB = 2**20

MEASURE = """
import json, re, sys
sys.path.insert(0, {folder!r})
from prediction.sampled.test_memory import graph, network
import torch, varigraph as vg
torch.set_num_threads(1)
def largest():  # not getrusage: a new process inherits that of the one that started it
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
kind, memory = {kind!r}, {memory!r}
vg.predict(network(kind), graph(100), method="sampled", samples=8)  # loads what is loaded once
try:
    with open("/proc/self/clear_refs", "w") as forget:
        forget.write("5")
    size = largest()
except OSError:
    size = None
found = vg.predict(network(kind), graph(), method="sampled", samples=8, memory=memory)
peak = largest()
sums = [float(value.double().sum()) for value in (found.mean[:, 0], found.total)]
print(json.dumps([None if size is None else peak - size, *sums]))
"""


def graph(nodes=NODES):
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(nodes, (2, LINKS * nodes // NODES), generator=generator)
    x = torch.randn(nodes, FEATURES, generator=generator)
    return Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], 1), x_var=torch.tensor(0.2))


def network(kind):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return {"GCN": GCN, "SAGE": GraphSAGE}[kind](FEATURES, 128, 2, CLASSES, dropout=0.5).eval()


def measured(kind, memory):
    folder = __file__.split("/prediction/")[0]
    code = MEASURE.format(folder=folder, kind=kind, memory=memory)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def least(kind):
    """The smallest bound that is accepted, as the refusal itself names it."""
    memory = 2 * 80 * LINKS + 20 * MIB
    with pytest.raises(TooLargeError) as caught:
        vg.predict(network(kind), graph(), method="sampled", samples=8, memory=memory)
    return caught.value.remedy.split('"')[1]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the size of a process")
@pytest.mark.parametrize("kind", ["GCN", "SAGE"])
def test_the_size_of_the_process_keeps_to_the_bound(kind):
    memory = least(kind)
    peak, mean, total = measured(kind, memory)
    if peak is None:
        pytest.skip("the system does not tell the size of a process")
    assert memory.endswith("MiB")
    assert 0.4 * int(memory[:-3]) * MIB < peak <= TOLERANCE * int(memory[:-3]) * MIB
    roomy = vg.predict(network(kind), graph(), method="sampled", samples=8, memory="4GiB")
    assert mean == pytest.approx(float(roomy.mean[:, 0].double().sum()), rel=1e-5)
    assert total == pytest.approx(float(roomy.total.double().sum()), rel=1e-4)


@pytest.mark.parametrize("sources", [None, ("weights",)])
@pytest.mark.parametrize("samples", [8, 60])
def test_the_answer_at_the_least_bound_is_that_at_a_large_one(sources, samples):
    options = {"method": "sampled", "samples": samples, "sources": sources}
    model, data = network("SAGE"), graph(2000)
    whole = vg.predict(model, data, memory="4GiB", **options)
    with pytest.raises(TooLargeError) as caught:
        vg.predict(model, data, memory=2 * 64 * LINKS // 20 + 17 * MIB, **options)
    tight = vg.predict(model, data, memory=caught.value.remedy.split('"')[1], **options)
    pairs = {
        "mean": (tight.mean, whole.mean),
        "logits": (tight.logits.mean, whole.logits.mean),
        "logits_var": (tight.logits.var, whole.logits.var),
        "error": (tight.std_error.total, whole.std_error.total),
        **{part: (tight.by_source[part], whole.by_source[part]) for part in whole.by_source},
    }
    for name, (one, two) in pairs.items():
        size = float(two.nan_to_num().abs().mean())
        assert torch.allclose(one, two, atol=1e-5 * size, rtol=1e-4, equal_nan=True), name


def test_refusal_comes_before_the_work(monkeypatch):
    model, data, runs = network("SAGE"), graph(2000), []
    forward = GraphSAGE.forward

    def counted(self, *args, **kwargs):
        runs.append(1)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(GraphSAGE, "forward", counted)
    options = {"method": "sampled", "samples": 500}
    with pytest.raises(TooLargeError, match=r"500 runs on 2,000 nodes need \d+ MiB, more than"):
        vg.predict(model, data, memory="20MiB", **options)
    assert len(runs) <= 4
    runs.clear()
    with pytest.raises(OptionError, match="20,000 links need more than the memory of 4 MiB"):
        vg.predict(model, data, memory="4MiB", **options)
    assert not runs


def test_a_bound_is_used_where_it_helps(monkeypatch):
    plans, of = [], Plan.of.__func__

    def noted(*args, **kwargs):
        plans.append(of(*args, **kwargs))
        return plans[-1]

    monkeypatch.setattr(Plan, "of", classmethod(noted))
    for memory in ("40MiB", "1GiB"):
        vg.predict(network("SAGE"), graph(4000), method="sampled", samples=8, memory=memory)
    small, large = plans
    assert small.tight
    assert not small.keeps_masks
    assert large == Plan(together=16, at_once=large.at_once, keeps_masks=True)


def test_live_tensors_are_counted_once_and_only_while_they_live():
    live, given = HeldTensors(), torch.zeros(100)
    first = given + 1
    assert live.note([given], first) == 400
    assert live.note([first], first[:10]) == 400  # a view
    assert live.note([given], given.view(10, 10)) == 400
    second = torch.stack([first, first])
    assert live.note([[first, first]], second) == 1200
    del first
    assert live.note([], None) == 800


def test_giving_back_what_is_free_changes_nothing():
    kept = torch.arange(10)
    give_back()
    assert torch.equal(kept, torch.arange(10))


@pytest.mark.parametrize("method", ["sampled", "first-order", "covariance", "diagonal"])
@pytest.mark.parametrize("together", [True, False], ids=["at once", "one by one"])
def test_nothing_but_the_answer_is_left(method, together, monkeypatch):
    """A circle of references would keep tensors until Python looks for circles: on a GPU, long."""
    monkeypatch.setattr(shortcuts, "SHORT", {"cpu": 2**30 if together else 0})
    model, data = network("SAGE"), graph(100)
    vg.predict(model, data, method=method, samples=8)  # what is kept with the graph is there then
    gc.collect()
    gc.disable()
    try:
        before = {id(each) for each in gc.get_objects() if issubclass(type(each), torch.Tensor)}
        vg.predict(model, data, method=method, samples=8)
        left = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
        assert [each.shape for each in left if id(each) not in before] == []
    finally:
        gc.enable()
