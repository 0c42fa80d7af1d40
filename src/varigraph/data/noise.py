"""Noise that a graph says its numbers have: one variance for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from varigraph.errors import GraphError


def variances(
    name: str,
    said: Any,
    x: Tensor,  # [rows, columns]
    called: str,
    batch: tuple[Tensor, int] | None,  # [rows]
    *,
    flat: bool = False,
) -> Tensor:  # -> [rows, columns]
    """A variance for each number of x, from what a graph says of it.

    Args:
        name: of x in the graph.
        said: its variance.
        x: the numbers.
        called: what one of its rows and of its columns is.
        batch: the graph of each row, and how many graphs there are; None for one graph.
        flat: whether x is a vector, and a vector has one variance for each row.
    """
    var = _variance(f"{name}_var", said, x)
    (rows, columns), (row, column) = x.shape, called.split(", ")
    if batch is not None and var.dim() == 1 and not (flat and len(var) == rows):
        var = _by_graph(f"{name}_var", var, *batch, column, columns)
    var = var[:, None] if flat and tuple(var.shape) == (rows,) else var
    if tuple(var.shape) not in {(), (columns,), (rows, 1), (rows, columns)}:
        raise GraphError(
            f"{name}_var has shape {tuple(var.shape)}, but {name} has {rows} {row}s and {columns} "
            f"{column}s",
            f"give a number, [{column}s], [{row}s, 1] or [{row}s, {column}s]; "
            f"one variance for each {row} is graph.{name}_var.view(-1, 1)",
        )
    bad = ~(var.isfinite() & (var >= 0))
    if bad.any():
        index = first(bad)
        raise GraphError(
            f"{name}_var{index or ''} is {var[tuple(index)].item()}",
            f"give finite variances from 0 up; {column}s without noise have variance 0",
        )
    return var.expand_as(x)


def _by_graph(
    name: str, var: Tensor, owner: Tensor, graphs: int, column: str, columns: int
) -> Tensor:  # -> [rows, columns or 1], or as it was
    """What batching has put one after the other, each graph's on its own rows."""
    if len(var) == graphs == columns > 1:
        raise GraphError(
            f"{name} has {graphs} numbers for {graphs} graphs with {columns} {column}s: one for "
            f"each graph or for each {column}?",
            f"{name}[graph of each row].view(-1, 1) for each graph (batch.batch for nodes), "
            f"{name}.expand(rows, -1) for {column}s",
        )
    if len(var) in (graphs, graphs * columns):
        return var.view(graphs, -1)[owner]
    return var


def _variance(name: str, value: Any, x: Tensor) -> Tensor:
    if value is None:
        return x.new_zeros(())
    try:
        # By way of numpy a Python number keeps its 64 bits until the dtype of x is known.
        var = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"{name} is a {type(value).__name__} that makes no tensor",
            f"give a number or a tensor: graph.{name} = torch.tensor(0.1)",
        ) from error
    real = not (var.is_complex() or var.is_quantized or var.dtype == torch.bool)
    if not real or var.layout != torch.strided or var.is_meta:
        raise GraphError(
            f"{name} is a {var.layout} tensor of {var.dtype} on {var.device}, not a dense one of "
            "real numbers",
            f"give the variances themselves: graph.{name} = torch.tensor(0.1)",
        )
    return var.to(x)


def first(bad: Tensor) -> list[int]:  # [*shape] bool -> one index for every dimension
    """Where the first True stands. Small enough to put into a message."""
    return [int(index) for index in bad.nonzero()[0]]
