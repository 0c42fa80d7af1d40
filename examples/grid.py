# %% [markdown]
"""# Which switch should be checked?

A power grid is watched by meters, and they are noisy. A graph neural network estimates the state
of every bus, its voltage angle, from the meters around, at buses without a meter too. It needs to
know which lines are closed. For a few lines nobody is sure: their switches do not report. So: at
which buses is the estimate in doubt, do meters or lines cause it, and which switch is worth a
telephone call?

Nothing is downloaded. The grid is made up and follows the equations of direct-current power flow,
which is why the true state is known here:

    python examples/grid.py
"""

# %%
from __future__ import annotations

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import varigraph as vg

ROWS, COLUMNS = 8, 10
BUSES, BLIND = ROWS * COLUMNS, 30  # buses; those without an angle meter
POWER_NOISE, ANGLE_NOISE = 0.05, 0.1  # standard deviations
SILENT, CLOSED = 8, 0.7  # lines whose switch does not report; the chance that one is closed
STEPS, STATES = 600, 8  # of training; states of the grid in each step

# %% [markdown]
# ## The grid
#
# Buses stand in rows. A line runs through all of them, so that no bus is ever cut off; other lines
# cross between the rows, and each of these has a switch.


# %%
def new_grid(draw: torch.Generator) -> tuple[Tensor, Tensor]:  # [2, fixed], [2, switched]
    """Lines that are always closed, and lines with a switch."""
    place = torch.arange(BUSES).view(ROWS, COLUMNS)
    snake = torch.cat([row if r % 2 == 0 else row.flip(0) for r, row in enumerate(place)])
    fixed = torch.stack([snake[:-1], snake[1:]])
    down = torch.stack([place[:-1].flatten(), place[1:].flatten()])
    known = {frozenset(line) for line in fixed.t().tolist()}
    new = torch.tensor([frozenset(line) not in known for line in down.t().tolist()])
    kept = torch.rand(down.size(1), generator=draw) < 0.8
    return fixed, down[:, new & kept]


def angles(lines: Tensor, power: Tensor) -> Tensor:  # [2, lines], [buses] -> [buses]
    r"""Voltage angles: :math:`\sum_j (\theta_i - \theta_j) = P_i` over closed lines, mean 0."""
    laplacian = torch.zeros(BUSES, BUSES)
    for source, target in (lines, lines.flip(0)):
        laplacian.index_put_((source, source), torch.ones(len(source)), accumulate=True)
        laplacian[source, target] -= 1
    return torch.linalg.solve(laplacian + 1 / BUSES, power)


def injections(draw: torch.Generator) -> Tensor:  # -> [buses]
    """Power that generators feed in and consumers take out; together nothing."""
    power = torch.randn(BUSES, generator=draw)
    return power - power.mean()


# %% [markdown]
# ## What the network sees
#
# For each bus: the metered power, the metered angle, and whether the angle has no meter. `x_var`
# has the noise of the meters.


# %%
def seen(lines: Tensor, power: Tensor, angle: Tensor, blind: Tensor, draw: torch.Generator) -> Data:
    """The grid with new readings; lines lead both ways."""
    power = power + POWER_NOISE * torch.randn(BUSES, generator=draw)
    angle = angle + ANGLE_NOISE * torch.randn(BUSES, generator=draw)
    noise = torch.tensor([POWER_NOISE**2, ANGLE_NOISE**2, 0.0]).repeat(BUSES, 1)
    noise[blind, 1] = 0  # no reading, no noise
    columns = power, angle.masked_fill(blind, 0), blind.float()
    links = torch.cat([lines, lines.flip(0)], dim=1)
    names = [f"bus {bus}" for bus in range(BUSES)]
    x = torch.stack(columns, dim=1)
    return Data(x=x, x_var=noise, edge_index=links, node_names=names)


# %% [markdown]
# ## The network
#
# A GraphSAGE of torch_geometric and a plain PyTorch loop. Power, meters and switches differ from
# state to state, so the network learns what an open line changes.


# %%
def trained(fixed: Tensor, switched: Tensor, draw: torch.Generator, *, seed: int = 0) -> GraphSAGE:
    """A network that estimates the angles of all buses."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GraphSAGE(3, 48, num_layers=3, out_channels=1)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        for _ in range(STEPS):
            losses = []
            for _ in range(STATES):
                closed = torch.rand(switched.size(1), generator=draw) < CLOSED
                lines = torch.cat([fixed, switched[:, closed]], dim=1)
                power = injections(draw)
                angle = angles(lines, power)
                blind = torch.rand(BUSES, generator=draw) < BLIND / BUSES
                graph = seen(lines, power, angle, blind, draw)
                losses.append(F.mse_loss(model(graph.x, graph.edge_index)[:, 0], angle))
            optimizer.zero_grad()
            torch.stack(losses).mean().backward()
            optimizer.step()
            schedule.step()
    return model.eval()


# %%
draw = torch.Generator().manual_seed(0)
fixed, switched = new_grid(draw)
model = trained(fixed, switched, draw)
print(f"{BUSES} buses, {BLIND} without an angle meter, {switched.size(1)} lines with a switch")

# %% [markdown]
# ## Today
#
# Eight switches do not report. Their lines stay in the graph, and `edge_prob` says how likely each
# is closed; all other lines are certain. In truth some of the eight are open, which nobody knows.


# %%
def asked(graph: Data, lines: Tensor, prob: Tensor) -> Data:  # [2, lines], [lines]
    """The same readings on lines that are closed with these chances."""
    found = graph.clone()
    found.edge_index = torch.cat([lines, lines.flip(0)], dim=1)[:, prob.repeat(2) > 0]
    found.edge_prob = prob.repeat(2)[prob.repeat(2) > 0]
    return found


order = torch.randperm(switched.size(1), generator=draw)
reports = switched[:, order[SILENT:]]
reports = reports[:, torch.rand(reports.size(1), generator=draw) < CLOSED]  # and is closed
lines = torch.cat([fixed, reports, switched[:, order[:SILENT]]], dim=1)
silent = torch.arange(lines.size(1) - SILENT, lines.size(1))
closed = torch.ones(lines.size(1))
closed[silent] = (torch.rand(SILENT, generator=draw) < CLOSED).float()
chance = torch.ones(lines.size(1)).index_fill(0, silent, CLOSED)

power = injections(draw)
angle = angles(lines[:, closed > 0], power)  # the truth
blind = torch.zeros(BUSES, dtype=torch.bool)
blind[torch.randperm(BUSES, generator=draw)[:BLIND]] = True
readings = seen(lines, power, angle, blind, draw)
print(f"{int((closed == 0).sum())} of the {SILENT} lines are open in truth")

# %% [markdown]
# ## Which estimates are in doubt, and why?
#
# `by_source` divides the variance over the meters (`features`) and the lines (`links`).

# %%
where = blind.nonzero().squeeze(1)


def estimated(chance: Tensor) -> vg.Prediction:  # [lines]
    """Estimates for the buses without a meter."""
    graph = asked(readings, lines, chance)
    return vg.predict(model, graph, task="regression", nodes=where, samples=0)


pred = estimated(chance)
print(pred.least_trusted(5))
shares = {source: float(part.sum() / pred.total.sum()) for source, part in pred.by_source.items()}
print(f"variance due to meters {shares['features']:.0%}, lines {shares['links']:.0%}")

# %% [markdown]
# ## Which switch is to blame?
#
# `vg.attribute` divides the variance of all these estimates over what caused it, and says which
# switch to ask about first.

# %%
graph = asked(readings, lines, chance)
blame = vg.attribute(model, graph, nodes=where, task="regression", samples=0)
print(blame)

# %% [markdown]
# ## One telephone call
#
# Somebody looks at that one switch. Its line turns out to be open, and leaves the graph. The bus
# that suffered most gets another estimate and a small error bar; over all buses, one call brings
# nearly what eight would have brought. What is left of the error is the network's own: no switch
# would reduce it, and error bars from meters and lines do not cover it.

# %%
call = blame.links[0].source, blame.links[0].target
line = next(place for place in silent.tolist() if set(lines[:, place].tolist()) == set(call))
after = estimated(chance.index_fill(0, torch.tensor(line), float(closed[line])))
everything = estimated(closed)
worst = int(pred.total.argmax())
print(f"line {call[0]} - {call[1]} is {'closed' if closed[line] else 'open'}")
print(f"bus {where[worst]}, in truth {angle[where[worst]]:.2f}")
for when, found in {"before": pred, "after": after}.items():
    print(f"{when:>6}: {found.mean[worst].item():.2f} ± {found.std[worst].item():.2f}")


def size(values: Tensor) -> float:
    """Root mean square."""
    return float(values.square().mean().sqrt())


print("all buses without a meter:  error bar  true error")
for when, found in {"before": pred, "one call": after, "eight calls": everything}.items():
    error = size(found.mean[:, 0] - angle[where])
    print(f"{when:>25}:  {size(found.std):9.3f}  {error:10.3f}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), dpi=75, layout="constrained")
for ax, found, title in ((left, pred, "before the call"), (right, after, "after it")):
    y, x = torch.arange(BUSES) // COLUMNS, torch.arange(BUSES) % COLUMNS
    sure = lines[:, :-SILENT]
    ax.plot(x[sure], y[sure], color="#cccccc", lw=1, zorder=0)
    ax.plot(x[lines[:, silent]], y[lines[:, silent]], color="#c0504d", lw=1.5, ls=":", zorder=0)
    ax.scatter(x, y, s=10, color="#999999")
    top = float(pred.std.max())
    dots = ax.scatter(x[where], y[where], s=60, c=found.std[:, 0], vmin=0, vmax=top)
    ax.set(xticks=[], yticks=[], title=title)
figure.colorbar(dots, ax=right, label="error bar")
figure.savefig("grid.png")
