"""From a trained network to a distribution over its answers."""

from varigraph.prediction.calibrate import calibrate
from varigraph.prediction.calibrator import Calibrator
from varigraph.prediction.predict import predict
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.saved_prediction import load_prediction

__all__ = ["Calibrator", "Prediction", "calibrate", "load_prediction", "predict"]
