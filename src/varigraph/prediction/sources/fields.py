"""Noise in what the graph tells the network besides features: attributes, weights, positions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data.graph_parts import FIELDS, field_variance
from varigraph.errors import MissingRuleError, ModelError, VarigraphError
from varigraph.moments import Gaussian, StandIn
from varigraph.moments.propagation import current, recorded, with_noise
from varigraph.moments.running import running
from varigraph.prediction.network_call import plain_answer
from varigraph.prediction.sampled.draws import noise_like
from varigraph.prediction.sources.source import Drawn, Leaf, Source, considered

if TYPE_CHECKING:
    from varigraph.prediction.masks import Site
    from varigraph.prediction.question import Question
    from varigraph.prediction.sampled.network import Inputs, Network


#: Features, links and weights have streams of random numbers with lower numbers.
FIRST_STREAM = 4


class Field(Source):
    """``data.edge_attr_var`` and the like: independent noise in every number of a field.

    Args:
        name: of the field, one of ``FIELDS``.
    """

    in_small_space = True
    optional = True

    def __init__(self, name: str) -> None:
        self.name, self._stream = name, FIRST_STREAM + FIELDS.index(name)
        self.remedy = f"measure {name} again"

    def given(self, data: Data) -> Gaussian | None:
        """The field and the variance of its noise."""
        var = field_variance(data, self.name)
        return None if var is None else Gaussian(data[self.name], var)

    def held(self, question: Question) -> Question:  # noqa: D102
        field = self._of(question)
        if field is None:
            return question
        certain = Gaussian(field.mean, torch.zeros_like(field.var[:1]).expand_as(field.var))
        return replace(question, given={**question.given, self.name: certain})

    def uncertain(self, question: Question) -> bool:  # noqa: D102
        field = self._of(question)
        return field is not None and bool(field.var.any())

    def considered(self, question: Question) -> bool:  # noqa: D102
        return self.uncertain(question)

    def _of(self, question: Question) -> Gaussian | None:
        field: Gaussian | None = question.given.get(self.name)
        return field

    def _known(self, question: Question) -> Gaussian:
        field = self._of(question)
        assert field is not None  # what is not given is not considered
        return field

    def check_question(self, question: Question) -> None:
        """Raises if the answer is the same whatever the field says."""
        field, model = self._known(question), question.model
        plain = plain_answer(model, question.run, question.x.mean)
        try:
            with torch.no_grad(), running(model, by_rules=False, device=field.mean.device):
                other = self._run(question, self._drawn(field, 0, seed=question.seed))
        except VarigraphError:
            raise
        except Exception:  # whoever runs it on this draw says so
            return
        if isinstance(other, Tensor) and torch.equal(plain, other) and not self._leads(question):
            raise ModelError(
                f"{self.name}_var is given, but the answer does not depend on the {self.name} of "
                "the graph that the model is called with",
                f"let forward= and the model use data.{self.name} of the data that they are given, "
                f"or leave data.{self.name}_var out",
            )

    def _run(self, question: Question, value: Tensor) -> object:
        graph = copy.copy(question.graph)
        assert graph is not None  # it has the field
        graph[self.name] = value
        return question.run(question.x.mean.clone(), graph)

    def _leads(self, question: Question) -> bool:
        """Whether a way leads from the field to the answer, as to that of units that are dead."""
        value = self._known(question).mean.detach().requires_grad_()
        device = value.device
        with torch.enable_grad(), running(question.model, by_rules=False, device=device):
            answer = self._run(question, value * 1)
        if not isinstance(answer, Tensor) or not answer.requires_grad:
            return False
        (slope,) = torch.autograd.grad(answer.sum(), value, allow_unused=True)
        return slope is not None

    def enter_graph(self, graph: Data, question: Question) -> Data:  # noqa: D102
        field, entered = self._known(question), copy.copy(graph)
        if question.links is not None and question.links.uncertain:
            raise MissingRuleError(
                f"noise in {self.name} has no closed form beside links that may not be real",
                f'method="sampled", or leave one of the two out: sources=("{self.name}",)',
            )
        if any(each.uncertain(question) for each in considered(question) if each is not self):
            current().approximates(self.name)  # what it multiplies is uncertain too
        mean, var = (part.reshape(len(part), -1) for part in (field.mean, field.var))
        value = with_noise(recorded(Gaussian.certain(mean)), var, self.name)
        entered[self.name] = StandIn(value, shape=field.mean.shape)
        return entered

    def draw(self, network: Network, sample: int, sites: Sequence[Site]) -> Drawn:  # noqa: D102
        field = self._known(network.question)
        draw = partial(self._drawn, field, seed=network.question.seed)
        return {self.name: network.known(self.name, sample, draw)}

    def _drawn(self, field: Gaussian, sample: int, *, seed: int) -> Tensor:
        noise = noise_like(field.mean, sample, seed=seed, stream=self._stream)
        return field.mean + field.var.sqrt() * noise

    def use(self, inputs: Inputs, drawn: Drawn) -> None:  # noqa: D102
        inputs.fields[self.name] = drawn[self.name]

    def bytes_of_draw(self, network: Network) -> int:  # noqa: D102
        return 4 * self._known(network.question).mean.nbytes

    def leaf(self, question: Question) -> Leaf:  # noqa: D102
        field = self._known(question)
        value = field.mean.detach().clone().requires_grad_()
        return Leaf(value, field.var, {self.name: value})
