"""Tables and figures. Only ``varigraph.reporting.plots`` needs matplotlib."""
