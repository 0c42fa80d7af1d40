"""What studies do unless told otherwise, known without torch: help shows it."""

from __future__ import annotations

from pathlib import Path

#: Growing noise of the features, in per cent of their mean.
NOISE = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
#: Growing doubt about links, in per cent of that found.
DOUBT = (0.0, 6.25, 12.5, 25.0, 50.0, 100.0)
#: Draws of brute force by which the speed study tells the fidelity.
DRAWS = 1000
#: Where the paper's tables are made.
PAPER_FOLDER = Path("runs") / "study-paper"
