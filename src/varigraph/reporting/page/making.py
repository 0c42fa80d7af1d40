"""How the figures of a page were made."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from varigraph.prediction.prediction import PARTS, Prediction
from varigraph.quantify import Audit

#: What can change a number or a chart.
PACKAGES = ("varigraph", "torch", "torch-geometric", "plotly")


def making(prediction: Prediction, audit: Audit | None, about: Mapping[str, Any]) -> dict[str, Any]:
    """Lines of a name and a value, and the table of an audit.

    Args:
        prediction: whose method it is.
        audit: of that method, if there was one.
        about: what else to say, such as the seed.
    """
    parts = {part: f"{prediction.by_source[part].double().mean():.3g}" for part in PARTS}
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
