# %% [markdown]
"""# Which instrument should be replaced?

Stations on a map measure the temperature. Some have no instrument, and a graph neural network
answers for them from the stations around. How noisy each instrument is, is known, and a few are
bad. So: how far can the answers be trusted, and which instrument is to blame?

Nothing is downloaded. Map and weather are made up, which is why the truth is known here:

    python examples/sensors.py
"""

# %%
from __future__ import annotations

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import varigraph as vg

STATIONS, SILENT, BAD, NEIGHBOURS = 150, 25, 6, 8
GOOD_NOISE, BAD_NOISE = 0.3, 2.0  # standard deviations in °C
LAPSE = 6.5  # °C that it is colder, one kilometre higher
STEPS, DAYS_A_STEP = 500, 8
TEST_DAYS, DRAWS = 200, 1000
TODAY = 2  # seed of the noise

# %% [markdown]
# ## The world
#
# The map is a square. Each station listens to the eight that are nearest. Weather is a smooth
# random field, new every day, and it is colder higher up. Temperatures are departures from the
# long-term mean at sea level.


# %%
def smooth(pos: Tensor, fields: int, length: float, draw: torch.Generator) -> Tensor:
    """Random fields of mean 0 and variance 1 that change over ``length``: ``[fields, stations]``.

    Each is a sum of waves of random direction, length and phase.
    """
    waves = torch.randn(fields, 2, 64, generator=draw) / length
    phase = 2 * torch.pi * torch.rand(fields, 1, 64, generator=draw)
    return (pos @ waves + phase).cos().sum(dim=2) / 32**0.5


def new_map(draw: torch.Generator) -> Data:
    """Stations with height, noise and links from their nearest; the first have no instrument."""
    pos = torch.rand(STATIONS, 2, generator=draw)
    distance = torch.cdist(pos, pos).fill_diagonal_(torch.inf)
    near = distance.topk(NEIGHBOURS, largest=False).indices.flatten()
    noise = torch.full((STATIONS,), GOOD_NOISE)
    noise[SILENT : SILENT + BAD] = BAD_NOISE
    return Data(
        pos=pos,
        height=smooth(pos, 1, 0.2, draw)[0].abs() / 2,
        noise=noise,
        silent=torch.arange(STATIONS) < SILENT,
        edge_index=torch.stack([near, torch.arange(STATIONS).repeat_interleave(NEIGHBOURS)]),
    )


def weather(stations: Data, days: int, draw: torch.Generator) -> Tensor:  # -> [days, stations]
    """True temperatures."""
    return 3 * smooth(stations.pos, days, 0.3, draw) - LAPSE * stations.height


def measured(truth: Tensor, noise: Tensor, draw: torch.Generator) -> Tensor:  # [days, stations]
    """What the instruments say."""
    return truth + noise * torch.randn(truth.shape, generator=draw)


# %% [markdown]
# ## What the network sees
#
# Three numbers for each station: its reading, its height, and whether the reading is missing.
# Only the reading is noisy, and `x_var` says how much. Several days are one graph in several
# pieces.


# %%
def seen(stations: Data, readings: Tensor, hidden: Tensor) -> Data:  # [days, stations] each
    """The graph of some days, without the readings that are hidden."""
    days = len(readings)
    shift = STATIONS * torch.arange(days)[None, :, None]
    columns = readings.where(~hidden, 0), stations.height.expand(days, -1), hidden
    var = stations.noise.square().where(~hidden, 0)  # [days, stations]
    return Data(
        x=torch.stack([column.float() for column in columns], dim=2).flatten(0, 1),
        x_var=F.pad(var.flatten()[:, None], (0, 2)),  # height and the mark are known
        edge_index=(stations.edge_index[:, None, :] + shift).flatten(1),
    )


def also_hidden(stations: Data, days: int, draw: torch.Generator) -> Tensor:  # [days, stations]
    """One in ten of the instruments, to be told from the others."""
    return (torch.rand(days, STATIONS, generator=draw) < 1 / 10) & ~stations.silent


# %% [markdown]
# ## The network
#
# A GraphSAGE of torch_geometric and a plain PyTorch loop. In each step some readings of some
# days are hidden, and the network learns to tell them. It never sees a true temperature.


# %%
def trained(stations: Data, draw: torch.Generator, *, seed: int = 0) -> GraphSAGE:
    """A network that fills in missing readings."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GraphSAGE(3, 32, num_layers=2, out_channels=1, dropout=0.02)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        for _ in range(STEPS):
            readings = measured(weather(stations, DAYS_A_STEP, draw), stations.noise, draw)
            asked = also_hidden(stations, DAYS_A_STEP, draw)
            graph = seen(stations, readings, asked | stations.silent)
            answers = model(graph.x, graph.edge_index).view_as(readings)
            optimizer.zero_grad()
            F.mse_loss(answers[asked], readings[asked]).backward()
            optimizer.step()
            schedule.step()
    return model.eval()


# %%
draw = torch.Generator().manual_seed(0)
stations = new_map(draw)
model = trained(stations, draw)
print(f"{STATIONS} stations, {SILENT} without an instrument, {BAD} with a bad one")

# %% [markdown]
# ## Today's answers
#
# The error bar comes from the noise of the instruments (`features`) and from dropout
# (`weights`). `by_source` has both apart.

# %%
truth, empty = weather(stations, 1, draw), stations.silent[None]  # [1, stations] each
silent = stations.silent.nonzero().squeeze(1)
today = seen(stations, measured(truth, stations.noise, torch.Generator().manual_seed(TODAY)), empty)
today.feature_names = ["reading", "height", "mark"]

pred = vg.predict(model, today, task="regression", nodes=silent)
error_bar = pred.total.sqrt().squeeze(1)  # [silent]
for place in error_bar.argsort(descending=True)[:5].tolist():
    answer = f"{pred.mean[place].item():6.1f} ± {error_bar[place]:.2f} °C"
    share = pred.by_source["features"][place] / pred.total[place]
    print(f"station {silent[place]:>3}: {answer}, {share.item():.0%} of it due to noise")

# %% [markdown]
# ## Does the error bar keep its promise?
#
# It promises how far the answer would move if all instruments measured again and other weights
# were dropped. So we do that, a thousand times, and compare. New readings spread around the true
# temperatures: computed there, the error bar is as wide as the spread. We only have today's
# readings, and next to a bad instrument they are far off: where the network bends in between,
# the error bar can be wrong by a fifth.


# %%
def spread(model: GraphSAGE, stations: Data, truth: Tensor) -> Tensor:  # -> [silent]
    """Standard deviation of the answers over new noise and new masks."""
    readings = measured(truth.expand(DRAWS, -1), stations.noise, torch.Generator().manual_seed(1))
    graph = seen(stations, readings, stations.silent.expand(DRAWS, -1))
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)  # dropout draws from the global generator
        answers = model.train()(graph.x, graph.edge_index).view(DRAWS, STATIONS)
    model.eval()
    return answers[:, stations.silent].std(dim=0)


moved = spread(model, stations, truth)
ideal = vg.predict(model, seen(stations, truth, empty), task="regression", nodes=silent)
print("error bar / spread, if computed")
for where, var in {"at true temperatures": ideal.total, "at today's readings": pred.total}.items():
    ratio = var.sqrt().squeeze(1) / moved
    print(f"{where:>20}: {ratio.min():.2f} to {ratio.max():.2f}, median {ratio.median():.2f}")

# %% [markdown]
# ## Does it hold the truth?
#
# That is another question. On two hundred new days, 90 % intervals from the noise hold what
# *this network would answer with perfect instruments* about nine times in ten: that is what they
# are for. They hold the true temperature less often. The network is no perfect forecaster:
# between the stations it has to guess, and error bars from noise and dropout know nothing of that.
#
# How much is missing can be learned where the truth is known. On two hundred other days somebody
# carried a good thermometer to the stations without an instrument. `vg.calibrate` compares its
# readings with the answers: it finds the network's own error, the residual, and by how many error
# bars nine in ten of the answers are off. From then on `interval` holds the true temperature nine
# times in ten, as long as the days to come are like those days.


# %%
def seen_through_noise(truth: Tensor) -> Data:  # [days, stations]
    """The graph of some days as the instruments see them."""
    return seen(stations, measured(truth, stations.noise, draw), stations.silent.expand_as(truth))


true, known = (weather(stations, TEST_DAYS, draw) for _ in range(2))  # [days, stations] each
hidden = stations.silent.expand_as(true)
perfect = seen(stations, true, hidden)
with torch.no_grad():
    undisturbed = model(perfect.x, perfect.edge_index)[hidden.flatten()]

options = {"task": "regression", "nodes": hidden.flatten()}
found, other = (vg.predict(model, seen_through_noise(days), **options) for days in (true, known))
calibrator = vg.calibrate(other, known.flatten(), nodes=hidden.flatten())
calibrated = calibrator.apply(found)
temperature, noise = true[hidden][:, None], found.by_source["features"]


def held(prediction: vg.Prediction) -> float:
    """Share of the true temperatures within 90 % intervals."""
    low, high = prediction.interval(0.9)
    return float(((low <= temperature) & (temperature <= high)).double().mean())


within = vg.metrics.interval_coverage(found.mean, noise, undisturbed)
print("90 % intervals hold")
print(f"{within:.1%} of the answers of perfect instruments")
print(f"{held(found):.1%} of the true temperatures")
print(f"{held(calibrated):.1%} of them once calibrated: {calibrator}")

# %% [markdown]
# ## Which instrument is to blame?
#
# `vg.attribute` divides the variance of one answer over what caused it. Without a node it adds up
# over all stations without an instrument, and says which one is worth replacing first.

# %%
blame = vg.attribute(model, today, nodes=silent, task="regression")
for cause in blame.nodes[:4]:
    noise_of = f"noise {stations.noise[cause.node]:.1f} °C"
    print(f"station {cause.node}, {noise_of}: {cause.share:.0%} of all variance")

worst = blame.nodes[0].node
place = int(pred.by_source["features"].argmax())  # whose answer suffers most from noise
print(f"\n{vg.attribute(model, today, int(silent[place]), task='regression')}")

# %% [markdown]
# ## Replace it
#
# The new instrument is as good as most. The error bar falls, and so does the spread over a
# thousand new measurements.

# %%
repaired = stations.clone()
repaired.noise[worst] = GOOD_NOISE
fixed = seen(repaired, measured(truth, repaired.noise, torch.Generator().manual_seed(TODAY)), empty)
after = vg.predict(model, fixed, task="regression", nodes=silent).total.sqrt().squeeze(1)
moved_after = spread(model, repaired, truth)
print(f"station {worst} replaced: station {silent[place]} has")
print(f"error bar {error_bar[place]:.2f} -> {after[place]:.2f} °C")
print(f"spread    {moved[place]:.2f} -> {moved_after[place]:.2f} °C")


# %%
def draw_map(ax: Axes, stations: Data, error_bar: Tensor) -> None:  # [silent]
    """Stations, links, and the error bars of those without an instrument."""
    x, y = stations.pos.T
    silent, bad = stations.silent, stations.noise == BAD_NOISE
    ax.plot(x[stations.edge_index], y[stations.edge_index], color="#e4e4e4", lw=0.5, zorder=0)
    ax.scatter(x, y, s=8, color="#999999", label="instrument")
    ax.scatter(x[bad], y[bad], s=50, marker="x", color="#c0504d", label="bad instrument")
    dots = ax.scatter(x[silent], y[silent], s=45, c=error_bar, label="no instrument")
    ax.figure.colorbar(dots, ax=ax, label="error bar (°C)")
    ax.set(xticks=[], yticks=[])
    ax.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3)


figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), dpi=75, layout="constrained")
draw_map(left, stations, error_bar)
middle.axline((0, 0), slope=1, color="#999999", lw=1, ls="--")
middle.scatter(moved, error_bar, s=18, color="#c0504d", label="before")
middle.scatter(moved_after, after, s=18, color="#3b6ea5", label="one instrument replaced")
middle.set(xlabel="spread over new measurements (°C)", ylabel="error bar (°C)")
middle.legend(frameon=False, fontsize=8)
vg.plots.sources(pred.by_source, right)
figure.savefig("sensors.png")
