"""Which answers to trust, and how to make probabilities and intervals hold: pure mathematics.

Functions of tensors, which know nothing of networks and predictions.
"""
