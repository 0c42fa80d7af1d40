"""Training, with or without an eye to the noise of the features."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from varigraph.data import check_one_kind, feature_variance
from varigraph.data.graph_parts import check_device
from varigraph.errors import GraphError, ModelError, OptionError, VarigraphError
from varigraph.moments import Gaussian
from varigraph.options import check_progress, number, one_of, place_of, seed_of, whole
from varigraph.prediction.calling import caller, check_takes_links
from varigraph.prediction.network_call import came_from, plain_answer
from varigraph.prediction.question import check_model, refuse_scripted
from varigraph.prediction.tasks import check_output
from varigraph.training.batch import Flow, NeighbourSampler
from varigraph.training.lesson import Lesson, Noise
from varigraph.training.networks import own_randomness
from varigraph.training.propagated import check_propagable

#: Types that labels can have.
CLASSES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
Progress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class History:
    """How a training went.

    Args:
        loss: training loss of each epoch.
        validation: loss on the validation nodes after each epoch.
        best_epoch: the epoch, from 1, whose weights were kept.
        seconds: time it took.
    """

    loss: tuple[float, ...]
    validation: tuple[float, ...]
    best_epoch: int
    seconds: float


def train(
    model: nn.Module,
    graph: Data,
    *,
    noise: Noise | None = None,
    epochs: int = 50,
    batch_size: int | None = 50,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.0,
    patience: int | None = None,
    fanouts: Sequence[int] = (10, 8),
    seed: int = 0,
    progress: Progress | None = None,
) -> History:
    r"""Train a network that classifies nodes, with or without an eye to the noise of its features.

    .. math::
        \min_\theta \; -\log \operatorname{softmax}(f_\theta(x))_y
        \qquad \text{or} \qquad
        \min_\theta \; E_{z \sim N(\mu, \Sigma)}
        \left[-\log \operatorname{softmax}(z)_y\right]

    The first is the paper's: cross entropy on the mean. The second is what it names as its next
    step: the expected cross entropy under the noise that ``graph.x_var`` states, so that the
    network learns not to lean on what noise will blur. Adam; after each epoch the loss on
    ``val_mask`` is taken with full neighbourhoods, and the weights with the smallest one are kept.
    Where the graph has ``edge_prob``, every message :math:`m_{vu}` counts as
    :math:`p_{vu} m_{vu}`, in training and in validation. Afterwards the network is in evaluation
    mode, ready for :func:`varigraph.predict`.

    Args:
        model: any network that maps ``(x, edge_index)`` to logits. It is changed: that is the aim.
        graph: with ``x``, ``edge_index``, ``y``, ``train_mask`` and ``val_mask``; with ``x_var``
            where noise is to be known.
        noise: ``"propagate"`` takes the moments :math:`\mu, \Sigma` of the logits in closed form,
            from features and dropout, to first order with all correlations, as
            ``predict(method="first-order")`` does; it needs a rule for every layer. ``"inject"``
            adds a new draw of the noise to the features in each step and works for any network.
            None leaves the noise out, as do all three where ``x_var`` is 0.
        epochs: passes over the training nodes.
        batch_size: training nodes per step, with sampled neighbourhoods; None takes the whole
            graph in every step, which suits graphs that fit in memory.
        learning_rate: of Adam.
        weight_decay: L2 penalty on all weights, of Adam.
        patience: stop after so many epochs without a smaller validation loss; None never does.
        fanouts: neighbours sampled per seed, per neighbour, and so on; the last one is repeated
            for a deeper network.
        seed: draws batches, neighbours, noise and dropout; torch's global generator is left alone.
        progress: called after each epoch with the epoch, ``epochs`` and the training loss.

    Example:
        >>> from torch_geometric.nn import GraphSAGE
        >>> import varigraph as vg
        >>> graph = vg.load("cora")
        >>> graph.x_var = vg.add_noise(graph, percent=12).x_var
        >>> model = GraphSAGE(graph.num_features, 16, num_layers=2, out_channels=7, dropout=0.5)
        >>> history = vg.train(model, graph, noise="propagate", batch_size=None, epochs=2)
        >>> len(history.loss)
        2
    """
    if noise is not None:
        one_of("noise", noise, get_args(Noise))
    epochs = whole("epochs", epochs, least=1, remedy="epochs=50")
    batch_size = _count("batch_size", batch_size, remedy="batch_size=50, or None")
    patience = _count("patience", patience, remedy="patience=20, or None")
    rate = number("learning_rate", learning_rate, lambda rate: rate >= 0, remedy="1e-3")
    decay = number("weight_decay", weight_decay, lambda decay: decay >= 0, remedy="0.0")
    seed = seed_of(seed)
    check_progress(progress, "epoch", "epochs", "loss")
    check_trainable(model, graph)
    lesson = Lesson(
        model,
        graph,
        torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay),
        torch.Generator().manual_seed(seed),
        _noise(noise, model, graph),
        None if batch_size is None else _sampler(model, graph, fanouts),
        batch_size or 0,
    )
    start = time.perf_counter()
    with torch.inference_mode(False), torch.enable_grad(), own_randomness(seed, graph.x.device):
        losses, validation = _taught(lesson, epochs, patience, progress)
    return History(
        loss=losses,
        validation=validation,
        best_epoch=validation.index(min(validation)) + 1,
        seconds=time.perf_counter() - start,
    )


def _taught(
    lesson: Lesson, epochs: int, patience: int | None, progress: Progress | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Losses in training and validation; the network is left with its best weights."""
    losses: list[float] = []
    validation: list[float] = []
    best: dict[str, Tensor] = {}
    model, since = lesson.model, 0
    for epoch in range(1, epochs + 1):
        losses.append(_epoch(lesson))
        current = lesson.validation_loss()
        since += 1
        if current < min(validation, default=math.inf):
            best = {name: value.detach().clone() for name, value in model.state_dict().items()}
            since = 0
        validation.append(current)
        if progress is not None:
            progress(epoch, epochs, losses[-1])
        if not math.isfinite(current):
            raise ModelError(
                "the validation loss stopped being a number",
                "lower the learning rate: learning_rate=1e-4",
            )
        if patience is not None and since >= patience:
            break
    model.load_state_dict(best)
    return tuple(losses), tuple(validation)


def _epoch(lesson: Lesson) -> float:
    try:
        return lesson.epoch()
    except VarigraphError:
        raise
    except Exception as error:
        if not came_from(lesson.model.forward, error):
            raise
        name = type(lesson.model).__name__
        raise ModelError(
            f"{name} failed in training: {place_of(error)}",
            "let it run in training mode and on parts of the graph, or batch_size=None",
        ) from error


def _noise(noise: Noise | None, model: nn.Module, graph: Data) -> Noise | None:
    """How the noise is to be known; None where there is none."""
    if noise is None:
        return None
    if graph.get("x_var") is None:
        raise GraphError(
            f"noise={noise!r}, but the graph does not say how noisy its features are",
            "graph.x_var = variance of the noise: a number, [features] or [nodes, 1]",
        )
    if not bool(feature_variance(graph).any()):
        return None
    if noise == "propagate":
        check_propagable(model)
    return noise


def _sampler(model: nn.Module, graph: Data, fanouts: Sequence[int]) -> NeighbourSampler:
    return NeighbourSampler(
        graph.edge_index, graph.num_nodes, _fanouts(fanouts, model), _flow(model)
    )


def _layers(model: nn.Module) -> list[MessagePassing]:
    return [module for module in model.modules() if isinstance(module, MessagePassing)]


def _fanouts(fanouts: Sequence[int], model: nn.Module) -> list[int]:
    remedy = "fanouts=(10, 8)"
    if not isinstance(fanouts, Iterable):
        raise OptionError(f"fanouts={fanouts!r} is not a list of numbers", remedy)
    counts = [whole("fanouts", each, least=1, most=2**31, remedy=remedy) for each in fanouts]
    # SGConv, APPNP and their like take K steps in one layer.
    steps = sum(
        layer.K if isinstance(getattr(layer, "K", None), int) else 1 for layer in _layers(model)
    )
    return counts + counts[-1:] * (steps - len(counts))


def _flow(model: nn.Module) -> Flow:
    flows: set[Flow] = {layer.flow for layer in _layers(model)}
    if len(flows) > 1:
        raise ModelError(
            "the layers send messages in both directions, so no neighbourhood serves them all",
            "train it your own way: vg.predict takes any trained network",
        )
    return flows.pop() if flows else "source_to_target"


def _count(name: str, value: int | None, *, remedy: str) -> int | None:
    return None if value is None else whole(name, value, least=1, most=2**31, remedy=remedy)


def check_trainable(model: nn.Module, graph: Data) -> None:
    """Raises if the network could not be trained on the graph; otherwise does nothing.

    Args:
        model: the network, which stays as it is.
        graph: with features, links, labels and masks.

    Raises:
        GraphError: naming what the graph lacks.
        ModelError: naming the parameter that does not fit it.
    """
    check_lesson(graph)
    check_model(model, graph)
    refuse_scripted(model)
    check_takes_links(model, graph)
    _check_parameters(model)
    _check_logits(plain_answer(model, caller(model, graph, None), graph.x), graph)


def check_lesson(graph: Data) -> None:
    """Raises if there is nothing on the graph that a network could be trained on.

    Args:
        graph: with features, links, labels and masks.
    """
    check_one_kind(graph)
    if graph.edge_index is None or graph.y is None:
        raise GraphError(
            "the graph has no edge_index or no labels y", "Data(x=..., edge_index=..., y=...)"
        )
    for name in ("train_mask", "val_mask"):
        _check_labels(graph, name)


def _check_labels(graph: Data, mask_name: str) -> None:
    mask, y, nodes = graph.get(mask_name), graph.y, graph.x.shape[:1]
    there = isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.shape == nodes
    if not there or mask.is_meta or not bool(mask.any()):
        raise GraphError(
            f"the graph has no nodes in {mask_name}",
            f"graph.{mask_name} = mask, [nodes] bool, true for at least one node",
        )
    check_device(mask_name, mask, graph.x)
    classes = isinstance(y, Tensor) and y.dtype in CLASSES and y.shape == nodes
    if classes:
        check_device("y", y, graph.x)
    if not classes or bool(y[mask].min() < 0):
        raise GraphError(
            f"the labels y of the nodes in {mask_name} are not classes",
            "graph.y = labels, [nodes], integers from 0",
        )


def _check_parameters(model: nn.Module) -> None:
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ModelError(
            f"{type(model).__name__} has no weights that can be learned",
            "model.requires_grad_(True), or a network with weights",
        )


def _check_logits(answer: object, graph: Data) -> None:
    nodes = len(graph.x)
    if not isinstance(answer, Tensor) or answer.shape[:1] != (nodes,):
        kind = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise ModelError(
            f"the network answers with {kind}, not with one row for each of {nodes} nodes",
            "return the logits, [nodes, classes]",
        )
    check_output(Gaussian.certain(answer), "classification", logits=True)
    classes, highest = answer.size(1), int(graph.y[graph.train_mask | graph.val_mask].max())
    if highest >= classes:
        raise ModelError(
            f"there are labels up to {highest}, but the network has {classes} outputs",
            f"give it {highest + 1} outputs, or number the classes from 0",
        )
