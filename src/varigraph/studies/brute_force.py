"""Error bars of two methods beside those of brute force: ours and the published one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.choices import Method
from varigraph.prediction import Prediction, predict
from varigraph.prediction.sources.features import FEATURES
from varigraph.studies.config import Progress, Study
from varigraph.studies.folder import Pieces
from varigraph.studies.run import METHOD

#: The closed form of the paper.
PUBLISHED: Method = "diagonal"
FILE = "brute_force.json"
#: Draws for each dropout mask of the published method, and at least.
DRAWS_PER_MASK, FEWEST_DRAWS = 2, 2


@dataclass(frozen=True)
class BruteForce:
    r"""Error bars over those of brute force, the median over test nodes; 1 is right.

    .. math:: \operatorname{median}_i \; \sigma_i / \sigma_i^{\text{drawn}}

    with the error bar :math:`\sigma_i` of the probability that node i gives to its answer.

    Args:
        draws: of brute force.
        ours: by :data:`~varigraph.studies.run.METHOD`, with everything that is uncertain.
        published: by :data:`PUBLISHED`.
        ours_features: by ours, from the noise in the features alone; None where there is none.
        published_features: by the published method.
    """

    draws: int
    ours: float
    published: float
    ours_features: float | None
    published_features: float | None


def brute_force(
    model: nn.Module, noisy: Data, study: Study, pieces: Pieces, *, maker: str, progress: Progress
) -> BruteForce:
    """Compare both methods with draws, or read back what was found earlier.

    Args:
        model: the network of a run.
        noisy: its graph with noise, and ``test_mask``.
        study: its options.
        pieces: of its folder.
        maker: what the comparison depends on besides the options.
        progress: called with a stage, the steps done and the number of steps.
    """
    held = pieces.read_record(FILE, network=maker)
    if held is not None:
        return BruteForce(**{name: held[name] for name in BruteForce.__dataclass_fields__})
    found = _compared(model, noisy, study, progress)
    pieces.write_record(FILE, asdict(found), network=maker)
    return found


def _compared(model: nn.Module, noisy: Data, study: Study, progress: Progress) -> BruteForce:
    draws = max(FEWEST_DRAWS, DRAWS_PER_MASK * study.samples)
    asked = partial(predict, model, noisy, links=study.reading, nodes=noisy.test_mask)

    def error_bars(sources: tuple[str, ...] | None) -> tuple[float, float]:
        seed = study.seed
        truth = asked(sources=sources, method="sampled", samples=draws, seed=seed + 1)
        progress("brute force", 1 if sources is None else 2, 2)
        ours = asked(sources=sources, method=METHOD, seed=seed)
        theirs = asked(sources=sources, method=PUBLISHED, samples=study.samples, seed=seed)
        answer = ours.mean.argmax(1)
        return _ratio(ours, truth, answer), _ratio(theirs, truth, answer)

    ours, theirs = error_bars(None)
    if not bool((torch.as_tensor(noisy.x_var) > 0).any()):
        return BruteForce(draws, ours, theirs, None, None)
    return BruteForce(draws, ours, theirs, *error_bars((FEATURES,)))


def _ratio(found: Prediction, truth: Prediction, answer: Tensor) -> float:  # [nodes]
    own, drawn = (each.std.gather(1, answer[:, None])[:, 0].double() for each in (found, truth))
    moved = drawn > 0
    return float((own[moved] / drawn[moved]).median()) if bool(moved.any()) else 1.0
