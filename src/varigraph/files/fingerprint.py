"""Short texts that tell one content from another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def digest(content: bytes) -> str:
    """The first 16 signs of SHA-256: enough against mix-ups, not against forgers."""
    return hashlib.sha256(content).hexdigest()[:16]


def fingerprint(value: Any) -> str:
    """Of a value that JSON can hold; the order of keys does not count."""
    return digest(json.dumps(value, sort_keys=True, allow_nan=False).encode())


def tensor_fingerprint(values: Tensor) -> str:
    """Shape, dtype and a digest of the content."""
    shape = "x".join(map(str, values.shape))
    content = values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return f"{shape} {values.dtype} {digest(content)}"


def weights_fingerprint(state: Mapping[str, Tensor]) -> str:
    """Of all weights of a network, by their names."""
    return fingerprint({name: tensor_fingerprint(value) for name, value in state.items()})
