"""A method of the user's own among those compared: ``study paper --method mine.py:Mine``."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from torch_geometric.data import Data

from varigraph.baselines.plain import Baseline
from varigraph.errors import ModelError, OptionError, VarigraphError
from varigraph.files.fingerprint import digest
from varigraph.options import complaint, place_of
from varigraph.prediction import Prediction
from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.links import LINKS
from varigraph.prediction.sources.source import INTERACTIONS
from varigraph.prediction.sources.weights import WEIGHTS
from varigraph.studies.comparison.methods import METHODS, Method
from varigraph.studies.comparison.pieces import Bench
from varigraph.studies.own_model.network import named_object

#: What a prediction divides its variance into.
PARTS = (FEATURES, LINKS, WEIGHTS, INTERACTIONS)
EXAMPLE = "def fit(cls, graph, *, seed=0): ..., and def predict(self, graph, *, samples, seed): ..."


def own_method(spec: str) -> Method:
    """A class of the user's own as a method, run as all others are.

    The class has a ``fit(graph, *, seed=0)`` that returns a trained object, and that a
    ``predict(graph, *, samples=100, seed=0)`` that returns a :class:`~varigraph.Prediction` for
    every node, as the classes of :mod:`varigraph.baselines` do. The graph of ``fit`` has clean
    features and masks; ``fit`` may learn from ``train_mask`` and choose on ``val_mask``. The graph
    of ``predict`` has features that were seen through noise, and their variance ``x_var``.

    Args:
        spec: ``mine.py:Mine`` or ``package.module:Mine``. What was computed by another text of
            that file is computed again.

    Raises:
        OptionError: there is no such class, it is called like a method that is there already, or
            its functions cannot be called so.
    """
    kind = named_object(spec)
    name = getattr(kind, "__name__", spec.rpartition(":")[2])
    if name in {method.name for method in METHODS}:
        raise OptionError(f"{spec} is called like a method of ours", "give it another name")
    fit = getattr(kind, "fit", None)
    if fit is None or (wrong := complaint(fit, None, seed=0)) is not None:
        what = "has no fit" if fit is None else f"cannot be fitted: {wrong}"
        raise OptionError(f"{spec} {what}", EXAMPLE)
    return Method(name, OwnFit(spec), f"{spec}, not of this package", made_by=_text(kind))


def _text(kind: Any) -> str:
    """By which the text that made it can be told from another."""
    try:
        return digest(inspect.getsource(inspect.getmodule(kind) or kind).encode())
    except (OSError, TypeError):  # written without a file
        return ""


@dataclass(frozen=True)
class OwnFit:
    """Trains the user's method; other processes import it again.

    Args:
        spec: see :func:`own_method`.
    """

    spec: str

    def __call__(self, bench: Bench, noise: float) -> Baseline:
        """Train on the graph of the bench."""
        try:
            return OwnBaseline(self.spec, named_object(self.spec).fit(bench.graph, seed=bench.seed))
        except VarigraphError:
            raise
        except Exception as error:  # whatever the user's code raises
            raise ModelError(f"{self.spec} cannot be fitted: {place_of(error)}", EXAMPLE) from error


@dataclass(frozen=True, eq=False)
class OwnBaseline:
    """What the user's method was trained to; its answers are looked at before they are scored.

    Args:
        spec: see :func:`own_method`.
        fitted: what ``fit`` returned.
    """

    spec: str
    fitted: Any

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """The user's own prediction.

        Raises:
            ModelError: it fails, or is no prediction for every node.
        """
        try:
            found = self.fitted.predict(graph, samples=samples, seed=seed)
        except VarigraphError:
            raise
        except Exception as error:  # whatever the user's code raises
            raise ModelError(f"{self.spec} cannot predict: {place_of(error)}", EXAMPLE) from error
        if not isinstance(found, Prediction):
            raise ModelError(f"{self.spec} gives a {type(found).__name__}", REMEDY)
        what = _complaint(found, graph)
        if what is not None:
            raise ModelError(f"{self.spec} gives {what}", REMEDY)
        return found


REMEDY = (
    "return a vg.Prediction of class probabilities for every node; varigraph.baselines.from_draws "
    "makes one of the logits that you have drawn"
)
#: How far rows of probabilities may be from adding up to 1.
ROUNDED = 1e-3


def _complaint(found: Prediction, graph: Data) -> str | None:
    """Why it cannot be scored; None where it can."""
    if len(found.mean) != graph.num_nodes:
        return f"a prediction for {len(found.mean):,} of {graph.num_nodes:,} nodes"
    missing = [part for part in PARTS if part not in found.by_source]
    if missing:
        return f"a prediction whose by_source lacks {', '.join(missing)}"
    wide = found.mean.dim() != 2 or found.mean.size(1) != int(graph.y.max()) + 1
    if wide or found.task != "classification":
        return f"a prediction of shape {tuple(found.mean.shape)}, task {found.task}"
    sums = found.mean.detach().double().sum(1)
    if bool((found.mean < -ROUNDED).any() or ((sums - 1).abs() > ROUNDED).any()):
        return "a mean that is no probability: a row is negative or does not add up to 1"
    return None
