"""docs/rules.md says what the registry says."""

import importlib.util
import sys
from pathlib import Path

import pytest

from varigraph.moments.registry import FUNCTIONS, LAYERS
from varigraph.studies.own_model.rule_check import rule_name
from varigraph.testing import jacobian

ROOT = Path(__file__).parents[1]
ERROR = 4  # the column that takes a minute to compute
#: Judged by integrals, a fraction of a second each; the others so judged take longer.
QUICK = {"relu", "leaky_relu", "square"}


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("rule_table", ROOT / "scripts" / "rule_table.py")
    module = sys.modules["rule_table"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["rule_table"]


@pytest.fixture(scope="module")
def written(table):
    return table.TARGET.read_text(encoding="utf-8")


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def without_errors(text):
    """The document with the column of errors left out."""
    for line in text.splitlines():
        parts = cells(line)
        yield [*parts[:ERROR], *parts[ERROR + 1 :]] if line.startswith("|") else line


def test_it_is_up_to_date_with_the_registry(table, written):
    found, wanted = (list(without_errors(t)) for t in (written, table.document(lambda row: None)))
    assert found == wanted, "run `make rules`"


def test_every_rule_has_an_error_but_the_softmax(table, written):
    bare = [
        cells(line)[0] for line in written.splitlines() if line.startswith("| `") and "– |" in line
    ]
    assert bare == ["`log_softmax`", "`softmax`"]


def test_errors_are_not_larger_than_written(table, written):
    lines = {cells(line)[1]: cells(line)[ERROR] for line in written.splitlines() if line[:1] == "|"}
    fast = [
        row
        for row in [*table.rows(FUNCTIONS), *table.rows(LAYERS)]
        if row.cases and (QUICK & {*row.what} or all(c.oracle is jacobian for c in row.cases))
    ]
    assert len(fast) > 20
    for row in fast:
        bound = float(lines[f"`{row.rule}`"].removeprefix("≤ "))
        assert table.error_of(row) <= bound, row.rule


def test_errors_of_approximate_rules_are_those_that_tests_hold_them_to(table, written):
    lines = {cells(line)[1]: cells(line)[ERROR] for line in written.splitlines() if line[:1] == "|"}
    found = {
        row.rule: [
            lines[f"`{row.rule}`"],
            table.shown(max(c.off for c in row.cases), "approximate"),
        ]
        for row in [*table.rows(FUNCTIONS), *table.rows(LAYERS)]
        if row.exactness == "approximate"
    }
    assert len(found) == 12
    assert all(document == held for document, held in found.values()), found


def test_rules_are_called_what_the_check_of_a_network_calls_them(table):
    # torch_geometric puts functions of its own in the place of index_select and select.
    rules = [r for r in [*FUNCTIONS.values(), *LAYERS.values()] if r.names[0][:4] != "_new"]
    called = {rule_name(rule) for rule in rules}
    assert called == {row.rule for row in [*table.rows(FUNCTIONS), *table.rows(LAYERS)]}


@pytest.mark.parametrize(
    ("error", "exactness", "cell"),
    [
        (0.0, "exact", "≤ 1e-14"),
        (2e-11, "exact", "≤ 1e-10"),
        (1e-7, "exact", "≤ 1e-7"),
        (0.482, "approximate", "0.5"),
        (5.25, "approximate", "5.3"),
        (None, "exact", "–"),
    ],
)
def test_errors_are_rounded_up(table, error, exactness, cell):
    assert table.shown(error, exactness) == cell
