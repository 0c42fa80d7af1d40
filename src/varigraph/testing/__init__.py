"""Oracles and laws, so that a rule or a network of your own gets the same tests as ours."""

from varigraph.testing.laws import apply, check_rule, largest_error
from varigraph.testing.networks import check_network
from varigraph.testing.oracles import Moments, jacobian, quadrature, sampling

__all__ = [
    "Moments",
    "apply",
    "check_network",
    "check_rule",
    "jacobian",
    "largest_error",
    "quadrature",
    "sampling",
]
