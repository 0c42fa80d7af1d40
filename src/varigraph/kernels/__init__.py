"""Kernels for GPUs: one trip through memory where torch's own operations take many.

Each does what plain torch does elsewhere in this package, number for number up to rounding; that
way stays, for processors, for other number types and where Triton is not installed.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor

INSTALLED = find_spec("triton") is not None


def fused(*tensors: Tensor) -> bool:
    """Whether kernels take these tensors: single precision, on a GPU, nothing to be learned.

    Nor do they take tensors without numbers, for which there is nothing to launch.
    """
    fitting = all(x.is_cuda and x.dtype == torch.float32 and x.numel() > 0 for x in tensors)
    return INSTALLED and fitting and not torch.is_grad_enabled()
