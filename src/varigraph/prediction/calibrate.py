"""``vg.calibrate``: probabilities and error bars that come true as often as they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.errors import OptionError
from varigraph.metrics.inputs import Numbers, tensors
from varigraph.options import one_of
from varigraph.prediction.calibrator import Calibrator, Kind, graph_numbers, log_probabilities
from varigraph.prediction.intervals import HeldOut, scores_of, smaller_with_neighbours
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import Nodes, check_nodes, chosen_nodes
from varigraph.prediction.tasks import SIGMOIDS
from varigraph.trust.fitted import fitted_chance, fitted_residual, fitted_scale

Wanted = Literal["auto", "temperature", "graph", "residual"]
#: A temperature needs few truths, a chance for each node more.
FEWEST, ENOUGH_FOR_GRAPH = 10, 100


def calibrate(
    prediction: Prediction, y: Numbers, *, nodes: Nodes, kind: Wanted = "auto"
) -> Calibrator:
    r"""What makes answers come true as often as they say, learned from nodes held out of training.

    .. math::
        \operatorname{softmax}(s_i \log \bar y_i) \qquad\qquad a \sigma_i^2 + b

    Classes get an inverse temperature s, by which the answer itself stays: one for all nodes, or
    one for each, at which the confidence is the chance of being right as a logistic regression
    finds it from the confidence, the agreement of the neighbours one and two steps away, the
    degree and the variance. Values get a scale of their variance and a residual, the network's own
    error, which no noise of the inputs explains.

    Args:
        prediction: for these nodes; for a temperature by node it has to be about all of them.
        y: the truth of every node, as ``data.y``.
        nodes: to learn from, as indices, as a mask or by name: validation nodes, and none that the
            network was trained on.
        kind: ``"temperature"``, ``"graph"`` for one by node, ``"residual"`` for values; by default
            whatever the task and the number of nodes allow.

    Returns:
        A :class:`~varigraph.prediction.calibrator.Calibrator`, to apply to predictions, save and
        load.

    Raises:
        OptionError: the nodes were trained on, have no truth, or the kind does not fit the task.

    Example:
        >>> import varigraph as vg
        >>> graph = vg.load("cora")
        >>> model = vg.paper_network(graph)  # or any trained network
        >>> pred = vg.predict(model, graph, method="diagonal", samples=2)
        >>> calibrator = vg.calibrate(pred, graph.y, nodes=graph.val_mask)
        >>> calibrator.apply(pred).trust.shape
        torch.Size([2708])
    """
    if prediction.calibrator is not None:
        raise OptionError("the prediction is calibrated already", "pred = vg.predict(model, data)")
    rows, truth = known_truth(prediction, y, nodes)
    found = fitted(prediction, rows, truth, _kind(prediction, kind, len(rows)))
    return replace(found, held_out=_held_out(prediction, rows, truth, found.kind))


def _held_out(prediction: Prediction, rows: Tensor, truth: Tensor, kind: Kind) -> HeldOut:
    """One half of the nodes, taken by chance, shapes the scores; the other is scored."""
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(rows))).to(rows.device)
    first, second = order.tensor_split(2)
    half = fitted(prediction, rows[first], truth[first], kind)
    halfway = half.apply(prediction)
    neighbours = smaller_with_neighbours(prediction, halfway, rows[first], truth[first])
    return HeldOut(half, scores_of(prediction, halfway, rows[second], truth[second]), neighbours)


def fitted(prediction: Prediction, rows: Tensor, truth: Tensor, kind: Kind) -> Calibrator:
    """The calibrator that some rows of a prediction give.

    Args:
        prediction: for more rows than these.
        rows: to learn from.
        truth: their classes, labels or values.
        kind: of calibrator.
    """
    task, outputs = prediction.task, prediction.mean.shape[1]
    if kind == "residual":
        error, var = truth - prediction.mean[rows].double(), prediction.total[rows].clamp_min(0)
        each = [fitted_residual(error[:, place], var[:, place]) for place in range(outputs)]
        return Calibrator(task, outputs, kind, {"variance": torch.tensor(each).double()})
    log_prob = log_probabilities(prediction.mean, task)
    if task in SIGMOIDS:  # each label is a row of its own with two classes
        log_prob = log_prob.view(len(prediction.mean), -1, 2)[rows].view(-1, 2)
        scale = fitted_scale(log_prob, truth.flatten())
    else:
        scale = fitted_scale(log_prob[rows], truth)
    found: dict[str, Tensor] = {"scale": torch.tensor(scale).double()}
    if kind == "graph":
        numbers = graph_numbers(prediction, scale)[rows]
        chance = fitted_chance(numbers, prediction.mean[rows].argmax(1) == truth)
        found |= {name: getattr(chance, name) for name in ("centre", "width", "slopes", "shift")}
    return Calibrator(task, outputs, kind, found)


def known_truth(
    prediction: Prediction, y: Numbers, nodes: Nodes
) -> tuple[Tensor, Tensor]:  # [some rows], [some rows] or [some rows, outputs]
    """Rows of a prediction and what is true of them.

    Args:
        prediction: for these nodes and others.
        y: the truth of every node.
        nodes: which.

    Raises:
        OptionError: the network was trained on some, or their truth is not known.
    """
    (truth,) = tensors(y=y)
    about, device = prediction.rows, prediction.mean.device
    if about.nodes is None and len(truth) != len(prediction.mean):
        raise OptionError(
            f"y has {len(truth):,} entries, the prediction {len(prediction.mean):,} rows",
            "give the truth of every node: data.y",
        )
    names = None if about.names is None else list(about.names)
    index = chosen_nodes(nodes, Data(x=prediction.mean, node_names=names))
    index = check_nodes(index, len(truth))
    assert index is not None  # nodes= is no option
    index = index.unique()  # a node that is named twice is known once
    if about.trained_on is not None and bool(about.trained_on[index].any()):
        count = int(about.trained_on[index].sum())
        raise OptionError(
            f"{count:,} of the {len(index):,} nodes are in train_mask: what a network was trained "
            "on says nothing about its errors elsewhere",
            "nodes=data.val_mask",
        )
    if len(index) < FEWEST:
        raise OptionError(f"{len(index)} nodes are too few to learn from", f"give {FEWEST} or more")
    return _rows(prediction, index, len(truth)), _truth(prediction, truth.to(device)[index], index)


def _rows(prediction: Prediction, index: Tensor, count: int) -> Tensor:
    nodes = prediction.rows.nodes
    if nodes is None:
        return index
    place = torch.full((count,), -1, device=index.device)
    place[nodes] = torch.arange(len(nodes), device=index.device)
    if bool((place[index] < 0).any()):
        node = int(index[place[index] < 0][0])
        raise OptionError(f"the prediction has no answer for node {node}", "predict all nodes")
    return place[index]


def _truth(prediction: Prediction, truth: Tensor, index: Tensor) -> Tensor:
    """Classes, zeros and ones for labels, or values."""
    task, outputs = prediction.task, prediction.mean.shape[1]
    several = task not in ("classification",)
    wanted = (len(index), outputs) if several else (len(index),)
    if truth.numel() != len(index) * (outputs if several else 1) or truth.is_complex():
        raise OptionError(
            f"y has shape {tuple(truth.shape)} for {len(index)} nodes",
            f"give {outputs if several else 'one class'} for each node: data.y",
        )
    truth = truth.reshape(wanted)
    if task == "regression":
        known, found = truth.isfinite(), truth.double()
    else:
        most = 2 if task in SIGMOIDS else outputs
        known, found = (truth >= 0) & (truth < most) & (truth == truth.long()), truth.long()
    if not bool(known.all()):
        node = int(index[(~known).reshape(len(index), -1).any(1)][0])
        raise OptionError(f"the truth about node {node} is not known", "leave such nodes out")
    return found


def _kind(prediction: Prediction, kind: Wanted, count: int) -> Kind:
    kind = one_of("kind", kind, get_args(Wanted))
    regression = prediction.task == "regression"
    if kind == "auto":
        if regression:
            return "residual"
        return "graph" if _graph_fits(prediction) and count >= ENOUGH_FOR_GRAPH else "temperature"
    if regression != (kind == "residual"):
        raise OptionError(
            f'kind="{kind}" does not fit task="{prediction.task}"',
            f'kind="{"residual" if regression else "temperature"}"',
        )
    if kind == "graph" and not _graph_fits(prediction):
        raise OptionError(
            'kind="graph" asks neighbours, and the prediction is not about one class for every '
            "node of a graph",
            'kind="temperature", or predict without nodes=',
        )
    return kind


def _graph_fits(prediction: Prediction) -> bool:
    about = prediction.rows
    one_of_several = prediction.task == "classification"
    return one_of_several and about.edge_index is not None and about.nodes is None
