"""Names that are nearly those of noise: under them it would be ignored in silence."""

from __future__ import annotations

from difflib import SequenceMatcher

#: What a graph says about its own uncertainty.
NOISE = ("x_var", "edge_prob")
#: Letters that agree, as difflib counts them: edge_porb is near enough, x_val is not.
NEAR = 0.87


def intended(name: str) -> str | None:
    """``x_var`` or ``edge_prob`` where another name can only mean that, else None.

    Example:
        >>> intended("edge_probs"), intended("x_variance"), intended("edge_attr")
        ('edge_prob', 'x_var', None)
    """
    if name in NOISE:
        return None
    return next((known for known in NOISE if _is_near(_bare(name), _bare(known))), None)


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def _is_near(name: str, known: str) -> bool:
    return name.startswith(known) or SequenceMatcher(None, name, known).ratio() >= NEAR
