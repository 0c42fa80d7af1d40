"""docs/results.md shows what docs/results-tables.md says, and marks the best."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TABLES = (ROOT / "docs" / "results-tables.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
LOWER_IS_BETTER = ("cross entropy", "Brier", "ECE", "AURC")


@pytest.fixture(scope="module")
def maker():
    path = ROOT / "scripts" / "results_page.py"
    spec = importlib.util.spec_from_file_location("results_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_as_the_script_writes_it(maker):
    parts = [
        maker.table(maker.DATASETS[name], maker.cells(TABLES, name)) for name in maker.DATASETS
    ]
    assert all(part in PAGE for part in parts)
    assert PAGE.count("### ") == len(parts) == 3


@pytest.mark.parametrize("title", ["Cora", "Computers", "PubMed"])
def test_one_mean_is_best_in_each_column(title):
    block = PAGE.split(f"### {title}\n\n")[1].split("\n\n")[0]
    header, _, *rows = ([c.strip() for c in line.split("|")[1:-1]] for line in block.splitlines())
    assert len(rows) == 10
    for column, name in enumerate(header[1:], start=1):
        shown = [row[column] for row in rows if row[column] != "–"]
        means = [float(text.strip("*").split()[0]) for text in shown]
        best = min(means) if name in LOWER_IS_BETTER else max(means)
        marked = [text.startswith("**") for text in shown]
        assert marked == [mean == best for mean in means]


def test_variances_never_find_errors_better_than_confidence():
    # What the page says of all 108 comparisons.
    found = []
    for body in re.findall(
        r"^## Table \d\. \w+, held-out: calibration\n\n((?:\|.*\n)+)", TABLES, re.M
    ):
        header, _, *rows = (
            [c.strip() for c in line.split("|")[1:-1]] for line in body.splitlines()
        )
        for row in (dict(zip(header, cells, strict=True)) for cells in rows):
            if row["AUROC"] != "–":
                found.append(float(row["AUROC"].split()[0]) < float(row["confidence"].split()[0]))
    assert len(found) == 108
    assert all(found)
