"""How good a prediction is, and how honest its variance: pure functions of tensors."""
