# %% [markdown]
"""# Which molecule should be calculated next?

A graph neural network tells how well a molecule dissolves from its atoms, its bonds and the
partial charges of its atoms. The charges come from a quick calculation and are noisy; an accurate
one takes a day for ten molecules. Four hundred candidates wait for a decision: does it dissolve
well enough? Which ten should be calculated accurately today, and which tomorrow?

Those whose decision may still turn over. That takes an answer and its error bar for every
molecule, and an error bar that comes from the noise of the charges: `vg.predict`, once a round.

Nothing is downloaded. The molecules are made up, which is why exact charges are known here:

    python examples/molecules.py
"""

# %%
from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GraphConv, global_add_pool

import varigraph as vg

MEASURED, CANDIDATES = 300, 400
ENOUGH = 2.0  # solubility that is wanted
QUICK, ACCURATE, LABORATORY = 0.2, 0.01, 0.2  # standard deviations of the noise
ROUNDS, EACH = 8, 10
STEPS = 300
ELEMENTS, VALENCE, FREQUENT = "CNOFS", (4, 3, 2, 1, 2), (60, 14, 14, 6, 6)
PULL = torch.tensor([2.55, 3.04, 3.44, 3.98, 2.58])  # electronegativities
LIKES_WATER = torch.tensor([-0.4, 0.7, 0.8, -0.2, -0.3])

# %% [markdown]
# ## Molecules
#
# A molecule grows atom by atom, as far as each element's bonds allow, and may close a ring. An atom
# that pulls harder at electrons than its neighbours has a larger charge. Elements and charged bonds
# together make a molecule dissolve.


# %%
def molecule(draw: random.Random) -> Data:
    """Atoms, bonds and exact charges."""
    atoms, free, bonds = [0], [VALENCE[0]], []
    for atom in range(1, draw.randint(6, 16)):
        partners = [place for place, left in enumerate(free) if left]
        if not partners:
            break
        partner, kind = draw.choice(partners), draw.choices(range(5), weights=FREQUENT)[0]
        bonds.append((atom, partner))
        free[partner] -= 1
        atoms.append(kind)
        free.append(VALENCE[kind] - 1)
    loose = [place for place, left in enumerate(free) if left]
    if len(loose) > 4 and draw.random() < 0.4:
        bonds.append((loose[0], loose[-1]))
    ends = torch.tensor(bonds).t()
    source, target = links = torch.cat([ends, ends.flip(0)], dim=1)
    element = torch.tensor(atoms)
    pulled = 0.2 * (PULL[element[target]] - PULL[element[source]])
    charge = torch.zeros(len(atoms)).index_add(0, target, pulled)
    return Data(element=element, charge=charge, edge_index=links, num_nodes=len(atoms))


def solubility(one: Data) -> float:
    """What a perfect laboratory would find."""
    source, target = one.edge_index
    polar = (-one.charge[source] * one.charge[target]).clamp(min=0).sum()
    return float(LIKES_WATER[one.element].sum() + 6 * polar - 0.01 * one.num_nodes**2)


# %% [markdown]
# ## What the network sees
#
# The element of each atom, which is certain, and its charge, which is not: `x_var` says so. All
# candidates are one batch.


# %%
def seen(molecules: list[Data], charges: list[Tensor], noise: Tensor) -> Batch:  # [molecules]
    """A batch of molecules with calculated charges, and how noisy those of each molecule are."""
    graphs = []
    for one, charge, std in zip(molecules, charges, noise.tolist(), strict=True):
        x = torch.cat([F.one_hot(one.element, 5).float(), charge[:, None]], dim=1)
        x_var = torch.zeros_like(x)
        x_var[:, -1] = std**2
        graphs.append(Data(x=x, x_var=x_var, edge_index=one.edge_index))
    return Batch.from_data_list(graphs)


def calculated(one: Data, std: float, draw: torch.Generator) -> Tensor:  # -> [atoms]
    """Charges with the noise of a calculation."""
    return one.charge + std * torch.randn(one.charge.shape, generator=draw)


# %% [markdown]
# ## The network
#
# Two convolutions and a sum over the atoms, trained in a plain PyTorch loop on molecules that were
# measured in the laboratory and calculated accurately. Nothing in it knows of error bars.


# %%
class Solubility(nn.Module):
    """One number for each molecule."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first, self.second = GraphConv(6, width), GraphConv(width, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:  # -> [molecules, 1]
        """Solubilities."""
        x = F.relu(self.first(x, edge_index))
        x = F.relu(self.second(x, edge_index))
        return self.head(global_add_pool(x, batch) / 10)


def trained(graphs: Batch, values: Tensor, *, seed: int = 0) -> Solubility:  # [molecules]
    """A network that has learned from measured molecules."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Solubility()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-4)
        for _ in range(STEPS):
            optimizer.zero_grad()
            answers = model(graphs.x, graphs.edge_index, graphs.batch)[:, 0]
            F.mse_loss(answers, values).backward()
            optimizer.step()
    return model.eval()


# %%
grow, draw = random.Random(0), torch.Generator().manual_seed(0)
known = [molecule(grow) for _ in range(MEASURED)]
candidates = [molecule(grow) for _ in range(CANDIDATES)]
quick = [calculated(one, QUICK, draw) for one in candidates]

values = torch.tensor([solubility(one) for one in known])
values += LABORATORY * torch.randn(MEASURED, generator=draw)
charges = [calculated(one, ACCURATE, draw) for one in known]
model = trained(seen(known, charges, torch.full((MEASURED,), ACCURATE)), values)

# %% [markdown]
# ## Answers with error bars
#
# The rows of the prediction are molecules. With exact charges the network would give other
# answers: about nine in ten of them lie within the intervals of 90 %.

# %%
graphs = seen(candidates, quick, torch.full((CANDIDATES,), QUICK))
pred = vg.predict(model, graphs, task="regression", samples=0)
exact = seen(candidates, [one.charge for one in candidates], torch.zeros(CANDIDATES))
with torch.no_grad():
    ideal = model(exact.x, exact.edge_index, exact.batch)  # [molecules, 1]
truth = torch.tensor([solubility(one) for one in candidates])[:, None]

inside = vg.metrics.interval_coverage(pred.mean, pred.total, ideal)
print(f"{CANDIDATES} candidates, {int((ideal > ENOUGH).sum())} of them soluble enough")
print(f"mean error bar {pred.std.mean():.2f}")
print(f"90 % intervals hold {inside:.1%} of the answers for exact charges")
right = ((ideal > ENOUGH) == (truth > ENOUGH)).float().mean()
print(f"with exact charges {right:.1%} of the decisions would be right")
turned = int(((pred.mean > ENOUGH) != (ideal > ENOUGH)).sum())
print(f"quick charges turn over {turned} decisions")

# %% [markdown]
# ## The loop
#
# A decision turns over with the chance that the noise carries the answer to the other side:
#
# $$P = \Phi\left(-\frac{|\bar y - 2|}{\sigma}\right)$$
#
# Each round, the ten molecules with the largest chance get accurate charges. To compare: ten at
# random, and the ten with the largest error bars.


# %%
def turning(pred: vg.Prediction) -> Tensor:  # -> [molecules]
    """The chance that a decision turns over once charges are exact."""
    distance = (pred.mean - ENOUGH).abs() / pred.std.clamp_min(1e-12)
    return torch.special.ndtr(-distance)[:, 0]


Choice: TypeAlias = Callable[[vg.Prediction, torch.Generator], Tensor]
CHOICES: dict[str, Choice] = {
    "at random": lambda pred, draw: torch.rand(len(pred.mean), generator=draw),
    "largest error bar": lambda pred, draw: pred.std[:, 0],
    "most likely to turn": lambda pred, draw: turning(pred),
}


def campaign(choice: Choice, *, seed: int = 0) -> tuple[list[int], list[Tensor]]:
    """After each round: decisions that exact charges would turn over, and the chance of each."""
    draw = torch.Generator().manual_seed(seed)
    charges, noise = list(quick), torch.full((CANDIDATES,), QUICK)
    left, chances = [], []
    for _ in range(ROUNDS + 1):
        graphs = seen(candidates, charges, noise)
        pred = vg.predict(model, graphs, task="regression", samples=0)
        left.append(int(((pred.mean > ENOUGH) != (ideal > ENOUGH)).sum()))
        chances.append(turning(pred))
        score = choice(pred, draw).masked_fill(noise == ACCURATE, -torch.inf)
        for place in score.topk(EACH).indices.tolist():
            charges[place] = calculated(candidates[place], ACCURATE, draw)
            noise[place] = ACCURATE
    return left, chances


found = {name: campaign(choice) for name, choice in CHOICES.items()}
print("decisions that exact charges would turn over, after 0, 10, ... accurate calculations")
for name, (left, _) in found.items():
    print(f"{name:>20}: {' '.join(f'{count:3}' for count in left)}")

# %% [markdown]
# ## What next?
#
# The sum of the chances is how many decisions are still expected to turn over. It says when to
# stop, and does not need the exact charges that nobody has.

# %%
left, chances = found["most likely to turn"]
for step, chance in enumerate(chances):
    print(f"{EACH * step:3} calculated: {chance.sum():4.1f} expected, {left[step]:2} in truth")

today = turning(pred)
print("\ncalculate today:")
for place in today.topk(EACH).indices.tolist():
    answer = f"{pred.mean[place].item():.2f} ± {pred.std[place].item():.2f}"
    print(f"molecule {place:3}: {answer}, turns over with a chance of {today[place]:.0%}")

# %%
figure, (curve, bars) = plt.subplots(1, 2, figsize=(9, 3.6), dpi=75, layout="constrained")
for (name, (left, _)), line in zip(found.items(), (":", "--", "-"), strict=True):
    curve.plot([EACH * step for step in range(ROUNDS + 1)], left, line, label=name)
curve.set(xlabel="accurate calculations", ylabel="decisions that would turn over", ylim=0)
curve.legend(frameon=False)
order = pred.mean[:, 0].argsort()[::8]
bars.errorbar(range(len(order)), pred.mean[order, 0], pred.std[order, 0], fmt=".", color="#3b6ea5")
bars.axhline(ENOUGH, color="#c0504d", lw=1, label="wanted")
bars.set(xlabel="some candidates, by their answers", ylabel="solubility", xticks=[])
bars.legend(frameon=False, loc="upper left")
figure.savefig("molecules.png")
