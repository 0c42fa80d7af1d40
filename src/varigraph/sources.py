"""What sources of uncertainty of your own are written with; docs/add-a-source.md has an example.

A :class:`Source` says what is uncertain, how it is held at its mean, what it adds in closed form
(:func:`with_noise`), how it is drawn, and what an answer is differentiated by (:class:`Leaf`).
Once it is put on record by :func:`register`, every method considers it, and ``pred.by_source`` has
its share.
"""

from varigraph.moments.propagation import with_noise
from varigraph.prediction.sources.source import Leaf, Source, register

__all__ = ["Leaf", "Source", "register", "with_noise"]
