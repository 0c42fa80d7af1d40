"""``varigraph.report``: one page about a prediction, from the options to the file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, TypeVar, get_args

from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.choices import Reading
from varigraph.errors import OptionError
from varigraph.files import check_target, write_text
from varigraph.options import one_of, path_of, text, whole
from varigraph.prediction import Prediction
from varigraph.prediction.calling import Forward, Pairs, pairs_of
from varigraph.quantify import Audit, Level
from varigraph.reporting.page.advice import actions, verdicts
from varigraph.reporting.page.charts import charts, headline
from varigraph.reporting.page.document import document, plotly_script
from varigraph.reporting.page.nodes import causes, neighbours, nodes
from varigraph.reporting.page.subject import GROUPS, PageSubject

Kind = TypeVar("Kind")


def report(
    prediction: Prediction,
    graph: Data,
    *,
    model: nn.Module | None = None,
    path: str | os.PathLike[str] = "report.html",
    title: str = "Error bars",
    levels: Sequence[Level] = (),
    audit: Audit | None = None,
    explain: int = 30,
    links: Reading = "removed",
    forward: Forward | None = None,
    links_to_score: Pairs | None = None,
    about: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
) -> Path:
    """One HTML file that opens offline: where a network is unsure, and why.

    It says whether trust and intervals hold, what the doubt is due to and what would help, and has
    charts, a searchable table of all nodes, and for a chosen node its answers with error bars, its
    neighbourhood, the causes of its variance and what to do about them. Nothing is fetched when it
    is opened. An earlier file is replaced.

    Args:
        prediction: for all nodes, see :func:`varigraph.predict`.
        graph: that it was made on, with ``y`` where the truth is known (-1 where it is not) and
            ``test_mask`` for the nodes to score; ``node_names`` and ``class_names`` are shown.
        model: that predicted; without it the page says nothing about single causes.
        path: the file to write.
        title: of the page.
        levels: what was measured at each level of noise, for the chart of variance against noise.
        audit: of the method, see :func:`varigraph.audit`.
        explain: how many nodes to explain by :func:`varigraph.attribute`, which runs the model
            forward and back for each: two thirds are the least trusted nodes, one third is spread
            over the others.
        links: how ``edge_prob`` is read.
        forward: how to call the model, as for :func:`varigraph.predict`.
        links_to_score: pairs of nodes that the prediction is about, as for
            :func:`varigraph.predict`; their truth is ``graph.edge_label``.
        about: what else to say about how it was made, such as ``{"Seed": 0}``.
        warnings: sentences that a reader must see first.

    Returns:
        Where the page was written.

    Raises:
        FileError: the file cannot be written.
        GraphError: prediction and graph do not fit together.
        OptionError: an option makes no sense, or plotly is not installed.

    Example:
        >>> from tempfile import mkdtemp
        >>> import varigraph as vg
        >>> noisy = vg.add_noise(vg.load("cora"), percent=12)
        >>> model = vg.paper_network(noisy)  # or any trained network
        >>> pred = vg.predict(model, noisy, method="diagonal", samples=2)
        >>> vg.report(pred, noisy, model=model, explain=2, path=f"{mkdtemp()}/cora.html").name
        'cora.html'
    """
    explain = whole("explain", explain, remedy="explain=30, or 0")
    title = text("title", title, remedy='title="Error bars"')
    links = one_of("links", links, get_args(Reading))
    levels = _all("levels", levels, Level, remedy="levels=[Level(noise, scores)]")
    warnings = _all("warnings", warnings, str, remedy='warnings=["The links are a guess."]')
    about = {} if about is None else about
    _check_remarks(about, audit)
    target, plotly = path_of("path", path, remedy='path="report.html"'), plotly_script()
    check_target(target)  # before the work, so that mistakes show early
    subject = PageSubject.of(prediction, graph, _pairs(links_to_score, graph))
    content = {
        "title": title,
        "warnings": warnings,
        "task": "classification" if subject.classification else "regression",
        "outputs": subject.output_names,
        "parts": list(subject.parts),
        "groups": list(GROUPS.values()),
        "rows": "nodes" if subject.pairs is None else "pairs",
        "scored": subject.scored_as,
        "verdicts": [verdict._asdict() for verdict in verdicts(subject, prediction)],
        "actions": actions(subject),
        "headline": headline(subject),
        "figures": charts(subject, levels),
        "nodes": nodes(subject),
        "links": neighbours(graph) if subject.pairs is None else {"count": 0},
        "causes": causes(
            subject, prediction, model, graph, count=explain, links=links, forward=forward
        ),
        "making": making(prediction, audit, about),
    }
    write_text(target, document(content, title=title, plotly=plotly))
    return target


def _pairs(pairs: Pairs | None, graph: Data) -> Tensor | None:  # -> [2, pairs]
    found = pairs_of(pairs, graph)
    return None if found is None else found.cpu()


def _all(name: str, values: Iterable[Kind], kind: type[Kind], *, remedy: str) -> list[Kind]:
    """A list whose entries are all of a kind, and can be written where they are text."""
    found = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else None
    if found is None or not all(isinstance(value, kind) for value in found):
        raise OptionError(f"{name}={shortened(values)} is no list of {kind.__name__}", remedy)
    for value in found:
        if isinstance(value, str):
            text(name, value, remedy=remedy)
    return found


def _check_remarks(about: Mapping[str, Any], audit: Audit | None) -> None:
    if not isinstance(about, Mapping):
        raise OptionError(f"about={shortened(about)} has no names and values", 'about={"Seed": 0}')
    for name, value in about.items():
        text("about", f"{name} {value}", remedy='about={"Seed": 0}')
    if audit is not None and not isinstance(audit, Audit):
        raise OptionError(
            f"audit={shortened(audit)} is no audit", "audit=vg.audit(model, graph), or None"
        )


#: What can change a number or a chart.
PACKAGES = ("varigraph", "torch", "torch-geometric", "plotly")


def making(prediction: Prediction, audit: Audit | None, about: Mapping[str, Any]) -> dict[str, Any]:
    """Lines of a name and a value, and the table of an audit.

    Args:
        prediction: whose method it is.
        audit: of that method, if there was one.
        about: what else to say, such as the seed.
    """
    parts = {part: f"{var.double().mean():.3g}" for part, var in prediction.by_source.items()}
    lines = {
        "Method": prediction.method,
        "Dropout masks or draws": prediction.samples or "none, closed form",
        **{name: value for name, value in about.items() if value is not None},
        "Mean variance": ", ".join(f"{part} {mean}" for part, mean in parts.items()),
        "Versions": ", ".join(f"{package} {version(package)}" for package in PACKAGES),
    }
    return {
        "lines": [[name, str(value)] for name, value in lines.items()],
        "audit": None if audit is None else str(audit),
    }
