"""The log-degree problem by forward-backward-forward steps, independent of Newton's method."""

import torch


def primal_dual(pairs, z, nodes, *, a=1.0, b=1.0, step=0.5, iterations=4000):
    """Weights after so many iterations of Komodakis and Pesquet's algorithm 6."""
    z = z.double()
    matrix = torch.zeros(nodes, pairs.size(1), dtype=torch.double)
    for number, ends in enumerate(pairs.T.tolist()):
        matrix[ends, number] = 1
    gamma = step / (2 * b + torch.linalg.matrix_norm(matrix, ord=2))
    w, v = torch.zeros(pairs.size(1)).double(), torch.zeros(nodes).double()
    for _ in range(iterations):
        y, dual_y = w - gamma * (2 * b * w + matrix.T @ v), v + gamma * matrix @ w
        p = (y - 2 * gamma * z).clamp_min(0)
        dual_p = (dual_y - (dual_y.square() + 4 * a * gamma).sqrt()) / 2
        w = w - y + p - gamma * (2 * b * p + matrix.T @ dual_p)
        v = v - dual_y + dual_p + gamma * matrix @ p
    return w.clamp_min(0), v
