"""Other people's methods, each giving a Prediction, so that every metric applies."""
