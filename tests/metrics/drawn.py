"""What is measured in these tests: random probabilities, with ties where wanted."""

import torch


def classified(nodes=300, classes=5, *, levels=None, seed=0, dtype=torch.double):
    """Class probabilities, on a few levels so that they tie, and labels that lean on them."""
    draw = torch.Generator().manual_seed(seed)
    mean = (2 * torch.randn(nodes, classes, generator=draw, dtype=torch.double)).softmax(-1)
    if levels:
        mean = (mean * levels).ceil()
        mean = mean / mean.sum(dim=1, keepdim=True)
    return mean.to(dtype), torch.multinomial(mean, 1, generator=draw).flatten()


def pairs(count=500, *, levels=None, seed=0):
    """Probabilities, on a few levels so that they tie, and a truth that leans on them."""
    draw = torch.Generator().manual_seed(seed)
    prob = torch.rand(count, generator=draw, dtype=torch.double)
    if levels:
        prob = (prob * levels).floor() / levels
    return prob, torch.rand(count, generator=draw, dtype=torch.double) < prob**2


def normal(count=2000, *, scale=1.0, seed=0):
    """Means, variances and true values whose errors are ``scale`` times what is predicted."""
    draw = torch.Generator().manual_seed(seed)
    mean = torch.randn(count, generator=draw, dtype=torch.double)
    var = 0.1 + torch.rand(count, generator=draw, dtype=torch.double)
    noise = torch.randn(count, generator=draw, dtype=torch.double)
    return mean, var, mean + scale * var.sqrt() * noise
