"""The paper's network of a folder: read back if it was trained there, else trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from torch_geometric.data import Data

from varigraph.studies import folder as files
from varigraph.training import PaperNetwork, paper_network, train

FILE = "model.pt"


def trained_network(
    graph: Data,
    folder: Path,
    *,
    epochs: int,
    seed: int,
    progress: Callable[[str, int, int], None],
) -> tuple[PaperNetwork, bool]:
    """The network in evaluation mode, and whether it was read back.

    Args:
        graph: to train on.
        folder: where its weights are kept, and the history of its training.
        epochs: passes over the training nodes.
        seed: of the first weights and the training.
        progress: called with a stage, the steps done and the number of steps.
    """
    model = paper_network(graph, seed=seed)
    state, own = files.read_weights(folder / FILE), model.state_dict()
    if state is not None and {k: v.shape for k, v in state.items()} == {
        name: value.shape for name, value in own.items()
    }:
        model.load_state_dict(state)
        return model.eval(), True
    history = train(
        model,
        graph,
        epochs=epochs,
        seed=seed,
        progress=lambda epoch, total, loss: progress("training", epoch, total),
    )
    files.write_json(folder / "training.json", asdict(history))
    files.write_weights(folder / FILE, model.state_dict())
    return model, False
