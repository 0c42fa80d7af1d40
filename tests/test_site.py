"""The site builds without a warning, has no dead ends, and needs no network."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
import typer

import varigraph as vg
from varigraph import testing
from varigraph.cli import app

ROOT = Path(__file__).parents[1]
PICTURES = sorted((ROOT / "docs" / "pictures").iterdir())
#: Elements whose text nobody reads, or that show code as it is.
NOT_TEXT = {"script", "style", "template", "code", "pre"}


class Page(HTMLParser):
    """Links, sources, anchors and visible text of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.fetched, self.anchors, self.text, self._open = [], [], set(), [], []
        self.path, self.math = path, 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag in {"script", "img", "source", "iframe"} and attributes.get("src"):
            self.fetched.append(attributes["src"])
        if tag == "link" and attributes.get("href"):
            self.fetched.append(attributes["href"])
        if tag in NOT_TEXT:
            self._open.append(tag)
        self.math += tag == "math"

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data):
        if not self._open:
            self.text.append(data)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return {path.relative_to(folder).as_posix(): Page(path) for path in folder.rglob("*.html")}


def test_links_and_anchors_exist(site):
    anchors = {page.path.resolve(): page.anchors for page in site.values()}
    dead = []
    for name, page in site.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link) or (name == "404.html" and link.startswith("/")):
                continue
            address, anchor = urldefrag(link)
            target = (page.path.parent / unquote(address)).resolve() if address else page.path
            there = target.is_file() or (target / "index.html").is_file()
            if not there or (anchor and unquote(anchor) not in anchors[target.resolve()]):
                dead.append(f"{name}: {link}")
    assert dead == []


def test_nothing_is_fetched_from_the_network(site):
    fetched = [(name, source) for name, page in site.items() for source in page.fetched]
    assert [pair for pair in fetched if re.match(r"(https?:)?//", pair[1])] == []
    assert fetched


def test_docstrings_are_no_longer_restructured_text(site):
    reference = {name: page for name, page in site.items() if name.startswith("reference/")}
    for name, page in reference.items():
        text = "".join(page.text)
        left = re.findall(r":\w+:`.*|``.*|\.\. \w+::.*|\$[^$]+\$|>>> .*|\\[a-z]+.*", text)
        assert left == [], name
    assert sum(page.math for page in reference.values()) > 20


def test_every_public_name_is_in_the_reference(site):
    anchors = set().union(*(page.anchors for page in site.values()))
    modules = (vg, vg.metrics, vg.baselines, testing)
    things = {getattr(module, name) for module in modules for name in module.__all__}
    named = {f"{t.__module__}.{t.__qualname__}" for t in things if hasattr(t, "__qualname__")}
    errors = {
        t for t in vars(vg.errors).values() if getattr(t, "__module__", "") == vg.errors.__name__
    }
    plots = {
        t for t in vars(vg.plots).values() if getattr(t, "__module__", "") == vg.plots.__name__
    }
    shown = {f"{t.__module__}.{t.__name__}" for t in errors | plots if t.__name__[0] != "_"}
    assert named | shown <= anchors


def test_every_verb_has_a_section_with_its_options(site):
    commands = dict(typer.main.get_command(app).commands)
    commands |= {f"study-{name}": verb for name, verb in commands.pop("study").commands.items()}
    page = site["command-line.html"]
    assert set(commands) <= page.anchors
    source = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    shown = {name.replace(" ", "-") for name in re.findall(r"<!-- options: (.+) -->", source)}
    assert shown == set(commands)
    html = page.path.read_text(encoding="utf-8")
    for name, verb in commands.items():
        missing = [opt for p in verb.params for opt in p.opts[:1] if opt.startswith("--")]
        assert [option for option in missing if f"<code>{option}</code>" not in html] == [], name


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_pictures_are_small_and_shown(path):
    limit = {".svg": 60_000, ".png": 150_000}[path.suffix]
    assert path.stat().st_size < limit
    pages = (page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert any(f"pictures/{path.name}" in page for page in pages)
