"""Graphs beyond one machine: divided into parts, each of which a process works on."""

from varigraph.distributed.dividing import partition
from varigraph.distributed.parts import Part, Partition

__all__ = ["Part", "Partition", "partition"]
