"""A case: a network, a graph and options; what may be refused about it; how it is told."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import nn as gnn
from torch_geometric.data import Data

import varigraph as vg
from campaign.choices import Choices
from campaign.graphs import graph
from campaign.networks import (
    dropout_of,
    freezes_statistics,
    has_rules,
    network,
    sends_messages,
)
from campaign.noise import noise

#: How warnings of ours begin; any other warning breaks a law.
OUR_WARNINGS = ("the network has no dropout", "nothing is uncertain")
CLOSED_FORMS = ("first-order", "covariance", "diagonal")


@dataclass(frozen=True, eq=False)
class Case:
    """What is asked of ``vg.predict``.

    Args:
        model: the network.
        data: the graph with its noise.
        options: all else.
        predict: who is asked; another than ``vg.predict`` where the laws themselves are tested.
    """

    model: nn.Module
    data: Data
    options: dict[str, Any]
    predict: Callable[..., vg.Prediction] = vg.predict

    def answer(self) -> vg.Prediction:
        """The answer, in which only warnings of ours are let pass."""
        with _only_our_warnings():
            return self.predict(self.model, self.data, **self.options)

    def but(
        self, *, model: nn.Module | None = None, data: Data | None = None, **options: Any
    ) -> Case:
        """The same case with something changed."""
        return replace(
            self,
            model=model or self.model,
            data=data or self.data,
            options={**self.options, **options},
        )

    def with_data(self, **changed: Any) -> Case:
        """The same case on a graph of which some entries differ; None takes one away."""
        data = copy.copy(self.data)
        for name, value in changed.items():
            if value is not None:
                data[name] = value
            elif name in data:
                del data[name]
        return self.but(data=data)

    def on(self, device: str) -> Case:
        """The same case on another device."""
        return self.but(
            model=copy.deepcopy(self.model).to(device), data=self.data.clone().to(device)
        )

    @property
    def forward(self) -> Callable[[nn.Module, Any, Data], Any]:
        """How the network is called."""
        return self.options.get("forward") or _with_links

    @property
    def is_regression(self) -> bool:
        """Whether the answer is the network's output itself."""
        return bool(self.options["task"] == "regression")

    def __repr__(self) -> str:
        lines = [f"{self.model}", f"training={self.model.training}"]
        lines += [f"data.{name} = {_told(value)}" for name, value in self.data.to_dict().items()]
        return "\n".join([*lines, f"options = {self.options}"])


def _with_links(model: nn.Module, x: Any, data: Data) -> Any:
    return model(x, data.edge_index if data.edge_index is not None else data.adj_t)


def without_links(model: nn.Module, x: Any, _: Data) -> Any:
    """How a network is called that looks at every node by itself."""
    return model(x)


def _told(value: Any) -> str:
    if isinstance(value, Tensor) and value.layout == torch.strided:
        return f"torch.tensor({value.tolist()}, dtype={value.dtype})  # strides {value.stride()}"
    return repr(value)


@contextmanager
def _only_our_warnings() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if not str(warning.message).startswith(OUR_WARNINGS):
            raise AssertionError(f"warns {warning.category.__name__}: {warning.message}")


def case(choose: Choices) -> Case:
    """A case from a stream of choices."""
    data = graph(choose)
    var = noise(choose, data.x)
    if var is not None:
        data.x_var = var
    model = network(choose, data.num_features).to(data.x.dtype)
    if not sends_messages(model) and "edge_prob" in data and not choose.happens(5):
        del data.edge_prob
    return Case(model, data, _options(choose, model, data))


def _options(choose: Choices, model: nn.Module, data: Data) -> dict[str, Any]:
    nodes, outputs = len(data.x), _outputs(model)
    method = choose.one_of(
        ("auto", "first-order", "auto", "first-order", "covariance", "diagonal", "sampled")
    )
    refused = not has_rules(model)
    if refused and method in CLOSED_FORMS and not choose.happens(10):
        method = choose.one_of(("auto", "sampled"))
    task = "regression" if outputs == 1 or choose.happens(50) else "classification"
    options: dict[str, Any] = {"method": method, "task": task, "seed": choose.integer(0, 9)}
    options["task"] = "classification" if getattr(model, "ending", "") else task
    options["samples"] = choose.one_of((4, 20, 2) if method == "sampled" else (4, 20, 2, 0, 0))
    if choose.happens(2):
        options["samples"] = 1
    options["links"] = choose.one_of(("removed", "bernoulli", "weight"))
    if choose.happens(30):
        options["sources"] = choose.one_of(
            (
                ("features",),
                ("links",),
                ("weights",),
                ("features", "links"),
                ("features", "weights"),
            )
        )
    if choose.happens(15):
        options["weights"] = (
            "sampled" if method == "sampled" else choose.one_of(("closed-form", "sampled"))
        )
    if choose.happens(30) and nodes:
        options["nodes"] = _nodes(choose, nodes)
    if choose.happens(10) and (dropout_of(model) == 0 or choose.happens(10)):
        options["dropout"] = 0.3
    if choose.happens(20):
        options["memory"] = choose.one_of(("64MiB", "256MiB"))
    if isinstance(model, gnn.MLP):
        options["forward"] = without_links
    return options


def _outputs(model: Any) -> int:
    if isinstance(model, gnn.MLP):
        return int(model.channel_list[-1])
    if hasattr(model, "out_channels"):
        return int(model.out_channels)
    last = model.head or model.layers[-1]
    return next(len(p) for name, p in reversed(list(last.named_parameters())) if p.dim() == 1)


def _nodes(choose: Choices, nodes: int) -> Any:
    picked = [choose.integer(0, nodes - 1) for _ in range(choose.integer(1, 4))]
    form = choose.one_of(("list", "tensor", "mask"))
    if form == "mask":
        return torch.zeros(nodes, dtype=torch.bool).index_fill(0, torch.tensor(picked), True)
    return picked if form == "list" else torch.tensor(picked)


def known_refusals(case: Case) -> Iterator[tuple[type[vg.VarigraphError], str]]:
    """Errors of ours that a case may end in, with words of their message."""
    errors, data, options = vg.errors, case.data, case.options
    if len(data.x) == 0:
        yield errors.GraphError, "empty"
    if "edge_prob" in data and bool((data.edge_prob == 0).any()):
        yield errors.GraphError, "edge_prob"
    if "edge_prob" in data and not sends_messages(case.model):
        yield errors.ModelError, "no MessagePassing layer"
        yield errors.ModelError, "edge_prob"
    if options["method"] in CLOSED_FORMS or options.get("weights") == "closed-form":
        yield from _refused_in_closed_form(case)
    if options["samples"] == 1:
        yield errors.OptionError, "samples=1 is too few"
    if options.get("dropout"):
        yield errors.OptionError, "is for networks without dropout"
        yield errors.ModelError, "no place for dropout"
    if options.get("memory"):
        yield errors.TooLargeError, "memory"
    if options["task"] == "classification":  # logits that happen to look like probabilities
        yield errors.ModelError, "lies between 0 and 1 everywhere"


def _refused_in_closed_form(case: Case) -> Iterator[tuple[type[vg.VarigraphError], str]]:
    """What sampling answers, and ``auto`` therefore must."""
    if not has_rules(case.model):
        yield vg.errors.MissingRuleError, "no moment rule"
    if freezes_statistics(case.model):  # of numbers that hardly differ: it divides by next to 0
        yield vg.errors.ModelError, "numbers beyond"
    if "edge_prob" in case.data:
        if case.options["links"] == "removed":
            yield vg.errors.MissingRuleError, "may be removed"
        loops = case.data.edge_index[0] == case.data.edge_index[1]
        if bool((case.data.edge_prob[loops] < 1).any()):
            yield vg.errors.MissingRuleError, "uncertain self-loops"
        if not has_rules(case.model):
            yield vg.errors.MissingRuleError, "which links may not be real"


def known_reason(error: Exception, case: Case) -> str | None:
    """Why a case may be refused like this; None where it may not."""
    reasons = [
        f"{kind.__name__} {words}".rstrip()
        for kind, words in known_refusals(case)
        if isinstance(error, kind) and words in str(error)
    ]
    return reasons[0] if reasons else None
