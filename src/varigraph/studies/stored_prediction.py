"""The prediction of a run at one level of noise, as the arrays of its file."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

from varigraph.moments import Gaussian
from varigraph.prediction import Prediction
from varigraph.prediction.predict import Method
from varigraph.prediction.prediction import PARTS
from varigraph.quantify import Level, score
from varigraph.studies.paper import published
from varigraph.studies.pieces import Arrays

#: What a run predicts with.
METHOD: Method = "diagonal"
_NAMES = ("mean", "aleatoric", "epistemic", *PARTS, "logits_mean", "logits_var")


def file_of(noise: float) -> str:
    """The name of the file for a level of noise."""
    return f"predictions-{noise:g}.npz"


def stored(prediction: Prediction, graph: Data) -> Arrays:
    """A prediction as arrays, with the numbers of the test nodes.

    Args:
        prediction: of all nodes.
        graph: with ``test_mask``.
    """
    tensors = {"mean": prediction.mean, **prediction.by_source}
    tensors |= {name: getattr(prediction, name) for name in ("aleatoric", "epistemic")}
    tensors |= {"logits_mean": prediction.logits.mean, "logits_var": prediction.logits.var}
    tensors |= {"test_nodes": graph.test_mask.nonzero().flatten()}
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def complete(arrays: Arrays, graph: Data) -> bool:
    """Whether arrays that were read back are those that a run writes.

    Args:
        arrays: by name.
        graph: that they are to be about.
    """
    shape = (graph.num_nodes, int(graph.y.max()) + 1)
    return all(name in arrays and arrays[name].shape == shape for name in _NAMES)


def restored(arrays: Arrays, *, samples: int) -> Prediction:
    """The prediction behind complete arrays.

    Args:
        arrays: of :func:`stored`.
        samples: dropout masks that it was made with.
    """
    tensors = {name: torch.from_numpy(arrays[name]) for name in _NAMES}
    return Prediction(
        mean=tensors["mean"],
        by_source={part: tensors[part] for part in PARTS},
        logits=Gaussian(tensors["logits_mean"], tensors["logits_var"]),
        method=METHOD,
        samples=samples,
    )


def level_of(prediction: Prediction, graph: Data, *, dataset: str, noise: float) -> Level:
    """Scores of the test nodes, next to the paper's.

    Args:
        prediction: of all nodes.
        graph: with labels and ``test_mask``.
        dataset: its name.
        noise: in per cent of the mean feature.
    """
    nodes = graph.test_mask
    parts = {part: var[nodes] for part, var in prediction.by_source.items()}
    scores = score(prediction.mean[nodes], parts, graph.y[nodes])
    return Level(noise, scores, published(dataset, noise))
