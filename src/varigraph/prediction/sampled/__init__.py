"""Brute force, made cheap: draws of every source through the network itself."""
