"""Are the error bars of the right size? Every method against brute force, on trained networks.

    python benchmarks/fidelity.py [--out fidelity.json] [--data cora pubmed] [--draws 4000]
    python benchmarks/fidelity.py --tables fidelity.json ...   # as Markdown

Ratios are predicted over true variance on test nodes; the spread that the truth's own sampling
error causes (a relative variance of 2 / draws) is taken out of the 5-95 % range, on a log scale
around the median.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GraphSAGE
from truth import Truth, brute_force, exact_variance

import varigraph as vg

CLOSED_FORMS = ("first-order", "covariance", "diagonal")
NETWORKS: dict[str, Callable[[Data], nn.Module]] = {
    "paper, linear": vg.paper_network,
    "SAGE 64-C, ReLU": lambda g: GraphSAGE(g.num_features, 64, 2, classes(g), dropout=0.5),
    "GCN 16-C, ReLU": lambda g: GCN(g.num_features, 16, 2, classes(g), dropout=0.5),
}
Row = dict[str, Any]


def classes(graph: Data) -> int:
    return int(graph.y.max()) + 1


def trained(
    graph: Data, build: Callable[[Data], nn.Module], epochs: int, device: str = "cpu"
) -> nn.Module:
    """The best on validation nodes of three starts: a start may leave most ReLUs dead."""
    there, best, highest = graph.clone().to(device), None, -1.0
    for seed in range(3):
        torch.manual_seed(seed)
        model = build(graph).to(device)
        optimiser = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)
        for _ in range(epochs):
            model.train()
            optimiser.zero_grad()
            logits = model(there.x, there.edge_index)
            F.cross_entropy(logits[there.train_mask], there.y[there.train_mask]).backward()
            optimiser.step()
        right = accuracy(model.eval(), there, there.val_mask)
        if right > highest:
            best, highest = model, right
    assert best is not None
    print(f"accuracy on test nodes: {accuracy(best, there, there.test_mask):.3f}", flush=True)
    return best.cpu()


@torch.no_grad()
def accuracy(model: nn.Module, graph: Data, nodes: Tensor) -> float:
    found = model(graph.x, graph.edge_index)[nodes].argmax(1)
    return float((found == graph.y[nodes]).float().mean())


# ---- sources of uncertainty ----


def cases(graph: Data) -> dict[str, tuple[Data, tuple[str, ...]]]:
    """Graphs with something uncertain about them, and what that is."""
    found = {
        f"noise {percent} %": (vg.add_noise(graph, percent=percent), ("features",))
        for percent in (2.5, 12)
    }
    found["dropout"] = (graph, ("weights",))
    for label, prob in chances(graph).items():
        found[f"links {label}"] = (with_links(graph, prob), ("links",))
    both = with_links(vg.add_noise(graph, percent=12), chances(graph)["0.8"])
    found["noise 12 % and links 0.8"] = (both, ("features", "links"))
    return found


def chances(graph: Data) -> dict[str, Tensor]:
    level = torch.rand(graph.num_nodes, generator=torch.Generator().manual_seed(5))
    mixed = 0.5 + 0.25 * (level[graph.edge_index[0]] + level[graph.edge_index[1]])
    full = torch.ones(graph.num_edges)
    return {"0.8": 0.8 * full, "0.95": 0.95 * full, "0.5-1": mixed}


def with_links(graph: Data, prob: Tensor) -> Data:
    copy = graph.clone()
    copy.edge_prob = prob
    return copy


# ---- the comparison ----


def judged(
    model: nn.Module, graph: Data, sources: tuple[str, ...], truth: Truth, method: str
) -> Row:
    """How one closed form compares with the truth."""
    options: Row = {"weights": "closed-form"} if "weights" in sources else {"samples": 0}
    pred = vg.predict(
        model,
        graph,
        method=method,
        sources=sources,
        nodes=graph.test_mask,
        memory="4GiB",
        links="bernoulli",
        **options,
    )
    true = truth.var("logits")
    solid = true > 1e-12
    median, low, high = corrected((pred.logits.var / true)[solid], truth.count)
    seen = truth.var("probabilities")
    half = 1.645 * pred.logits.var.sqrt()
    inside = torch.stack([(k - pred.logits.mean).abs() <= half for k in truth.kept]).float()
    return {
        "median": median,
        "low": low,
        "high": high,
        "probability": float((pred.total / seen)[seen > 1e-6].median()),
        "coverage": float(inside[:, solid].mean()),
    }


def corrected(ratio: Tensor, draws: int) -> tuple[float, float, float]:
    """Median and 5-95 % range of ratios, the truth's sampling error taken out."""
    logs = ratio[ratio.isfinite() & (ratio > 0)].double().log()
    middle = logs.median()
    spread = logs.std()
    shrink = (1 - (2 / draws) / spread**2).clamp_min(0).sqrt()
    low, high = (middle + shrink * (logs.quantile(q) - middle) for q in (0.05, 0.95))
    return float(middle.exp()), float(low.exp()), float(high.exp())


def sampled(
    model: nn.Module, graph: Data, sources: tuple[str, ...], truth: Truth, device: str
) -> Row:
    """Whether sampled is unbiased: differences from the truth in units of both standard errors."""
    model, graph = model.to(device), graph.clone().to(device)
    pred = vg.predict(
        model,
        graph,
        method="sampled",
        sources=sources,
        samples=500,
        task="regression",
        nodes=graph.test_mask,
        memory="4GiB",
    )
    model.cpu()
    true, error = truth.var("logits"), truth.error("logits")
    own = pred.std_error.total.cpu()
    solid = true > 1e-12
    away = ((pred.total.cpu() - true) / (own**2 + error**2).sqrt())[solid]
    return {
        "median": float((pred.total.cpu() / true)[solid].median()),
        "within 3": float((away.abs() <= 3).float().mean()),
        "bias": float(away.mean()),
    }


# ---- every case ----


def measured(data: str, chosen: argparse.Namespace, device: str) -> list[Row]:
    graph, rows = vg.load(data), []
    for network, build in NETWORKS.items():
        if not network.startswith(tuple(chosen.networks)):
            continue
        model = trained(graph, build, chosen.epochs, device)
        name = f"{data}, {network}"
        for label, (uncertain, sources) in cases(graph).items():
            if not label.startswith(tuple(chosen.cases)):
                continue
            drop = "weights" in sources
            options = {"draws": chosen.draws, "device": device, "drop": drop}
            truth = brute_force(model, uncertain, **options)
            row: Row = {"case": f"{name}, {label}", "draws": chosen.draws}
            for method in CLOSED_FORMS:
                try:
                    row[method] = judged(model, uncertain, sources, truth, method)
                except vg.errors.TooLargeError as error:
                    row[method] = {"error": error.problem}
            row["sampled"] = sampled(model, uncertain, sources, truth, device)
            if network == "paper, linear" and label == "noise 12 %" and data == "cora":
                row["exact"] = against_jacobian(model, uncertain)
            rows.append(row)
            print(json.dumps(row), flush=True)
            append(chosen.out, [row])
    return rows


def against_jacobian(model: nn.Module, graph: Data) -> Row:
    """Largest relative difference from the exact variances of a linear network, in double."""
    nodes = graph.test_mask.nonzero().flatten()[:100]
    exact = exact_variance(model, graph, nodes)
    double = graph.clone()
    double.x = graph.x.double()
    model.double()
    pred = vg.predict(model, double, method="first-order", sources=("features",), nodes=nodes)
    model.float()
    return {"nodes": 100, "largest error": float((pred.logits.var / exact - 1).abs().max())}


# ---- the tables ----


def append(path: Path, rows: list[Row]) -> None:
    known = json.loads(path.read_text()) if path.exists() else []
    names = {row["case"] for row in rows}
    kept = [row for row in known if row["case"] not in names]
    path.write_text(json.dumps(kept + rows, indent=1))


def fidelity_table(rows: list[Row]) -> str:
    lines = [
        "| case | first-order | covariance | diagonal | sampled | within 3 s.e. | coverage | "
        "probability |",
        "|---|---|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = [ranged(row[method]) for method in CLOSED_FORMS]
        first, drawn = row["first-order"], row["sampled"]
        cells += [f"{drawn['median']:.3f}", f"{100 * drawn['within 3']:.1f} %"]
        cells += [f"{100 * first['coverage']:.1f} %", f"{first['probability']:.2f}"]
        lines.append(f"| {row['case']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ranged(found: Row) -> str:
    if "error" in found:
        return "too large"
    median, low, high = (rounded(found[name]) for name in ("median", "low", "high"))
    return f"{median} [{low}, {high}]"


def rounded(ratio: float) -> str:
    return f"{ratio:.3f}" if ratio >= 0.1 else f"{ratio:.2g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("fidelity.json"))
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--data", nargs="+", default=["cora", "pubmed", "computers"])
    parser.add_argument("--networks", nargs="+", default=[""], help="how their names begin")
    parser.add_argument("--cases", nargs="+", default=[""], help="how their names begin")
    parser.add_argument("--tables", type=Path, nargs="+", help="print these results as Markdown")
    chosen = parser.parse_args()
    if chosen.tables:
        print(
            fidelity_table([row for path in chosen.tables for row in json.loads(path.read_text())])
        )
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for data in chosen.data:
        append(chosen.out, measured(data, chosen, device))


if __name__ == "__main__":
    main()
