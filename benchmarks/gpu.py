"""The same answer on the GPU: every method on CUDA against the CPU, largest relative difference.

python benchmarks/gpu.py [--data cora]
"""

from __future__ import annotations

import argparse

from fidelity import NETWORKS, cases, trained
from torch import Tensor

import varigraph as vg

OPTIONS = {
    "first-order": {},
    "covariance": {},
    "diagonal": {"samples": 10},
    "sampled": {"samples": 10},
}


def difference(one: Tensor, two: Tensor) -> float:
    """Relative to the mean size of the numbers, so that zeros do not decide."""
    return float((one.cpu() - two).abs().max() / two.abs().mean().clamp_min(1e-12))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="cora")
    graph = vg.load(parser.parse_args().data)
    uncertain, _ = cases(graph)["noise 12 % and links 0.8"]
    print("| network | method | mean | variance |\n|---|---|---:|---:|")
    for network, build in NETWORKS.items():
        model = trained(graph, build, 100, "cuda")
        for method, options in OPTIONS.items():
            there = vg.predict(
                model.cuda(), uncertain.clone().cuda(), method=method, memory="4GiB", **options
            )
            assert there.mean.is_cuda, "the answer left the GPU"
            here = vg.predict(model.cpu(), uncertain, method=method, memory="4GiB", **options)
            mean, total = (
                difference(there.mean, here.mean),
                difference(there.total, here.total),
            )
            print(f"| {network} | {method} | {mean:.1e} | {total:.1e} |", flush=True)


if __name__ == "__main__":
    main()
