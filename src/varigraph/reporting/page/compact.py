"""Numbers in few digits, and JSON that can stand inside a page."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from torch import Tensor

#: What would end a script, open a comment or break a line of one.
_UNSAFE = {sign: f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def rounded(values: Tensor, digits: int = 4) -> list[float]:
    """Numbers with so many significant digits, as one flat list.

    Args:
        values: finite numbers of any shape.
        digits: how many to keep.

    Example:
        >>> import torch
        >>> rounded(torch.tensor([[0.0123456, 98764.0], [0.0, -1.0]]).double())
        [0.01235, 98760.0, 0.0, -1.0]
    """
    flat = values.detach().cpu().double().flatten().numpy()
    size = np.floor(np.log10(np.abs(flat), where=flat != 0, out=np.zeros_like(flat)))
    # Far below what a page shows a power of ten would overflow.
    scale = 10.0 ** np.clip(digits - 1 - size, -300, 300)
    short: list[float] = (np.round(flat * scale) / scale).tolist()
    return short


def embedded(value: Any) -> str:
    r"""JSON without spaces in which nothing can end the script element that holds it.

    Args:
        value: of names, finite numbers, lists and dicts.

    Example:
        >>> print(embedded({"name": "</script>"}))
        {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign, escape in _UNSAFE.items():
        text = text.replace(sign, escape)
    return text
