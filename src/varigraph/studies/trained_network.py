"""The paper's network of a folder: read back if it was trained there, else trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from torch_geometric.data import Data

from varigraph.files import write_json
from varigraph.prediction.side_by_side import one_thread_each
from varigraph.studies.pieces import Pieces
from varigraph.training import PaperNetwork, paper_network, train

FILE = "model.pt"


def read_network(graph: Data, pieces: Pieces, *, seed: int) -> PaperNetwork | None:
    """The network that was trained in a folder, in evaluation mode; None where there is none.

    Args:
        graph: that it was trained on.
        pieces: of the study that trained it.
        seed: of the run.
    """
    model, state = paper_network(graph, seed=seed), pieces.read_weights(FILE)
    sizes = {name: value.shape for name, value in model.state_dict().items()}
    if state is None or {name: value.shape for name, value in state.items()} != sizes:
        return None
    model.load_state_dict(state)
    return model.eval()


def trained_network(
    graph: Data,
    pieces: Pieces,
    *,
    epochs: int,
    seed: int,
    progress: Callable[[str, int, int], None],
) -> tuple[PaperNetwork, bool]:
    """The network in evaluation mode, and whether it was read back.

    Args:
        graph: to train on.
        pieces: of the study; its weights are kept there, and the history of its training.
        epochs: passes over the training nodes.
        seed: of the first weights and the training.
        progress: called with a stage, the steps done and the number of steps.
    """
    known = read_network(graph, pieces, seed=seed)
    if known is not None:
        return known, True
    model = paper_network(graph, seed=seed)
    with one_thread_each():  # on small batches more only wait: on a busy machine ten times as long
        history = train(
            model,
            graph,
            epochs=epochs,
            seed=seed,
            progress=lambda epoch, total, loss: progress("training", epoch, total),
        )
    write_json(pieces.folder / "training.json", asdict(history))
    pieces.write_weights(FILE, model.state_dict())
    return model, False
