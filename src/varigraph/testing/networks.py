"""The law of networks: an answer is that of the network itself, which is as before afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy, deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch_geometric.data import Data, HeteroData

from varigraph.data import feature_variance
from varigraph.data.kinds import BACK, StackedGraph
from varigraph.prediction.calling import caller, pairs_of
from varigraph.prediction.predict import predict
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import check_nodes, chosen_nodes

#: How far a mean may be from the model's own answer where next to nothing is uncertain.
NEAR = 1e-3
#: Part to which variances are brought down there.
TINY = 1e-8
#: Part of a standard deviation by which a mean may be off, and how many standard errors.
SHIFT, ERRORS = 0.5, 6
#: How you call a model yourself.
Call = Callable[[nn.Module, Any], Tensor]


def check_network(
    model: nn.Module,
    data: Data | HeteroData,
    *,
    call: Call | None = None,
    draws: int = 200,
    factor: float = 2.0,
    seed: int = 0,
    **options: Any,
) -> Prediction:
    """Check that ``vg.predict`` answers for this very network, and leaves it as it is.

    1. With next to no variance the mean is the model's own answer in evaluation mode. 2. Model,
    graph and torch's generator are as before, bit by bit. 3. A few draws by a plain loop agree: of
    noisy features, of graphs without the links that are absent, and of dropout.

    Args:
        model: any network.
        data: the graph, with ``x_var``, ``edge_prob`` or both; of one kind of nodes or several.
        call: how you call it yourself, ``call(model, data)``, if not as its parameters are named.
        draws: how many.
        factor: how far the sum of all variances may be from that of the draws.
        seed: of the draws.
        options: of :func:`varigraph.predict`, but ``links`` and ``dropout``.

    Returns:
        The prediction.

    Raises:
        AssertionError: naming the law that does not hold, and by how much.

    Example:
        >>> from torch_geometric.nn import GraphSAGE
        >>> from varigraph.testing import check_network
        >>> links = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> graph = Data(x=torch.rand(3, 4), edge_index=links, x_var=0.01)
        >>> check_network(GraphSAGE(4, 8, 2, 3), graph).task
        'classification'
    """
    before = _state(model, data)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(has no dropout|nothing is uncertain)")
        pred = predict(model, data, links="removed", **options)
        truth = Draws(model, data, call, pred.task, options, seed)
        if torch.equal(truth.own(), truth.own()):  # else it draws for itself, and is no number
            certain = predict(model, _next_to_certain(data), **_few_draws(options))
            _check_own_answer(certain.mean, truth)
    _check_untouched(before, _state(model, data))
    _check_draws(pred, torch.stack([truth.once() for _ in range(draws)]), factor)
    return pred


def _next_to_certain(data: Data | HeteroData) -> Data | HeteroData:
    certain = copy(data)
    for store in certain.stores:
        if store.get("x_var") is not None:
            store["x_var"] = TINY * store["x_var"]
        if store.get("edge_prob") is not None:
            store["edge_prob"] = torch.ones_like(store["edge_prob"])
    return certain


def _few_draws(options: Mapping[str, Any]) -> dict[str, Any]:
    """Enough where there is next to no noise; dropout stays off."""
    kept = {name: v for name, v in options.items() if name not in ("sources", "weights", "samples")}
    return {"samples": 8, "sources": ("features", "links"), "links": "removed", **kept}


def _state(model: nn.Module, data: Data | HeteroData) -> dict[str, Any]:
    """Everything that could be changed, by what it is called."""
    found: dict[str, Any] = {"torch's generator": torch.get_rng_state()}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            found[f"{path}.{name} of the model"] = value
            parts = value.items() if isinstance(value, dict) else ()
            found.update({f"{path}.{key} of the model": _kept(part) for key, part in parts})
            found[f"what {path}.{name} of the model holds"] = _kept(value)
    for store in data.stores:
        for name, value in store.items():
            where = f"{name} of the graph" if store._key is None else f"{name} of {store._key}"
            found[where], found[f"numbers of {where}"] = value, _kept(value)
    return found


def _kept(value: Any) -> Any:
    """The same in memory of its own, where it could be changed in place."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    return copy(value) if isinstance(value, (dict, list, set)) else value


def _check_untouched(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    assert before.keys() == after.keys(), f"law 2: {before.keys() ^ after.keys()} came or went"
    for name, value in before.items():
        assert _same(value, after[name]), f"law 2: {name} changed"


def _same(one: Any, two: Any) -> bool:
    if one is two:
        return True
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        return one.shape == two.shape and torch.equal(one, two)
    if type(one) is not type(two) or not isinstance(one, (dict, list, set, tuple, int, str, float)):
        return False
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two)


def _check_own_answer(mean: Tensor, truth: Draws) -> None:  # [nodes, outputs]
    own = truth.own()
    near = NEAR * (1 + float(mean.abs().max()))
    far = min(float((truth.shown(own, ends) - mean).abs().max()) for ends in (False, True))
    truth.ends_in_sigmoid = far < float((truth.shown(own, False) - mean).abs().max())
    assert far <= near, f"law 1: without noise the mean is off the model's answer by {far:.2g}"


def _check_draws(pred: Prediction, runs: Tensor, factor: float) -> None:  # [draws, nodes, outputs]
    mean, var = runs.mean(0), runs.var(0)
    error = (var / len(runs)).sqrt()
    if pred.std_error is not None:
        error = error + pred.std_error.mean.nan_to_num(0)
    far = (pred.mean - mean).abs() - SHIFT * var.sqrt() - ERRORS * error - NEAR
    assert float(far.max()) <= 0, (
        f"law 3: a mean is off that of the draws by {float(far.max()):.2g}"
    )
    drawn, said = float(var.sum()), float(pred.total.sum())
    floor = NEAR**2 * var.numel()
    assert said <= factor * drawn + floor, f"law 3: variance {said:.3g}, and {drawn:.3g} by draws"
    assert drawn <= factor * said + floor, f"law 3: variance {said:.3g}, and {drawn:.3g} by draws"


class _OpenDropout(TorchFunctionMode):
    """While this is open, dropout acts wherever it stands."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is not F.dropout:
            return func(*args, **(kwargs or {}))
        return _dropped(*args, **(kwargs or {}))


def _dropped(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return input * torch.empty_like(input).bernoulli_(1 - p) / (1 - p) if p < 1 else 0 * input


class Draws:
    """A copy of a model, run on draws of all that is uncertain, one after the other.

    Args:
        model: the network.
        data: the graph, with what is uncertain about it.
        call: how it is called; None for what the names of its parameters say.
        task: what its output means.
        options: of :func:`varigraph.predict`, as far as they say what is asked.
        seed: of the first draw.

    Attributes:
        ends_in_sigmoid: whether the outputs are probabilities already, in tasks with sigmoids.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Data | HeteroData,
        call: Call | None,
        task: str,
        options: Mapping[str, Any],
        seed: int,
    ) -> None:
        self._model, self._data, self._call, self._task = model, data, call, task
        self._options = options
        # One stream for all draws: what new seeds begin with is less random in its tails.
        self._stream = torch.Generator().manual_seed(seed).get_state()
        self._sources = options.get("sources") or ("features", "links", "weights")
        self._std, self.ends_in_sigmoid = _spreads(data), False

    def own(self) -> Tensor:  # -> [nodes, outputs]
        """What the model returns for the graph as it is."""
        with self._drawing():
            return self._answer(self._data)

    def once(self) -> Tensor:  # -> [nodes, outputs]
        """The answer for one draw."""
        with self._drawing():
            graph = copy(self._data)
            if "features" in self._sources:
                for store, std in zip(_with_features(graph), self._std, strict=True):
                    store["x"] = store["x"] + std * torch.randn_like(store["x"])
            if "links" in self._sources:
                graph = _with_fewer_links(graph)
            if "weights" not in self._sources or self._options.get("samples") == 0:
                return self.shown(self._answer(graph), self.ends_in_sigmoid)
            with _OpenDropout():
                return self.shown(self._answer(graph), self.ends_in_sigmoid)

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """While this is open, torch draws from the next numbers of the stream."""
        with torch.random.fork_rng():
            torch.set_rng_state(self._stream)
            yield
            self._stream = torch.get_rng_state()

    def _answer(self, graph: Data | HeteroData) -> Tensor:
        model = deepcopy(self._model).eval()  # a new one each time: it may keep things
        with torch.no_grad():
            if self._call is not None:
                out: Tensor = self._call(model, graph)
            else:
                how = {name: self._options.get(name) for name in ("forward", "output")}
                if isinstance(graph, HeteroData):
                    graph = StackedGraph.of(graph, how["output"])
                pairs = pairs_of(self._options.get("links_to_score"), graph)
                out = caller(model, graph, how["forward"], output=how["output"], pairs=pairs)(
                    graph.x, graph
                )
        out = out[:, None] if out.dim() == 1 else out
        rows = check_nodes(chosen_nodes(self._options.get("nodes"), graph), len(out))
        return out if rows is None else out[rows]

    def shown(self, out: Tensor, ends_in_sigmoid: bool) -> Tensor:  # [nodes, outputs]
        """The probabilities that an output means, or in regression itself."""
        if self._task == "classification":
            sums = out.sum(1)
            adds_up = bool((out >= 0).all()) and torch.allclose(sums, torch.ones_like(sums))
            return out if adds_up else out.softmax(1)
        return out if self._task == "regression" or ends_in_sigmoid else out.sigmoid()


def _with_features(graph: Data | HeteroData) -> list[Any]:
    """Where features are kept: once, or for each kind of nodes that has some."""
    stores = [store for store in graph.stores if isinstance(store.get("x"), Tensor)]
    return [store for store in stores if store["x"].is_floating_point()]


def _spreads(data: Data | HeteroData) -> list[Tensor]:  # [nodes, features] each
    if isinstance(data, Data):
        return [feature_variance(data).sqrt()]
    kinds = [Data(x=store["x"], x_var=store.get("x_var")) for store in _with_features(data)]
    return [feature_variance(kind).sqrt() for kind in kinds]


def _with_fewer_links(graph: Data | HeteroData) -> Data | HeteroData:
    """A draw of the links."""
    if isinstance(graph, Data):
        if graph.get("edge_prob") is None:
            return graph
        return graph.edge_subgraph(_mask(_present(_links(graph)), graph))
    doubtful = [kind for kind in graph.edge_types if graph[kind].get("edge_prob") is not None]
    links = {kind: _links(graph[kind], kind, doubtful) for kind in doubtful}
    present = iter(_present([link for each in links.values() for link in each]))
    kept = {kind: [next(present) for _ in each] for kind, each in links.items()}
    return graph.edge_subgraph({kind: _mask(kept[kind], graph[kind]) for kind in kept})


def _mask(present: list[bool], store: Any) -> Tensor:  # [edges]
    return torch.tensor(present, dtype=torch.bool, device=store.edge_index.device)


def _links(store: Any, kind: Any = ("", "", ""), known: Any = ()) -> list[tuple[Any, ...]]:
    """What each link means, where it starts and ends, and its chance; a way back means the same."""
    source, name, target = kind
    forth = (target, name.removeprefix(BACK), source)
    meaning = forth if name.startswith(BACK) and forth in known else kind
    ends = zip(store.edge_index.T.tolist(), store.edge_prob.tolist(), strict=True)
    return [(meaning, (source, a), (target, b), chance) for (a, b), chance in ends]


def _present(links: list[tuple[Any, ...]]) -> list[bool]:
    """A coin for every link, one for both of its directions where their chances agree."""
    known = {link[:3]: link[3] for link in links}
    coins: dict[Any, bool] = {}
    found = []
    for meaning, a, b, chance in links:
        both = known.get((meaning, b, a), chance) == chance
        key = (meaning, min(a, b), max(a, b)) if both else (meaning, a, b, "alone")
        if key not in coins:
            coins[key] = float(torch.rand(())) < chance
        found.append(coins[key])
    return found
