"""From a trained network to a distribution over its answers."""

from varigraph.predict.predict import predict
from varigraph.predict.prediction import Prediction

__all__ = ["Prediction", "predict"]
