# %% [markdown]
"""# Which paper's topic is in doubt?

Cora is a network of papers that cite each other; a graph neural network tells the topic of each
from its words and its citations. Here the words are seen through noise. How sure are the answers,
is that true, and what is won by refusing those in doubt?

Cora is part of the package, so nothing is downloaded. It takes less than a minute on two cores:

    python examples/citations.py
"""

# %%
from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch_geometric.nn import GCN

import varigraph as vg

NOISE = 12  # variance, in percent of the mean feature
REFUSED = 0.1  # share of the answers that are given to a human


def accepted(uncertainty: Tensor) -> Tensor:  # [nodes] -> [nodes] bool
    """All nodes but the most uncertain ones."""
    return uncertainty.argsort().argsort() < round((1 - REFUSED) * len(uncertainty))


# %% [markdown]
# ## A graph, its noise, a network
#
# `add_noise` draws the noise and writes its variance into `x_var`. The network is a GCN of
# torch_geometric; `vg.train` is a convenience, any trained network will do. It is not told of
# the noise: `noise="propagate"` would do that and takes five times as long.

# %%
graph = vg.add_noise(vg.load("cora"), percent=NOISE, seed=0)
test = graph.test_mask
torch.manual_seed(0)
model = GCN(graph.num_features, 32, num_layers=2, out_channels=7, dropout=0.5)
history = vg.train(model, graph, batch_size=None, epochs=100, learning_rate=0.01, weight_decay=5e-4)
print(f"{graph.num_nodes} papers, {graph.num_edges // 2} links, {int(test.sum())} to test on")
print(f"validation loss {min(history.validation):.3f} after {history.best_epoch} epochs")

# %% [markdown]
# ## Error bars
#
# One call. The variance of each class probability is divided over its causes: the noise of the
# words (`features`) and dropout (`weights`).

# %%
pred = vg.predict(model, graph)
print(pred)
print(f"accuracy {vg.metrics.accuracy(pred.mean[test], graph.y[test]):.1%}")

# %% [markdown]
# ## Are they true?
#
# `vg.audit` draws noise and dropout four hundred times, runs the network each time, and compares
# the variances: brute force, on this network and this graph.

# %%
audit = vg.audit(model, graph, samples=400, nodes=test)
print(audit)

# %% [markdown]
# ## What do they win?
#
# Refuse the tenth of the answers with the largest variance: how many of the others are right?
# A variance says how far noise would move an answer, not how likely the answer is wrong: that is
# `pred.trust`, the class probability that is expected once noise and dropout are averaged over. The
# one to beat is the softmax of the plain network. Refuse by trust, and ask the variance what noise
# or which link is behind the doubt.

# %%
right = pred.mean[test].argmax(dim=1) == graph.y[test]
plain, topic = pred.plain[test].max(dim=1)
variance = pred.total[test].sum(dim=1)
kept = {
    "nothing": torch.ones_like(right),
    "by variance": accepted(variance),
    "by trust": accepted(-pred.trust[test]),
}
for refused, nodes in kept.items():
    share = right[nodes].float().mean()
    print(f"refused {refused:>11}: {int(nodes.sum())} answers, {share:.1%} right")
share = (topic == graph.y[test])[accepted(-plain)].float().mean()
print(f"the plain network, refused by its softmax: {share:.1%} right")

# %%
figure, (curve, histogram) = plt.subplots(1, 2, figsize=(9, 3.6), dpi=75, layout="constrained")
found = pred.mean[test], graph.y[test], pred.trust[test]
vg.plots.risk_coverage(*found, curve, plain=pred.plain[test])
vg.plots.variance_histogram(variance, ~right, histogram)
figure.savefig("citations.png")

# %% [markdown]
# ## Links in doubt
#
# Some citations say little about the topic, and some may be mistakes. `vg.link_probabilities`
# judges each link by models that have not seen it. Its numbers become `edge_prob`, a coin for
# each link, and the links a third cause of variance.

# %%
doubtful = vg.link_probabilities(graph, method="hadamard", folds=2, seed=0)
print(doubtful.link_quality)
print(f"median probability of a link {doubtful.edge_prob.median():.2f}")
with_links = vg.predict(model, doubtful)
print(with_links)

# %% [markdown]
# ## A page to look around in
#
# One HTML file that opens offline: calibration, causes, and an explorer of papers with their
# error bars and neighbourhoods.

# %%
page = vg.report(
    with_links, doubtful, model=model, path="cora.html", title="Cora", audit=audit, explain=5
)
print(f"{page.name}, {page.stat().st_size / 1e6:.1f} MB")
