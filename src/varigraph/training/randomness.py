"""Seeded randomness that leaves torch's global generators as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from varigraph.options import seed_of

_CPU = torch.device("cpu")


@contextmanager
def own_randomness(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Within it torch draws from this seed; afterwards as if nothing had been drawn.

    Args:
        seed: of everything that is drawn.
        device: that draws, besides the CPU.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed_of(seed))
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
