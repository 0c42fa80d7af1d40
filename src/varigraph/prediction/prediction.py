"""What a prediction is: a mean, a variance and where it comes from; and how logits give one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from varigraph.choices import Task
from varigraph.moments import Gaussian
from varigraph.prediction.intervals import ClassSets, Interval, Score, class_sets, interval
from varigraph.prediction.least_trusted import LeastTrusted, least_trusted
from varigraph.prediction.logits import CorrelatedLogits, divided
from varigraph.prediction.probabilities import class_probabilities, label_probabilities
from varigraph.prediction.rows import Rows
from varigraph.prediction.shown import figure, html
from varigraph.prediction.sources.source import about_network
from varigraph.prediction.table import frame
from varigraph.prediction.tasks import SIGMOIDS
from varigraph.trust.confidence import trust

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from varigraph.prediction.calibrator import Calibrator
    from varigraph.prediction.question import Question


def with_approximate(method: str, rules: Sequence[str]) -> str:
    """The name of a method with the rules that were used and are only approximate, then its why."""
    name, colon, why = method.partition(": ")
    return f"{name} (approximate {', '.join(rules)}){colon}{why}" if rules else method


@dataclass(frozen=True, eq=False, repr=False)
class StandardErrors:
    """Standard errors of sampled figures, each of the shape of what it belongs to."""

    mean: Tensor
    total: Tensor
    by_source: Mapping[str, Tensor]


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    r"""Mean and variance of a network's answer for every node, and what the variance is due to.

    .. math::
        \text{total} = \text{features} + \text{links} + \text{weights} + \text{interactions}

    A source's share is the variance of the answer's mean given that source,
    :math:`V[E[y \mid s]]`: what would be left if the others were known. What no source causes
    alone is interaction. All variances are on the scale of ``mean``, never on two scales at once.

    Args:
        mean: expected probability of each class or label, ``[nodes, classes]``; of yes,
            ``[nodes, 1]``, in a binary task; in regression the expected value.
        by_source: variance due to ``features``, ``links``, ``weights`` and ``interactions``; to
            ``edge_attr``, ``edge_weight`` and ``pos``, where the graph has noise there.
        logits: mean and total variance before the softmax or the sigmoids.
        method: how it was computed, and why so where that was left open.
        samples: number of dropout masks or draws; 0 where nothing was sampled.
        task: ``"classification"``, ``"binary"``, ``"multilabel"`` or ``"regression"``.
        std_error: standard errors, where the answer was sampled.
        approximate: names of rules that were used and are only approximate; ``method`` has them.
        as_written: kinds of layers that have no rule and were followed as they are written.
        plain: the network's own answer, inputs as they are seen and without dropout: the honest
            rival. None where the network cannot be run by itself, or not within the memory.
        rows: which nodes the rows are about, and what these are called.
        calibrator: what made its probabilities or variances hold, if anything did.
        chance: of each answer to be right, ``[nodes]``, where a calibrator has learned it.
        by_half: probabilities or error bars by half of what a calibrator has learned from, on which
            intervals and sets that hold the truth rest, ``[nodes, outputs]``.
        memory: bytes that the work on it was bounded by; None where nobody has said.
    """

    mean: Tensor
    by_source: Mapping[str, Tensor]
    logits: Gaussian
    method: str
    samples: int
    task: Task = "classification"
    std_error: StandardErrors | None = None
    approximate: tuple[str, ...] = ()
    as_written: tuple[str, ...] = ()
    plain: Tensor | None = None
    rows: Rows = field(default_factory=Rows)
    calibrator: Calibrator | None = None
    chance: Tensor | None = None
    by_half: Tensor | None = None
    memory: int | None = None

    @property
    def epistemic(self) -> Tensor:  # [nodes, classes]
        """Variance due to the weights alone (second term of equation 13)."""
        return self._sum(epistemic=True)

    @property
    def aleatoric(self) -> Tensor:  # [nodes, classes]
        """The rest: noisy features, uncertain links and what they do together (first term)."""
        return self._sum(epistemic=False)

    def _sum(self, *, epistemic: bool) -> Tensor:
        first, *others = [
            var for part, var in self.by_source.items() if (part in about_network()) == epistemic
        ]
        return sum(others, first)

    @property
    def total(self) -> Tensor:  # [nodes, classes]
        """Total variance: ``aleatoric + epistemic``."""
        return self.aleatoric + self.epistemic

    @property
    def std(self) -> Tensor:  # [nodes, classes]
        """Error bars: the root of ``total``."""
        return self.total.clamp_min(0).sqrt()  # sampled interactions may be negative

    @property
    def trust(self) -> Tensor:  # [nodes]
        r"""Higher for answers that are likelier to be right.

        .. math:: \max_c \bar y_c

        in classification, the expected confidence, averaged over all that is uncertain; of labels,
        yes or no included, the expected share of right ones, :math:`\max(\bar y, 1 - \bar y)` on
        average; in regression minus the error bar. Where a calibrator has learned the chance of
        being right by node, it is that.
        """
        return trust(self.mean, self.std, self.task) if self.chance is None else self.chance

    def least_trusted(self, count: int = 10) -> LeastTrusted:
        """The answers to be careful with: value ± error, the main cause, and what would help.

        Args:
            count: how many, the least trusted first.
        """
        return least_trusted(self, count)

    def interval(self, level: float = 0.9) -> Interval:
        r"""Where each number of the answer lies, with this probability.

        .. math:: \bar y_i \pm z \sigma_i \qquad\qquad \bar y_i \pm q \, s_i

        As predicted, it says how far the noise of the inputs and the doubt about the weights move
        the network's answer: the central part of a normal distribution, of probabilities of a beta
        distribution of the same mean and variance. It does **not** know what the network gets wrong
        by itself, and may hold the truth far less often.

        Calibrated values get split-conformal intervals: s is the error bar, inputs and residual,
        learned from half of the held-out nodes, and q the :math:`\lceil (n + 1) \text{level}
        \rceil`-th smallest of the errors :math:`|y_j - \bar y_j| / s_j` of the other half. They
        hold the truth of a new node with a chance of at least ``level``, on average over nodes and
        over held-out sets, for each output by itself, whatever the network and the noise are. That
        rests on one thing: the new node and the held-out ones could change places. A time series,
        nodes from elsewhere, or held-out nodes that were picked for being easy break it; and it
        says nothing about one node or one group of nodes in particular.

        Args:
            level: the share that is to be held, between 0 and 1.

        Example:
            >>> import torch, varigraph as vg
            >>> from torch_geometric.data import Data
            >>> links = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
            >>> data = Data(x=torch.ones(3, 1), edge_index=links, x_var=0.04)
            >>> def twice(model, x, data):
            ...     return 2 * x
            >>> options = {"forward": twice, "task": "regression", "samples": 0}
            >>> pred = vg.predict(torch.nn.Identity(), data, **options)
            >>> low, high = pred.interval(0.9)  # 2 ± 1.645 x 0.4
            >>> [round(end.item(), 3) for end in (low[0], high[0])]
            [1.342, 2.658]
        """
        return interval(self, level)

    def class_sets(
        self, level: float = 0.9, *, score: Score = "threshold", neighbours: bool | None = None
    ) -> ClassSets:
        r"""The classes that each node may have: sets that hold the truth with this probability.

        .. math:: \{c : s_{ic} \le q\}

        q is the :math:`\lceil (n + 1) \text{level} \rceil`-th smallest score of the true class of
        n held-out nodes (split-conformal prediction). The prediction has to be calibrated: half of
        the held-out nodes shape the probabilities that are scored, the other half is scored. A new
        node's set then holds its class with a chance of at least ``level``, on average over nodes
        and over held-out sets. What breaks that is the same as for :meth:`interval`. A set may be
        empty: no class is likely enough, which says that the node is strange.

        Args:
            level: the share of the sets that are to hold the truth, between 0 and 1.
            score: ``"threshold"``, :math:`1 - p_c`, gives the smallest sets on average;
                ``"adaptive"``, the probability of all classes that are at least as likely, gives
                hard nodes larger sets and easy ones smaller.
            neighbours: whether scores are smoothed over links (DAPS), which helps where neighbours
                tend to be of one class; by default whatever gave smaller sets in the half that is
                not scored.
        """
        return class_sets(self, level, score, neighbours)

    def to_pandas(self, *, interval: float | None = None) -> pd.DataFrame:
        """A table of one row for each node, by its name or number.

        It has the answer and its error bar, ``plain``, what the network by itself says of the same,
        ``trust``, the variance with its parts, and where there are several classes all of that by
        class.

        Args:
            interval: share that intervals are to hold, to have their ends as ``low`` and ``high``
                too, and where the prediction is calibrated the possible ``classes``.

        Raises:
            OptionError: pandas is not installed.
        """
        return frame(self, interval)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all of it, with names and calibrator, for :func:`varigraph.load_prediction`.

        The file is a safetensors file: numbers and texts, no code. It needs safetensors.

        Args:
            path: the file; an earlier one is replaced, whole or not at all.

        Raises:
            FileError: it cannot be written.
        """
        from varigraph.prediction.saved_prediction import write_prediction  # noqa: PLC0415

        return write_prediction(self, path)

    def plot(self, *, level: float = 0.9) -> Figure:
        """How far answers can be trusted, the plain network beside it, and what variance is due to.

        In regression values with their intervals take the place of trust.

        Args:
            level: share that these intervals are to hold.

        Raises:
            OptionError: matplotlib is not installed.
        """
        return figure(self, level)

    def because(self, why: str) -> Prediction:
        """The same, with why its method was taken in place of what the method says of itself."""
        return replace(self, method=f"{self.method.partition(': ')[0]}: {why}")

    def _repr_html_(self) -> str:
        return html(self)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.mean.shape))
        shares = ", ".join(f"{part} {self.by_source[part].mean():.3g}" for part in self.by_source)
        return (
            f"Prediction({shape}, {self.task}, method={self.method!r}, samples={self.samples}, "
            f"mean variance: {shares})"
        )


def answer_by_blocks(
    blocks: Iterable[CorrelatedLogits],
    nodes: int,
    question: Question,
    *,
    active: Sequence[str],
    method: str,
    approximate: Sequence[str] = (),
) -> Prediction:
    """The same from blocks of nodes, of which only one is there at a time.

    Args:
        blocks: logits of the nodes, one block after the other.
        nodes: how many they are together.
        question: what was asked.
        active: the parts that cause variance.
        method: how the logits came about.
        approximate: names of rules on the way that are only approximate.
    """
    found: dict[str, Tensor] = {}
    first = 0
    for block in blocks:
        rows = slice(first, first := first + len(block.mean))
        for name, values in _numbers(block, question, active).items():
            if name not in found:
                # Made before the work on later blocks: small tensors in between would keep the
                # memory of large ones from being used again.
                found[name] = values.new_zeros(nodes, values.shape[1])
            found[name][rows] = values
    return Prediction(
        mean=found["mean"],
        by_source={part: found[part] for part in question.parts},
        logits=Gaussian(found["logits"], found["var"]),
        method=with_approximate(method, approximate),
        samples=0,
        task=question.task,
        approximate=tuple(approximate),
    )


def _numbers(
    logits: CorrelatedLogits, question: Question, active: Sequence[str]
) -> dict[str, Tensor]:  # [nodes, classes] each
    marginal = logits.marginal
    if question.task == "regression":
        mean, parts = logits.mean, divided(logits)
    elif question.task in SIGMOIDS:
        mean, parts = label_probabilities(logits, active)
    else:
        mean, parts = class_probabilities(logits, active)
    return {"mean": mean, **parts, "logits": marginal.mean, "var": marginal.var}
