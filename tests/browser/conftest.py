"""A real Chromium, and pages to open in it."""

import shutil
from dataclasses import replace

import pytest
import torch
from torch_geometric.nn import GraphSAGE

import varigraph as vg
from browser.reader import Reader
from reporting.page.made_up import EVIL, made_up
from varigraph.prediction.sources.source import all_parts
from varigraph.quantify import Level, Scores

#: Root may not use the sandbox, and containers have little shared memory.
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


@pytest.fixture(scope="session")
def chromium():
    """A browser without a window that writes down what it says and what it fetches."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="pip install selenium")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no Chromium: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=service.Service(driver))
    yield made
    made.quit()


@pytest.fixture(scope="session")
def subject():
    """A prediction and its graph, with names that would do harm."""
    return made_up(300, links=700)


@pytest.fixture(scope="session")
def small(subject, tmp_path_factory):
    """A page with everything on it."""
    prediction, graph = subject
    with torch.random.fork_rng(devices=[]):
        model = GraphSAGE(graph.num_features, 8, 2, 3).eval()
    return vg.report(
        replace(prediction, method="first-order"),  # all answers together are divided by it alone
        graph,
        model=model,
        path=tmp_path_factory.mktemp("pages") / "small.html",
        title=EVIL,
        levels=[_level(noise) for noise in (0.0, 5.0, 12.0)],
        explain=9,
        warnings=[f"This run was cut short {EVIL}"],
    )


@pytest.fixture
def opened(chromium, small):
    """The small page in a window."""
    return Reader(chromium, small)


def _level(noise):
    parts = dict.fromkeys(all_parts(), 0.001) | {"features": 0.001 * noise}
    total = sum(parts.values())
    return Level(noise, Scores(0.8, 0.5, total, total - 0.001, 0.001, parts))
