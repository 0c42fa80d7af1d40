"""The code of the documents runs, and prints what they show: words as shown, numbers aside."""

import importlib.util
import re
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from varigraph.moments.registry import FUNCTIONS, LAYERS
from varigraph.prediction.sources.source import SOURCES

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
WITH_CODE = [
    path
    for path in PAGES
    if re.search(r"^```(python|console)$", path.read_text(encoding="utf-8"), re.MULTILINE)
]
#: What prepares or builds, and is not ours to test.
OTHER_PROGRAMS = ("cd ", "git ", "make ", "pip ", "python ", "torchrun ")
NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")


@pytest.fixture(scope="module")
def runner():
    script = ROOT / "scripts" / "page_outputs.py"
    spec = importlib.util.spec_from_file_location("page_outputs", script)
    module = sys.modules["page_outputs"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["page_outputs"]


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def words(text):
    """The text without its numbers and the spaces and rules that depend on their width."""
    without = NUMBER.sub("#", text)
    return [word for word in re.sub(r"[─━]+", " ", without).split() if word != "…"]


@pytest.mark.parametrize("path", WITH_CODE, ids=name_of)
def test_code_runs_and_prints_what_is_shown(path, runner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = path.read_text(encoding="utf-8")
    run = runner.PageRun(path.name, runner.command_line)
    # Rules and sources of the examples go with them.
    with patch.dict(FUNCTIONS), patch.dict(LAYERS), patch.dict(SOURCES):
        for output in run.outputs(page):
            assert words(output.shown) == words(output.printed), output.command
    del sys.modules[run.module.__name__]


@pytest.mark.parametrize("path", WITH_CODE, ids=name_of)
def test_every_command_is_run_or_listed(path, runner):
    for command in runner.commands(path.read_text(encoding="utf-8")):
        known = command.startswith(("varigraph ", *OTHER_PROGRAMS))
        assert known, f"neither run nor among the programs that are left out: {command}"


def test_what_is_not_run_is_shown_somewhere(runner):
    shown = {
        command for path in PAGES for command in runner.commands(path.read_text(encoding="utf-8"))
    }
    assert set(runner.NOT_RUN) <= shown


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_lines_stay_where_they_are(runner):
    page = "text\n```python\na = 1\n```\ntext\n```console\n$ varigraph data\nCora\n```\n"
    python, console = runner.blocks(page)
    assert (python.kind, python.text, python.start) == ("python", "a = 1\n", 2)
    assert (console.kind, console.start) == ("console", 6)
    assert runner.commands(page) == ["varigraph data"]


def test_an_output_is_what_follows_its_command(runner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "```console\n$ varigraph \\\n  a\none\n$ varigraph b\ntwo\nthree\n```\n"
    outputs = list(runner.PageRun("p.md", lambda arguments: arguments[0]).outputs(page))
    assert [output.shown for output in outputs] == ["one\n", "two\nthree\n"]
    assert [output.printed for output in outputs] == ["a", "b"]
    assert [page[slice(*output.span)] for output in outputs] == ["one\n", "two\nthree\n"]


def test_numbers_do_not_count_and_words_do():
    assert words("AUC 0.94 in 27 s") == words("AUC  0.95 in 3 s")
    assert words("AUC 0.94") != words("ECE 0.94")
