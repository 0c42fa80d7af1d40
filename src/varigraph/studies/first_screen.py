"""What ``varigraph run`` shows first: accuracy, three answers, a refusal, brute force, a page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from varigraph.data import add_noise
from varigraph.prediction import Prediction
from varigraph.prediction.least_trusted import Doubtful
from varigraph.prediction.sources.source import INTERACTIONS
from varigraph.studies.brute_force import BruteForce, brute_force
from varigraph.studies.config import Progress, quiet
from varigraph.studies.folder import claimed, read_config
from varigraph.studies.run import Outcome, made_by, run
from varigraph.studies.saved_run import SavedRun, run_page, trusted

#: Columns of a terminal.
WIDTH = 80
#: Causes in other words than a table of all nodes has room for.
CAUSES = {INTERACTIONS: "causes that add to each other"}
#: What the nodes and links of a data set are.
NODES = {
    "cora": "papers on machine learning, linked by citations",
    "citeseer": "papers on computer science, linked by citations",
    "pubmed": "papers on diabetes, linked by citations",
    "computers": "products, linked where they are often bought together",
    "photo": "products, linked where they are often bought together",
}
#: Share of the answers to refuse, the least trusted first.
REFUSED = 0.1


@dataclass(frozen=True)
class Refusal:
    """Accuracy of all answers, and of those that are left when the least trusted are refused.

    Args:
        all: share of right ones among all.
        left: share of right ones among those that are left.
    """

    all: float
    left: float

    @classmethod
    def of(cls, trust: Tensor, right: Tensor, share: float = REFUSED) -> Refusal:
        """Refuse a share of the answers.

        Args:
            trust: of each answer, ``[nodes]``.
            right: which are, ``[nodes]`` bool.
            share: of the answers to refuse.

        Example:
            >>> import torch
            >>> Refusal.of(torch.tensor([0.9, 0.1]), torch.tensor([True, False]), share=0.5)
            Refusal(all=0.5, left=1.0)
        """
        kept = trust.argsort(stable=True)[round(share * len(trust)) :]
        return cls(float(right.double().mean()), float(right[kept].double().mean()))


@dataclass(frozen=True)
class Answer:
    """An answer and whether it is right."""

    doubtful: Doubtful
    right: bool


@dataclass(frozen=True)
class FirstScreen:
    """Everything that is shown.

    Args:
        outcome: of the run.
        nodes: what they and the links are, in words.
        noise: the level that it is about, the highest, in per cent of the mean feature.
        sizes: nodes by what they are for: ``all``, ``trained``, ``learned`` (what the trust was
            learned from) and ``tested``; and the number of ``classes``.
        without_noise: accuracy at the lowest level of noise.
        answers: three of them: the most trusted test node, the middle one and the least trusted.
        ours: what refusing by our trust does.
        plain: what refusing by the network's own confidence does; None where that is not known.
        brute_force: how large the error bars are.
        page: where the page is.
    """

    outcome: Outcome
    nodes: str
    noise: float
    sizes: dict[str, int]
    without_noise: float
    answers: tuple[Answer, ...]
    ours: Refusal
    plain: Refusal | None
    brute_force: BruteForce
    page: Path

    def to_dict(self) -> dict[str, Any]:
        """Everything as names, numbers and lists, ready for JSON."""
        return {
            "noise": self.noise,
            "nodes": dict(self.sizes),
            "accuracy": self.ours.all,
            "accuracy_without_noise": self.without_noise,
            "answers": [{**asdict(each.doubtful), "right": each.right} for each in self.answers],
            "refused": REFUSED,
            "accuracy_of_the_rest": self.ours.left,
            "accuracy_of_the_rest_by_plain_confidence": None if not self.plain else self.plain.left,
            "brute_force": asdict(self.brute_force),
            "page": str(self.page),
        }

    def __str__(self) -> str:
        outcome = self.outcome
        table = "Three of its answers: the most trusted, one in the middle, the least trusted"
        sentences = (
            self._task(),
            "\n".join((table, "", *self._rows)),
            f"Trust is the chance that an answer is right, learned from {self.sizes['learned']:,} "
            f"validation nodes. {self._refusal()}",
            self._fidelity(),
            *outcome.notes,
            "Every node, what makes it uncertain and what to do, to open in a browser:\n"
            f"{self.page}",
        )
        return "\n\n".join(_filled(sentence) for sentence in sentences)

    def _task(self) -> str:
        sizes = self.sizes
        return (
            f"{self.outcome.title}: {sizes['all']:,} {self.nodes}. A network learned to tell "
            f"their {sizes['classes']} classes from {sizes['trained']:,} of them. Then noise was "
            f"added to the features of all, of variance {self.noise:g} % of the mean feature. Of "
            f"{sizes['tested']:,} test nodes the network now gets {100 * self.ours.all:.1f} % "
            f"right; without the noise, {100 * self.without_noise:.1f} %."
        )

    @property
    def _rows(self) -> list[str]:
        head = ("", "answer", "probability", "trust", "", "main cause of the doubt")
        rows = [
            (
                each.doubtful.name,
                each.doubtful.answer,
                f"{each.doubtful.value:.2f} ± {each.doubtful.std:.2f}",
                f"{each.doubtful.trust:.2f}",
                "right" if each.right else "wrong",
                f"{CAUSES.get(each.doubtful.cause, each.doubtful.cause)}, "
                f"{100 * each.doubtful.share:.0f} %",
            )
            for each in self.answers
        ]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows)]

    def _refusal(self) -> str:
        refused = f"{100 * REFUSED:.0f} %"
        found = (
            f"If the least trusted {refused} are refused, {100 * self.ours.left:.1f} % of the "
            "others are right"
        )
        if self.plain is None:
            return f"{found}."
        return (
            f"{found}; if the plain network's own confidence decides what to refuse, "
            f"{100 * self.plain.left:.1f} %."
        )

    def _fidelity(self) -> str:
        found = self.brute_force
        start = (
            "How long the error bars are, compared with brute force "
            f"({found.draws} noisy runs; 1 is right): ours {found.ours:.2f}, the published method "
            f"{found.published:.2f}"
        )
        if found.ours_features is None or found.published_features is None:
            return f"{start}."
        return (
            f"{start}; their part that is due to the noise alone: ours {found.ours_features:.2f}, "
            f"the published method {found.published_features:.2g}."
        )


def _filled(text: str) -> str:
    """Sentences in lines of a terminal; what has lines already stays as it is."""
    if "\n" in text:
        return text
    kept = text.replace(" %", "\xa0%")  # a number stays with its sign
    return fill(kept, WIDTH, break_on_hyphens=False).replace("\xa0", " ")


def first_screen(
    dataset: str = "cora",
    *,
    root: str | Path | None = None,
    explain: int = 30,
    progress: Progress | None = None,
    **options: Any,
) -> FirstScreen:
    """Make a run, or take up one, and gather what is shown of it; its page is written.

    Args:
        dataset: name of a data set.
        root: folder that holds the data sets.
        explain: nodes whose causes the page has.
        progress: called with a stage, the steps done and the number of steps.
        options: further ones of :func:`~varigraph.studies.run.run`.
    """
    progress = progress or quiet
    outcome = run(dataset, root=root, progress=progress, **options)
    folder = outcome.folder
    saved = SavedRun.read(folder, root=None if root is None else Path(root), progress=progress)
    noise, graph = max(saved.arrays), saved.graph
    noisy = add_noise(graph, percent=noise, seed=saved.study.seed)
    with claimed(folder, read_config(folder) or {}) as pieces:
        found = brute_force(
            saved.model,
            noisy,
            saved.study,
            pieces,
            maker=made_by(saved.model),
            progress=progress,
        )
        progress("page", 0, 1)
        page = run_page(saved, noise=noise, explain=explain)
        progress("page", 1, 1)
    prediction = trusted(saved.prediction(noise), saved)
    ours, plain = _refusals(prediction, graph)
    masks = {"trained": graph.train_mask, "learned": graph.val_mask, "tested": graph.test_mask}
    return FirstScreen(
        outcome=outcome,
        nodes=NODES.get(saved.study.dataset, "nodes"),
        noise=noise,
        sizes={
            "all": len(graph.y),
            "classes": prediction.mean.shape[1],
            **{name: int(mask.sum()) for name, mask in masks.items()},
        },
        without_noise=min(outcome.levels, key=lambda level: level.noise).scores.accuracy,
        answers=_three(prediction, graph),
        ours=ours,
        plain=plain,
        brute_force=found,
        page=page,
    )


def _refusals(prediction: Prediction, graph: Data) -> tuple[Refusal, Refusal | None]:
    test = graph.test_mask
    right = (prediction.mean.argmax(1) == graph.y)[test]
    ours = Refusal.of(prediction.trust[test], right)
    if prediction.plain is None:
        return ours, None
    confidence, best = prediction.plain[test].max(1)
    return ours, Refusal.of(confidence, best == graph.y[test])


def _three(prediction: Prediction, graph: Data) -> tuple[Answer, ...]:
    """The most trusted test node, the middle one and the least trusted."""
    right = (prediction.mean.argmax(1) == graph.y).tolist()
    tested = set(graph.test_mask.nonzero().flatten().tolist())
    ranked = [row for row in prediction.least_trusted(len(right)) if row.node in tested]
    chosen = ranked[-1], ranked[len(ranked) // 2], ranked[0]
    return tuple(Answer(row, right[row.node]) for row in chosen)
