"""A page with as many nodes as PubMed has: quick to open, quick to use."""

import time

import pytest

import varigraph as vg
from browser.reader import Reader
from reporting.page.made_up import made_up

NODES, LINKS = 19_717, 44_338
#: Seconds in which the page must be there.
OPENING = 3.0
#: Seconds in which it must answer its reader.
ANSWER = 0.5
FRAME = "requestAnimationFrame"


def seconds(chromium):
    """Processor time of the page's thread: other work on the machine does not count."""
    chromium.execute_cdp_cmd("Performance.enable", {})
    found = chromium.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(entry["value"] for entry in found if entry["name"] == "ThreadTime")


@pytest.fixture(scope="module")
def subject():
    return made_up(NODES, links=LINKS)


@pytest.fixture(scope="module")
def large(subject, tmp_path_factory):
    return vg.report(*subject, path=tmp_path_factory.mktemp("large") / "large.html")


@pytest.fixture(scope="module")
def opened(chromium, large):
    """The page, opened once; its tests leave the filters as they were."""
    return Reader(chromium, large)


def test_it_opens_in_three_seconds(chromium, large):
    chromium.get("about:blank")
    start = time.monotonic()
    chromium.get(large.as_uri())
    waited = time.monotonic() - start
    assert min(waited, seconds(chromium)) < OPENING
    assert chromium.execute_script("return document.querySelectorAll('tr.node').length") > 0


def test_few_rows_exist_at_a_time(opened, subject):
    prediction, _ = subject
    assert len(opened.rows()) < 60
    opened.ask("document.getElementById('rows').scrollTo(0, 1e9)")
    opened.ask(f"new Promise(done => {FRAME}(() => {FRAME}(done)))")
    assert len(opened.rows()) < 60
    assert float(prediction.trust[opened.rows()[-1]]) == float(prediction.trust.max())


@pytest.mark.parametrize(
    ("field", "value"), [("search", "n197"), ("source", "4"), ("uncertainty", "0.25")]
)
def test_filtering_answers_at_once(opened, chromium, field, value):
    before = seconds(chromium)
    opened.choose(field, value)
    spent = seconds(chromium) - before
    assert 0 < opened.matches() < NODES
    opened.choose(field, "")
    assert spent < ANSWER


@pytest.mark.parametrize("column", ["node", "answer", "confidence", "source"])
def test_sorting_answers_at_once(opened, chromium, column):
    before = seconds(chromium)
    opened.click(f"[data-column={column}] button")
    assert opened.matches() == NODES
    assert seconds(chromium) - before < ANSWER


def test_choosing_answers_at_once(opened, chromium):
    before = seconds(chromium)
    opened.click("tr.node:nth-child(5)")
    assert opened.ask("document.querySelectorAll('#neighbourhood circle').length") > 0
    assert seconds(chromium) - before < ANSWER
