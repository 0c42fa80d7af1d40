"""Every Python block of the documents runs: in order, one namespace per document."""

import re
import runpy
from pathlib import Path
from unittest.mock import patch

import pytest

from varigraph.moments.registry import FUNCTIONS, LAYERS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/baselines.md",
    "docs/data.md",
    "docs/links.md",
    "docs/training.md",
]


def python_of(document):
    """The blocks alone, each line where it stands in the document, as tracebacks show it."""
    lines, inside = [], False
    for line in document.splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            line = ""  # noqa: PLW2901 - a fence is no code
        lines.append(line if inside else "")
    return "\n".join(lines)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_blocks_run(name, tmp_path, monkeypatch):
    code = python_of((ROOT / name).read_text(encoding="utf-8"))
    assert code.strip()
    script = tmp_path / Path(name).with_suffix(".py").name
    script.write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with patch.dict(FUNCTIONS), patch.dict(LAYERS):  # rules of the examples go with them
        runpy.run_path(str(script), run_name=script.stem)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_every_page_with_python_is_run():
    with_python = [path for path in PAGES if "```python" in path.read_text(encoding="utf-8")]
    assert sorted(with_python) == sorted(ROOT / name for name in DOCUMENTS)


def test_line_numbers_stay():
    assert (
        python_of("text\n```python\na = 1\n```\ntext\n```console\nls\n```")
        == "\n\na = 1" + "\n" * 5
    )
