"""Half precision, compiled and scripted networks, tensors made in inference mode."""

import copy

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F

import varigraph as vg
from prediction.networks import Functional, made, noisy_ring
from varigraph.errors import MissingRuleError, ModelError

pytestmark = [
    pytest.mark.filterwarnings("ignore:the network has no dropout"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
]
METHODS = ("auto", "first-order", "covariance", "diagonal", "sampled")
HALVES = (torch.float16, torch.bfloat16)


def uncertain_ring(dtype):
    graph = noisy_ring(dtype=dtype)
    graph.x_var = torch.full((4,), 0.3, dtype=dtype)
    graph.edge_prob = torch.full((graph.num_edges,), 0.75, dtype=dtype)
    graph.edge_weight = torch.linspace(0.5, 1, graph.num_edges).to(dtype)
    return graph


class Weighted(Functional):
    def forward(self, x, edge_index, edge_weight):
        hidden = F.dropout(self.first(x, edge_index).relu(), self.rate, self.training)
        return self.second(hidden, edge_index, edge_weight)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("method", METHODS)
def test_half_precision_is_computed_in_float32(method, half):
    model, graph = made(Weighted, half), uncertain_ring(half)
    before = copy.deepcopy(model.state_dict())
    options = {"method": method, "samples": 40, "links": "bernoulli"}
    found = vg.predict(model, graph, **options)
    wide, wide_graph = copy.deepcopy(model).float(), copy.copy(graph)
    for name in ("x", "x_var", "edge_prob", "edge_weight"):
        wide_graph[name] = graph[name].float()
    wanted = vg.predict(wide, wide_graph, **options)
    assert torch.equal(found.mean, wanted.mean)
    assert torch.equal(found.total, wanted.total)
    assert found.mean.dtype == torch.float32
    assert "in torch.float32" in found.method
    assert "in torch.float32" not in wanted.method
    assert all(p.dtype == half for p in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert graph.x.dtype == half


@pytest.mark.parametrize(("of_model", "of_x", "answer"), [
    (torch.bfloat16, torch.float32, torch.float32),
    (torch.float32, torch.float16, torch.float32),
    (torch.float64, torch.bfloat16, torch.float64),
])  # fmt: skip
def test_the_wider_of_two_precisions_is_taken(of_model, of_x, answer):
    found = vg.predict(made(Functional, of_model), noisy_ring(dtype=of_x), samples=0)
    assert found.mean.dtype == answer
    blamed = vg.attribute(made(Functional, of_model), noisy_ring(dtype=of_x), node=1)
    assert blamed.variance > 0


def test_a_network_in_half_precision_that_cannot_be_copied_is_told():
    class Stuck(Functional):
        def __deepcopy__(self, memo):
            raise RuntimeError("no copies")

    with pytest.raises(ModelError, match="no copies"):
        vg.predict(made(Stuck, torch.bfloat16), noisy_ring(dtype=torch.float32))


@pytest.mark.parametrize("method", METHODS)
def test_tensors_made_in_inference_mode(method):
    wanted = vg.predict(made(Functional), noisy_ring(), method=method, samples=40)
    with torch.inference_mode():
        model, graph = made(Functional), noisy_ring()
        inside = vg.predict(model, graph, method=method, samples=40)
    assert graph.x.is_inference()
    found = vg.predict(model, graph, method=method, samples=40)
    assert torch.equal(found.total, wanted.total)
    assert torch.equal(inside.total, wanted.total)
    assert not found.mean.is_inference()
    assert vg.attribute(model, graph, node=1).variance > 0


@pytest.mark.parametrize("method", METHODS)
def test_what_compiles_a_network_is_looked_behind(method):
    model = made(Functional)
    compiled = torch.compile(model, backend="eager")
    found = vg.predict(compiled, noisy_ring(), method=method, samples=40)
    assert torch.equal(
        found.total, vg.predict(model, noisy_ring(), method=method, samples=40).total
    )


def test_a_compiled_part_of_a_network():
    model, plain = made(Functional), made(Functional)
    model.first = torch.compile(model.first, backend="eager")
    found = vg.predict(model, noisy_ring(), samples=2000, method="sampled")
    assert torch.equal(
        found.total, vg.predict(plain, noisy_ring(), samples=2000, method="sampled").total
    )
    assert float(vg.predict(model, noisy_ring(), samples=40).total.sum()) > 0


class Scriptable(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = gnn.SAGEConv(4, 8), gnn.SAGEConv(8, 3)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)


@pytest.mark.parametrize("how", ["script", "trace"])
def test_scripted_networks_are_sampled(how):
    model, graph = made(Scriptable), noisy_ring()
    if how == "script":
        scripted = torch.jit.script(model)
    else:
        scripted = torch.jit.trace(model, (graph.x, graph.edge_index), check_trace=False)
    found = vg.predict(scripted, graph, samples=60)
    assert found.method.startswith("sampled: the model was scripted or traced")
    wanted = vg.predict(model, graph, method="sampled", samples=60)
    assert torch.allclose(found.total, wanted.total)
    with pytest.raises(MissingRuleError, match=r"torch\.jit"):
        vg.predict(scripted, graph, method="first-order")


@pytest.mark.parametrize("method", METHODS)
def test_float64_by_default(method):
    model, graph = made(Functional, torch.float32), uncertain_ring(torch.float32)
    wanted = vg.predict(model, graph, method=method, samples=40, links="bernoulli")
    torch.set_default_dtype(torch.float64)
    try:
        found = vg.predict(model, graph, method=method, samples=40, links="bernoulli")
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.mean.dtype == torch.float32
    assert torch.allclose(found.total, wanted.total, rtol=1e-5)
