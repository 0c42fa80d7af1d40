"""Tables and figures. Only ``varigraph.report.plots`` needs matplotlib."""
