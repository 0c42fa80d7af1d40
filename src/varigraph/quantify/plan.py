"""``vg.plan``: what to measure again, and how much that would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.choices import Reading, Task
from varigraph.data import check_graph, check_one_kind, feature_variance
from varigraph.errors import GraphError
from varigraph.options import number, one_of, whole
from varigraph.prediction.calling import Forward
from varigraph.prediction.network_call import guarded
from varigraph.prediction.predict import ask
from varigraph.prediction.question import Nodes, check_nodes, chosen_nodes
from varigraph.prediction.sources.features import FEATURES
from varigraph.quantify.answered import predicted, scale_of
from varigraph.quantify.attribute import Method
from varigraph.quantify.division import Division
from varigraph.quantify.graph_attribution import GraphAttribution
from varigraph.quantify.shares import Names, Scale, percent

#: How often causes are computed anew, with what was chosen so far taken as measured.
ROUNDS = 4
#: Measurements that are printed; ``nodes`` has all of them.
ROWS = 20


@dataclass(frozen=True)
class Measurement:
    """A node to measure again, and what its features cause in all answers when it is chosen."""

    node: int
    variance: float
    share: float


@dataclass(frozen=True)
class Plan:
    """Nodes to measure again, the most useful first.

    Args:
        measurements: the nodes, and what each of them causes when it is chosen.
        answers: how many nodes' answers are looked at.
        before: the variance of these answers, added up.
        after: the same, predicted anew with the features of all these nodes measured again.
        after_rounds: the same after each round of choices, by how many nodes had been chosen.
        noise: the part of ``before`` that the noise of features causes: no plan takes away more,
            but for what that noise does together with other sources.
        method: how the variances were computed.
        names: what to call nodes in print.
    """

    measurements: tuple[Measurement, ...]
    answers: int
    before: float
    after: float
    after_rounds: Mapping[int, float]
    noise: float
    method: str = "first-order"
    names: Names = field(default_factory=Names, repr=False, compare=False)

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes, the most useful first."""
        return tuple(each.node for each in self.measurements)

    @property
    def taken_away(self) -> float:
        """The share of all variance that goes away, 0 to 1."""
        return 1 - self.after / self.before if self.before > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, lists and dicts, ready for JSON."""
        plain = ("answers", "before", "after", "taken_away", "noise", "method")
        return {
            **{name: getattr(self, name) for name in plain},
            "after_rounds": {str(count): var for count, var in self.after_rounds.items()},
            "measurements": [asdict(each) for each in self.measurements],
        }

    def __str__(self) -> str:
        count = len(self.measurements)
        head = (
            f"these {count} nodes, measured again, take {percent(self.taken_away)} of all variance "
            f"away: {self.before:.4g} -> {self.after:.4g} over {self.answers:,} answers"
        )
        lines = [
            f"{percent(each.share):>8}  {each.variance:>9.3g}  {self.names.node(each.node)}"
            for each in self.measurements[:ROWS]
        ]
        more = [f"{'':>19}  and {count - ROWS:,} more"] if count > ROWS else []
        noise = percent(self.noise / self.before if self.before > 0 else 0.0)
        return "\n".join(
            [
                head,
                "",
                f"{'share':>8}  {'variance':>9}  measure again",
                *lines,
                *more,
                "",
                f"all nodes together: about {noise}",
            ]
        )


def plan(
    model: nn.Module,
    data: Data,
    budget: int = 20,
    *,
    nodes: Nodes | None = None,
    candidates: Nodes | None = None,
    left: float = 0.0,
    output: int | None = None,
    of: Scale | None = None,
    method: Method = "auto",
    links: Reading = "removed",
    sources: Sequence[str] | None = None,
    samples: int = 100,
    seed: int = 0,
    task: Task = "classification",
    forward: Forward | None = None,
    dropout: float | None = None,
    memory: int | str = "half",
) -> Plan:
    r"""Which nodes to measure again, so that the answers become most certain.

    .. math::
        \min_{|W| \le \text{budget}} \sum_u V_u \quad
        \text{with } V[x_w] \text{ left over at } w \in W

    Nodes are chosen greedily by what their features cause in all answers, see
    :func:`varigraph.attribute`; after every quarter of the budget causes are computed anew, with
    what was chosen so far taken as measured. What is left afterwards is predicted, not estimated
    from the causes. The cost is that of about twenty predictions.

    Args:
        model: any trained network with a closed form; it is as before afterwards.
        data: the graph, with ``x_var``.
        budget: how many nodes can be measured again.
        nodes: those whose answers count, as for :func:`varigraph.predict`; all by default.
        candidates: those that can be measured, likewise; all by default.
        left: the part of a feature's variance that is left once it was measured again: 0 for a
            perfect measurement, 0.5 for the mean of the old one and one more of the same kind.
        output: the class, label or column whose variance counts; all classes by default.
        of: ``"probability"`` (default) or ``"logit"`` of the classes; in regression ``"value"``.
        method: as for :func:`varigraph.attribute`.
        links: how ``edge_prob`` is read, as for :func:`varigraph.predict`.
        sources: what to consider, as for :func:`varigraph.predict`; all by default.
        samples: as for :func:`varigraph.attribute`; 0 takes the weights as certain.
        seed: key of the draws, where there are any.
        task: what the model's output means, as in :func:`varigraph.predict`.
        forward: how to call the model, as for :func:`varigraph.predict`.
        dropout: rate of dropout to inject into a network that has none of its own.
        memory: bound on all that is added to the process.

    Returns:
        A :class:`Plan`; print it for a table.

    Raises:
        GraphError: the graph cannot be right, or no feature is uncertain.
        MissingRuleError: the network has no closed form.
        OptionError: an option has a value that makes no sense.

    Example:
        >>> import varigraph as vg
        >>> noisy = vg.add_noise(vg.load("cora"), percent=12)
        >>> found = vg.plan(vg.paper_network(noisy), noisy, budget=4, nodes=[0, 1, 2])
        >>> len(found.nodes), found.after < found.before
        (4, True)
    """
    method = one_of("method", method, get_args(Method))
    scale = scale_of(task, of)
    budget = whole("budget", budget, least=1, remedy="budget=20")
    left = number("left", left, lambda part: 0 <= part < 1, remedy="left=0, or left=0.5")
    check_one_kind(data)
    check_graph(data)
    free = _candidates(candidates, data)
    variance, kept = feature_variance(data), torch.ones(len(data.x), 1).to(data.x)
    if not bool(variance[free].any()):
        raise GraphError(
            "no feature is uncertain: there is nothing to measure again",
            "data.x_var = 0.1 (noise of the features), or candidates= whose features have noise; "
            "vg.attribute says which links to verify",
        )

    def causes() -> GraphAttribution:
        known = copy(data)
        known.x_var = variance * kept
        question = ask(
            model,
            known,
            links=links,
            sources=sources,
            samples=samples,
            seed=seed,
            task=task,
            forward=forward,
            dropout=dropout,
            memory=memory,
        )
        with guarded(question.model, question.run, question.x.mean):
            found = predicted(question, method)
            asked = check_nodes(chosen_nodes(nodes, data), len(found.mean))
            return Division(question, known, found, top=0).of_graph(asked, output, scale)

    blame = first = causes()
    chosen: list[Measurement] = []
    totals: dict[int, float] = {}
    while len(chosen) < budget and bool(free.any()):
        count = min(-(-budget // ROUNDS), budget - len(chosen))
        found = _largest(blame, free, count)
        if not found:
            break
        chosen += found
        index = torch.tensor([each.node for each in found], device=data.x.device)
        free[index], kept[index] = False, left
        blame = causes()
        totals[len(chosen)] = blame.variance
    return Plan(
        measurements=tuple(chosen),
        answers=first.answers,
        before=first.variance,
        after=blame.variance,
        after_rounds=totals,
        noise=first.by_source[FEATURES],
        method=first.method,
        names=first.names,
    )


def _candidates(candidates: Nodes | None, data: Data) -> Tensor:  # -> [nodes] bool
    index = check_nodes(chosen_nodes(candidates, data), len(data.x))
    free = torch.zeros(len(data.x), dtype=torch.bool, device=data.x.device)
    free[slice(None) if index is None else index] = True
    return free


def _largest(blame: GraphAttribution, free: Tensor, count: int) -> list[Measurement]:
    """Nodes that can be measured and cause most."""
    cause = torch.where(free, blame.by_node.to(free.device), 0.0)
    order = cause.sort(descending=True, stable=True).indices[:count]
    return [
        Measurement(node, float(cause[node]), float(cause[node]) / blame.variance)
        for node in order.tolist()
        if cause[node] > 0
    ]
