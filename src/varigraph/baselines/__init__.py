"""Other people's methods, each giving a Prediction, so that every metric applies."""

from varigraph.baselines.bgcn import Bgcn
from varigraph.baselines.block_bgcn import BlockBgcn
from varigraph.baselines.drop_connect import DropConnect
from varigraph.baselines.plain import Baseline, DeepEnsemble, McDropout, Plain, from_draws

__all__ = [
    "Baseline",
    "Bgcn",
    "BlockBgcn",
    "DeepEnsemble",
    "DropConnect",
    "McDropout",
    "Plain",
    "from_draws",
]
