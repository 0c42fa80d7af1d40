"""What a prediction must leave as it was: the network, the graph, and the process around them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from campaign.cases import Case


def traces(case: Case) -> dict[str, Any]:
    """Everything that somebody could have touched, by name."""
    found = {**_of_process(), **{f"data.{k}": _copied(v) for k, v in case.data.to_dict().items()}}
    for name, module in case.model.named_modules():
        found.update({f"{name or 'model'}.{key}": value for key, value in _of_module(module)})
    found.update({f"option {name}": _copied(value) for name, value in case.options.items()})
    return found


def _of_process() -> dict[str, Any]:
    return {
        "torch's random state": torch.get_rng_state(),
        "the GPU's random state": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        "numpy's random state": repr(np.random.get_state()),
        "Python's random state": random.getstate(),
        "grad mode": torch.is_grad_enabled(),
        "default dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def _of_module(module: nn.Module) -> list[tuple[str, Any]]:
    """Class, attributes, parameters with their gradients, hooks; children speak for themselves."""
    found: list[tuple[str, Any]] = [("class", type(module))]
    for name, value in vars(module).items():
        if name == "_modules":
            found.append((name, {child: id(part) for child, part in value.items()}))
        elif name == "_parameters":
            found += [(k, _copied(p)) for k, p in value.items()]
            found += [
                (f"{k}.grad", None if p is None else _copied(p.grad)) for k, p in value.items()
            ]
        elif isinstance(value, dict):
            found.append((name, {key: _copied(entry) for key, entry in value.items()}))
        else:
            found.append((name, _copied(value)))
    return found


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return (
            value.detach().clone(),
            value.requires_grad,
            value.stride() if value.layout == torch.strided else (),
        )
    return tuple(value) if isinstance(value, list) else value


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Names of what is not as it was."""
    names = [*before, *(name for name in after if name not in before)]
    gone = object()
    return [n for n in names if not _same(before.get(n, gone), after.get(n, gone))]


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        if one.layout != two.layout or one.shape != two.shape or one.dtype != two.dtype:
            return False
        dense = (one, two) if one.layout == torch.strided else (one.to_dense(), two.to_dense())
        return bool(torch.equal(*dense))
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    return one is two or bool(one == two)
