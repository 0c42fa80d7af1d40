"""From a trained network to a distribution over its answers."""

from varigraph.prediction.predict import predict
from varigraph.prediction.prediction import Prediction

__all__ = ["Prediction", "predict"]
