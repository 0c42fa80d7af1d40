"""Conjugate gradients: solves with a matrix that is known only by its products."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def conjugate_gradients(
    product: Callable[[Tensor], Tensor],  # [n] -> [n]
    right: Tensor,  # [n]
    diagonal: Tensor,  # [n]
    *,
    tolerance: float = 1e-8,
    max_steps: int = 1000,
) -> Tensor:  # [n]
    """The x for which ``product(x)`` is ``right``, up to a residual of ``tolerance`` times it.

    Preconditioned by the diagonal. Whatever the number of steps, the result is a direction in
    which the quadratic form falls, so Newton's method may use it even where it is not exact.

    Args:
        product: multiplies by a symmetric positive definite matrix.
        right: the right-hand side.
        diagonal: of the matrix.
        tolerance: of the residual, in the norm of the preconditioner.
        max_steps: after which the current x is returned.
    """
    x, residual = right.new_zeros(right.shape), right
    direction = scaled = residual / diagonal
    size = residual @ scaled
    enough = tolerance**2 * size
    for _ in range(max_steps):
        if size <= enough:
            break
        pushed = product(direction)
        length = size / (direction @ pushed)
        x, residual = x + length * direction, residual - length * pushed
        scaled = residual / diagonal
        size, before = residual @ scaled, size
        direction = scaled + size / before * direction
    return x
