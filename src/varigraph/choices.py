"""Words that options take, known without torch: the command line completes them at once."""

from __future__ import annotations

from typing import Literal

#: Graphs that ``vg.load`` knows by name.
DATASETS = ("cora", "citeseer", "pubmed", "computers", "photo")
#: How an answer is computed.
Method = Literal["auto", "first-order", "covariance", "diagonal", "sampled"]
#: How a chance is read: a coin that takes the link out of the graph, a coin that silences its
#: message in the observed graph, or a certain factor on the message.
Reading = Literal["removed", "bernoulli", "weight"]
#: One class of several, yes or no, each of several labels yes or no, numbers.
Task = Literal["classification", "binary", "multilabel", "regression"]
