"""How the library is asked about a network: as a user would."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import varigraph as vg
from corpus.registry import Network

SOURCES = ("features", "links")
#: Draws of the library, where it samples.
SAMPLES = 200


def asked(network: Network, source: str | None, **others: Any) -> vg.Prediction:
    """The library's answer about one source, asked for as a user would.

    Args:
        network: the network.
        source: what is uncertain; the graph says nothing of other sources. None for everything,
            dropout as well.
        others: options besides, and ``model`` or ``data`` where they are to be others.
    """
    model, data = others.pop("model", None), copy.copy(others.pop("data", network.data))
    for store in data.stores if source else ():
        store.pop("edge_prob" if source == "features" else "x_var", None)
    sources = (source,) if source else None
    options = {"sources": sources, "samples": SAMPLES, **network.options, **others}
    if source != "features":
        options["links"] = "removed"
    if network.picks is not None and "output" in inspect.signature(vg.predict).parameters:
        options["output"] = network.picks
    if network.call is not None or (network.picks is not None and "output" not in options):
        options["forward"] = network.call or network.answer
    return vg.predict(network.trained() if model is None else model, data, **options)
