"""The machine that was measured."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

CPU = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Machine:
    """What figures of speed depend on.

    Args:
        processor: its name; that of the GPU where one was used.
        cores: of the processor.
        python: version.
        torch: version.
        torch_geometric: version.
    """

    processor: str
    cores: int
    python: str
    torch: str
    torch_geometric: str

    @classmethod
    def here(cls, device: str = "cpu") -> Machine:
        """This one.

        Args:
            device: that was measured.
        """
        cuda = torch.device(device).type == "cuda"
        return cls(
            processor=torch.cuda.get_device_name(device) if cuda else _processor(),
            cores=os.cpu_count() or 1,
            python=platform.python_version(),
            torch=str(torch.__version__),
            torch_geometric=version("torch_geometric"),
        )

    def __str__(self) -> str:
        return (
            f"{self.processor}, {self.cores} cores; Python {self.python}, torch {self.torch}, "
            f"torch_geometric {self.torch_geometric}"
        )


def _processor() -> str:
    lines = CPU.read_text().splitlines() if CPU.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
