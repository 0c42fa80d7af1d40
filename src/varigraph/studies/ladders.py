"""The options of a study of sensitivity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from varigraph.errors import OptionError
from varigraph.prediction.predict import Method
from varigraph.studies.config import Study

NOISE = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
DOUBT = (0.0, 6.25, 12.5, 25.0, 50.0, 100.0)


@dataclass(frozen=True)
class Ladders(Study):
    """The options of a study whose inputs get less sure step by step.

    Args:
        method: how to predict.
        doubt: levels of doubt about links, in per cent of that found; none where all are certain.
    """

    noise: tuple[float, ...] = NOISE
    method: Method = "first-order"
    doubt: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in get_args(Method):
            raise OptionError(
                f"method is {self.method!r}", f"choose one of {', '.join(get_args(Method))}"
            )
        if self.method == "sampled" and self.samples == 0:
            raise OptionError("the method sampled has samples 0", "draw some: samples=100")
        if bool(self.doubt) != (self.links is not None):
            raise OptionError(
                f"doubt is {self.doubt}, links is {self.links}",
                "give levels of doubt with links that can be doubted: links='hadamard'",
            )
        if not all(0 <= level <= 100 for level in self.doubt):
            raise OptionError(f"doubt is {self.doubt}", "levels go from 0 to 100: doubt=(0, 50)")
        if len(set(self.doubt)) < len(self.doubt):
            raise OptionError(f"doubt is {self.doubt}", f"give every level once: doubt={DOUBT}")

    def record(self) -> dict[str, Any]:
        """The options and the versions of what computes them, as JSON has them."""
        return {"study": "sensitivity", **super().record(), "doubt": list(self.doubt)}
