"""``vg.report``: a page about a prediction."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn
from torch_geometric.data import Data

from varigraph.errors import OptionError
from varigraph.files import check_target, write_text
from varigraph.moments.links import Reading
from varigraph.prediction import Prediction
from varigraph.prediction.network_call import Forward
from varigraph.prediction.prediction import PARTS
from varigraph.quantify import Audit, Level
from varigraph.reporting.page.causes import causes
from varigraph.reporting.page.document import document, plotly_script
from varigraph.reporting.page.figures import figures
from varigraph.reporting.page.headline import headline
from varigraph.reporting.page.making import making
from varigraph.reporting.page.neighbours import neighbours
from varigraph.reporting.page.nodes import GROUPS, nodes
from varigraph.reporting.page.subject import Subject


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
    links: Reading = "bernoulli",
    forward: Forward | None = None,
    about: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
) -> Path:
    """One HTML file that opens offline: where a network is unsure, and why.

    It holds the accuracy and the calibration, the variance by source, charts, a table of all nodes
    to search, and for a chosen node its answers with error bars, its neighbourhood and what
    contributed most. Nothing is fetched when it is opened. An earlier file is replaced.

    Args:
        prediction: for all nodes, see :func:`varigraph.predict`.
        graph: that it was made on, with ``y`` where the truth is known (-1 where it is not) and
            ``test_mask`` for the nodes to score; ``node_names`` and ``class_names`` are shown.
        model: that predicted; without it nothing is said about single causes.
        path: the file to write.
        title: of the page.
        levels: what was measured at each level of noise, for the chart of variance against noise.
        audit: of the method, see :func:`varigraph.audit`.
        explain: how many nodes to explain by :func:`varigraph.attribute`, which runs the model
            forward and back for each: two thirds the most uncertain, one third among the others.
        links: how ``edge_prob`` is read.
        forward: how to call the model, as for :func:`varigraph.predict`.
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
    if not isinstance(explain, int) or explain < 0:
        raise OptionError(f"explain={explain!r} is not a number of nodes", "explain=30, or 0")
    target, plotly = Path(path), plotly_script()
    check_target(target)  # before the work, so that mistakes show early
    subject = Subject.of(prediction, graph)
    content = {
        "title": title,
        "warnings": list(warnings),
        "task": prediction.task,
        "outputs": subject.output_names,
        "parts": list(PARTS),
        "groups": list(GROUPS.values()),
        "scored": subject.scored_as,
        "headline": headline(subject),
        "figures": figures(subject, levels),
        "nodes": nodes(subject, graph),
        "links": neighbours(graph),
        "causes": causes(subject, model, graph, count=explain, links=links, forward=forward),
        "making": making(prediction, audit, about or {}),
    }
    write_text(target, document(content, title=title, plotly=plotly))
    return target
