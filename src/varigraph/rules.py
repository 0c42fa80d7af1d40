"""What rules of your own are written with; docs/add-a-rule.md has examples.

A rule says what a function or a layer makes of means and variances (:func:`implements`). Its
response, which ``"first-order"`` and ``"covariance"`` need, is put on record by what it is made of:
:func:`elementwise` for functions of each number by itself, sums over neighbours by
:func:`incoming`, and torch functions that have rules already. For anything else :func:`recorded`
takes the operators that lead to a value: :class:`Dense`, :class:`Scale`, :class:`Columns` and
:class:`Sum`, or an :class:`Operator` of your own.
"""

from varigraph.moments import Gaussian, implements
from varigraph.moments.activations import elementwise
from varigraph.moments.convolutions import incoming
from varigraph.moments.propagation import recorded
from varigraph.moments.tape import Columns, Dense, Operator, Scale, Sum

__all__ = [
    "Columns",
    "Dense",
    "Gaussian",
    "Operator",
    "Scale",
    "Sum",
    "elementwise",
    "implements",
    "incoming",
    "recorded",
]
