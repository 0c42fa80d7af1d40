"""A network whose layers ask other processes for rows; and whether that is all it needs of them."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from varigraph.distributed.exchange import OthersRows
from varigraph.distributed.share import Share
from varigraph.errors import ModelError
from varigraph.moments import Gaussian, StandIn
from varigraph.moments.far_rows import asking_others, normalised_links
from varigraph.moments.running import running
from varigraph.prediction.calling import Run
from varigraph.prediction.sampled.removed import per_link

#: Links to each node of other processes, and from each own one, in a run that must not notice: more
#: than the one that a count is often taken for where there is none.
LINKS_BESIDE = 3
#: Differences of this size are rounding, as sums of other lengths have it.
ROUNDING = 1e-4


class FarInputs:
    """Before each message-passing layer, the rows of other processes' nodes are asked for.

    What the network is given itself is not: noise is drawn by the numbers of nodes in the whole
    graph, and is the same everywhere.

    Args:
        others: whom to ask.
    """

    def __init__(self, others: OthersRows) -> None:
        self.others = others
        self._given: Any = None

    def watching(self, run: Run) -> Run:
        """The same way to call a network; what it is given is noted."""

        def begin(x: Any, *graph: Data) -> Any:
            self._given = x.value if isinstance(x, StandIn) else x
            return run(x, *graph)

        return begin

    @contextmanager
    def of(self, model: nn.Module) -> Iterator[None]:
        """While this is open, the layers of a model ask."""
        homes = {kind.__module__ for module in model.modules() for kind in type(module).__mro__}
        with ExitStack() as stack:
            for layer in model.modules():
                if isinstance(layer, MessagePassing):
                    hook = layer.register_forward_pre_hook(self._before, with_kwargs=True)
                    stack.callback(hook.remove)
            for home in homes:
                names = vars(sys.modules.get(home, sys))
                for name in [name for name, value in names.items() if value is gcn_norm]:
                    stack.callback(names.__setitem__, name, gcn_norm)
                    names[name] = normalised_links
            stack.enter_context(asking_others(self))
            yield

    def refreshed(self, values: Sequence[Tensor]) -> list[Tensor]:  # [rows, ...] each
        """The same values, with the rows of others as these have them."""
        return self.others.refreshed(values)

    def _before(
        self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self.others.begins_layer():
            return args, kwargs
        if args:
            return (self._refreshed(layer, args[0]), *args[1:]), kwargs
        return args, {**kwargs, "x": self._refreshed(layer, kwargs.get("x"))}

    def _refreshed(self, layer: nn.Module, x: Any) -> Any:
        value = x.value if isinstance(x, StandIn) else x
        if value is self._given:
            return x
        if isinstance(value, Gaussian):
            return StandIn(Gaussian(*self.refreshed([value.mean, value.var])))
        if isinstance(value, Tensor):
            return self.refreshed([value])[0]
        raise ModelError(
            f"{type(layer).__name__} was called with separate source and target nodes",
            "in parts of a graph, call it with one x; or predict without parts: vg.predict",
        )


@dataclass(frozen=True)
class Reach:
    """How much of the whole graph some rows know, the first ones most.

    Args:
        answered: rows that answers are for.
        complete: rows all of whose incoming links are there.
        known: rows that stand for a node.
        right: rows whose features may be looked at.
        rows: all there are.
    """

    answered: int
    complete: int
    known: int
    right: int
    rows: int

    @classmethod
    def of(cls, share: Share) -> Reach:
        """Of own nodes, and of copies of others whose features are right."""
        own = len(share.own)
        return cls(own, own, share.known, share.known, share.rows)


def check_neighbours_suffice(model: nn.Module, run: Run, data: Data, reach: Reach) -> None:
    """Raises if answers depend on more than is known.

    Args:
        model: the network.
        run: calls it.
        data: some rows of a graph.
        reach: what is known of them.

    Raises:
        ModelError: naming the first layer that is reached.
    """
    changed = first_reached(model, run, data, reach)
    if changed is not None:
        raise ModelError(
            f"{changed} looks at more than the neighbours "
            "of a node: at all nodes, at several steps at once, or at degrees that are not its own",
            "message-passing layers of one step (SAGEConv, GCNConv, GINConv, GATConv, GraphConv) "
            "can be followed in parts; for others predict without parts: vg.predict(model, data)",
        )


def first_reached(model: nn.Module, run: Run, data: Data, reach: Reach) -> str | None:
    """The first layer whose answers depend on more than is known; None if there is none.

    The network is run twice, the second time with rows that hold no numbers, with links from these
    to nodes that lack some, and from all others to them. In a network of layers that look at their
    neighbours once, none of this reaches an own node. Sums over all nodes, layers of several steps
    and degrees that are counted by hand do not pass.

    Raises:
        ModelError: the model is random, or does not answer with a row for every node.
    """
    with torch.no_grad(), running(model, by_rules=False):
        before, first = _looked_at(model, lambda: run(data.x.clone(), data), reach.answered)
        state, spoilt = torch.get_rng_state(), _spoilt(data, reach)
        after, second = _looked_at(model, lambda: run(spoilt.x.clone(), spoilt), reach.answered)
        random = not torch.equal(state, torch.get_rng_state())
    if random:
        raise ModelError(
            "the model draws random numbers in evaluation mode, and each process would its own",
            "leave that out at prediction time; or predict without parts: vg.predict(model, data)",
        )
    if not isinstance(before, Tensor) or before.dim() == 0 or len(before) != reach.rows:
        raise ModelError(
            "the model does not answer with a row for every node",
            "in parts of a graph only nodes are answered for; vg.predict(model, data) takes others",
        )
    if _same(before[: reach.answered], after[: reach.answered]):
        return None
    changed = (name for (name, one), (_, two) in zip(first, second, strict=False)
               if not _same(one, two))  # fmt: skip
    return next(changed, type(model).__name__)


Look = tuple[str, Tensor]


def _looked_at(model: nn.Module, run: Callable[[], Any], own: int) -> tuple[Any, list[Look]]:
    """What a run returns, and of each module's answer for own nodes one number a column."""
    seen: list[Look] = []

    def note(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, out: Any) -> None:
            if isinstance(out, Tensor) and out.dim() > 0 and len(out) >= own:
                seen.append((name, out[:own].double().flatten(1 if out.dim() > 1 else 0).mean(0)))

        return hook

    with ExitStack() as stack:
        for name, module in _outer(model):
            called = f"layer {name} ({type(module).__name__})"
            stack.callback(module.register_forward_hook(note(called)).remove)
        return run(), seen


def _outer(module: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """All modules but the model itself and what is inside of message-passing layers."""
    for short, child in module.named_children():
        yield name + short, child
        if not isinstance(child, MessagePassing):
            yield from _outer(child, f"{name}{short}.")


def _same(one: Tensor, two: Tensor) -> bool:
    if one.shape != two.shape or not bool(two.isfinite().all() | ~one.isfinite().all()):
        return False
    size = one.abs().max() if one.numel() else torch.zeros(())
    return bool(((one - two).abs() <= ROUNDING * size).all())


def _spoilt(data: Data, reach: Reach) -> Data:
    """The graph with a row more, no numbers in rows not to be looked at, and links with them."""
    found, nothing = copy.copy(data), reach.rows
    far = torch.arange(reach.complete, reach.known).repeat(LINKS_BESIDE)
    own = torch.arange(reach.complete).repeat(LINKS_BESIDE)
    ends = torch.cat([torch.stack([torch.full_like(far, nothing), far]),
                      torch.stack([own, torch.full_like(own, nothing)])], dim=1)  # fmt: skip
    for name, value in data:
        if isinstance(value, Tensor) and per_link(data, name, value) and name != "edge_index":
            found[name] = torch.cat([value, value[:1].expand(ends.shape[1], *value.shape[1:])])
        elif isinstance(value, Tensor) and data.is_node_attr(name):
            found[name] = torch.cat([value, value[:1]])
    found.edge_index = torch.cat([data.edge_index, ends], dim=1)
    found.num_nodes = reach.rows + 1
    found.x = found.x.clone()
    found.x[reach.right :] = torch.nan
    return found
