"""A user's own network and graph: reading them, predicting, and looking at the layers' rules."""
