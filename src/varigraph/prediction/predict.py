"""``vg.predict``: error bars for a trained network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.data import check_graph, feature_variance
from varigraph.errors import OptionError
from varigraph.moments import Gaussian, LinkProbabilities
from varigraph.moments.links import Reading
from varigraph.prediction.auto import auto
from varigraph.prediction.checks import check_model
from varigraph.prediction.covariance import covariance
from varigraph.prediction.diagonal import diagonal
from varigraph.prediction.first_order.method import first_order
from varigraph.prediction.memory import as_bytes
from varigraph.prediction.prediction import Prediction, Task
from varigraph.prediction.question import Progress, Question, Source, Weights, check_sources, silent
from varigraph.prediction.sampled.method import sampled

Method = Literal["auto", "first-order", "covariance", "diagonal", "sampled"]
METHODS: dict[str, Callable[[Question], Prediction]] = {
    "auto": auto,
    "first-order": first_order,
    "covariance": covariance,
    "diagonal": diagonal,
    "sampled": sampled,
}
Forward = Callable[[nn.Module, Any, Data], Any]


def predict(
    model: nn.Module,
    data: Data,
    *,
    method: Method = "auto",
    links: Reading = "bernoulli",
    sources: Sequence[Source] | None = None,
    samples: int = 100,
    weights: Weights | None = None,
    seed: int = 0,
    task: Task = "classification",
    nodes: Tensor | Sequence[int] | None = None,
    forward: Forward | None = None,
    dropout: float | None = None,
    memory: int | str = "1GiB",
    progress: Progress | None = None,
) -> Prediction:
    r"""Mean and variance of a trained network's answer for every node.

    .. math::
        \text{total} = \frac{1}{T} \sum_t v_t + \frac{1}{T} \sum_t (m_t - \bar m)^2

    with the mean :math:`m_t` and variance :math:`v_t` of the answer under the t-th dropout mask.
    The model is neither retrained nor rewritten, and is as before afterwards.

    Args:
        model: any trained torch_geometric network whose layers have rules.
        data: the graph. ``data.x_var`` is the variance of the noise in the features: a number,
            ``[features]``, ``[nodes, 1]`` or ``[nodes, features]``. ``data.edge_prob`` is the
            chance of each link to be real, ``[edges]``. Either may be missing.
        method: ``"first-order"``: closed form with all correlations, within a few per cent of brute
            force. ``"covariance"``: one block of correlations per node. ``"diagonal"``: the paper's
            closed form, all numbers taken as independent: the right order of nodes, variances far
            too small. ``"sampled"``: brute force, exact for any model, with standard errors.
            ``"auto"``: first-order where every layer has a rule and its walks fit in memory, else
            sampled; the answer's ``method`` says which and why.
        links: how ``edge_prob`` is read. ``"bernoulli"``: a coin per link, which removes the
            message but not the neighbour from the count. ``"weight"``: Theorem 1 as printed.
        sources: what to consider, some of ``"features"``, ``"links"`` and ``"weights"``; by default
            all that the data and the model carry. What is left out is held at its mean.
        samples: number T of dropout masks; 0 takes the weights as certain. With
            ``method="sampled"``: number of draws of everything, of which there must be some.
        weights: dropout in closed form (``"closed-form"``, what ``"first-order"`` and
            ``"covariance"`` do) or by T masks (``"sampled"``, the paper's way, what the others do).
        seed: key of the masks. The same seed gives the same answer, whatever the memory.
        task: ``"classification"`` (softmax over the model's logits) or ``"regression"``.
        nodes: nodes to answer for, as indices or as a mask; all by default.
        forward: how to call the model, ``forward(model, x, data)``, where ``model(x, edge_index)``
            is not what it wants.
        dropout: rate of dropout to inject into a network that has none of its own.
        memory: bound on all that the prediction adds to the process, the answer included, such as
            ``"1GiB"``. Large graphs are worked on in blocks of nodes; what cannot fit is refused
            before the work starts, with the amount that would do.
        progress: called with the steps done and their number: masks, draws or nodes, as the method
            goes.

    Returns:
        A :class:`Prediction` with ``mean``, ``aleatoric``, ``epistemic``, ``total`` and ``logits``.

    Raises:
        GraphError: the graph, its noise or its link probabilities cannot be right.
        MissingRuleError: layers of the model have no rule; all of them are named.
        ModelError: model and graph do not fit together.
        OptionError: an option has a value that makes no sense.
        TooLargeError: the work does not fit in ``memory``.

    Example:
        >>> import varigraph as vg
        >>> graph = vg.load("cora")
        >>> model = vg.paper_network(graph)  # or any trained network
        >>> noisy = vg.add_noise(graph, percent=12, seed=0)
        >>> vg.predict(model, noisy, samples=10).total.shape
        torch.Size([2708, 7])
    """
    _check_options(method, samples, seed, task, weights)
    question = ask(
        model,
        data,
        links=links,
        sources=sources,
        samples=samples,
        weights=weights,
        seed=seed,
        task=task,
        nodes=nodes,
        forward=forward,
        dropout=dropout,
        memory=memory,
        progress=progress,
    )
    return METHODS[method](question)


def ask(
    model: nn.Module,
    data: Data,
    *,
    links: Reading = "bernoulli",
    sources: Sequence[Source] | None = None,
    samples: int = 100,
    weights: Weights | None = None,
    seed: int = 0,
    task: Task = "classification",
    nodes: Tensor | Sequence[int] | None = None,
    forward: Forward | None = None,
    dropout: float | None = None,
    memory: int | str = "1GiB",
    progress: Progress | None = None,
) -> Question:
    """The question that :func:`predict` answers with these options; model and graph are checked."""
    check_graph(data)
    check_model(model, data)
    considered = check_sources(sources) - ({"weights"} if samples == 0 else set())
    question = Question(
        model=model,
        run=caller(model, data, forward),
        x=Gaussian(data.x, feature_variance(data)),
        links=_links(data, links),
        sources=frozenset(get_args(Source)),
        samples=samples,
        seed=seed,
        task=task,
        nodes=nodes,
        memory=as_bytes(memory),
        dropout=dropout,
        draws=samples,
        weights=weights,
        progress=progress or silent,
        edges=data.num_edges,
    )
    return question.only(*considered)


def caller(model: nn.Module, data: Data, forward: Forward | None) -> Callable[[Any], Any]:
    """How the model is called with what stands in the place of its features."""
    if forward is not None:
        return lambda x: forward(model, x, data)
    adjacency = data.edge_index if data.edge_index is not None else data.adj_t
    return lambda x: model(x, adjacency)


def _links(data: Data, reading: Reading) -> LinkProbabilities | None:
    prob = data.get("edge_prob")
    if prob is None:
        return None
    return LinkProbabilities(data.edge_index, prob.to(data.x.dtype), len(data.x), reading)


def _check_options(method: str, samples: int, seed: int, task: str, weights: str | None) -> None:
    if method not in get_args(Method):
        raise OptionError(f"method={method!r} is unknown", f"one of {list(get_args(Method))}")
    if weights not in (None, *get_args(Weights)):
        raise OptionError(f"weights={weights!r} is unknown", f"one of {list(get_args(Weights))}")
    if method == "sampled" and weights == "closed-form":
        raise OptionError(
            'method="sampled" draws its masks', 'weights="sampled", or another method'
        )
    if task not in get_args(Task):
        raise OptionError(f"task={task!r} is unknown", f"one of {list(get_args(Task))}")
    if not isinstance(samples, int) or samples < 0:
        raise OptionError(f"samples={samples!r} is not a number of masks", "samples=100, or 0")
    if not isinstance(seed, int) or seed < 0:
        raise OptionError(f"seed={seed!r} is not a seed", "give a whole number from 0 on")
