"""Noise of every shape and size."""

from __future__ import annotations

import torch
from torch import Tensor

from campaign.choices import Choices

SIZES = (0.01, 1.0, 1e-6, 1e-30, 1e6, 0.0)
SHAPES = ("full", "per feature", "per node", "number", "float", "absent")


def noise(choose: Choices, x: Tensor) -> Tensor | float | None:  # [nodes, features]
    """A variance for the features: a number, or a tensor that is exact in places."""
    shape = choose.one_of(SHAPES)
    size = choose.one_of((0.01, *SIZES))
    if shape == "absent":
        return None
    if shape == "float":
        return size
    sizes = {
        "full": tuple(x.shape),
        "per feature": (x.shape[1],),
        "per node": (x.shape[0], 1),
        "number": (),
    }
    generator = choose.generator()
    var = size * (0.5 + torch.rand(sizes[shape], generator=generator, dtype=torch.float64))
    kind = choose.one_of(("even", "partly exact", "of all sizes"))
    if kind == "partly exact":
        var = var * (torch.rand(var.shape, generator=generator) < 0.5)
    elif kind == "of all sizes":
        var = torch.tensor(SIZES, dtype=torch.float64)[
            torch.randint(len(SIZES), var.shape, generator=generator)
        ]
    return var.to(x.dtype)
