"""Graphs beyond one machine: divided into parts, each of which a process works on."""

from varigraph.distributed.answer import PartedAnswer, read_answer
from varigraph.distributed.dividing import partition
from varigraph.distributed.parts import Part, Partition
from varigraph.distributed.predict import predict

__all__ = ["Part", "PartedAnswer", "Partition", "partition", "predict", "read_answer"]
