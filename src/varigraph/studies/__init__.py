"""Experiments from end to end: train, perturb, predict, score, write it all down."""
