"""Step 5: tables and figures. Only ``varigraph.report.plots`` needs matplotlib."""
