"""examples/*.ipynb are the scripts of the same name, run; scripts/notebooks.py makes them."""

import base64
import importlib.util
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
TINY = '''# %% [markdown]
"""# A title

    python tiny.py
"""

# %%
from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

number: int | str = 6

# %% [markdown]
# Some *text*.


# %%
def double(value: int) -> int:
    """Twice as much."""
    return 2 * value


print(double(number) + 30)

# %%
figure, ax = plt.subplots(figsize=(1, 1))
figure.savefig("tiny.png")
'''


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "scripts" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stored(script):
    return nbformat.read(script.with_suffix(".ipynb"), as_version=4)


def code(book):
    return [cell for cell in book.cells if cell.cell_type == "code"]


def printed(book):
    outputs = [output for cell in code(book) for output in cell.outputs]
    return "".join(output.text for output in outputs if output.output_type == "stream")


def pictures(book):
    outputs = [output for cell in code(book) for output in cell.outputs]
    return [
        base64.b64decode(o.data["image/png"]) for o in outputs if "image/png" in o.get("data", {})
    ]


def test_every_script_has_its_notebook():
    assert [path.stem for path in sorted(EXAMPLES.glob("*.ipynb"))] == [s.stem for s in SCRIPTS]
    assert len(SCRIPTS) >= 3


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
class TestStored:
    def test_cells_are_those_of_the_script(self, maker, script):
        found, expected = stored(script), maker.notebook(script)
        for one, two in zip(found.cells, expected.cells, strict=True):
            assert (one.id, one.cell_type, one.source) == (two.id, two.cell_type, two.source)

    def test_all_of_the_script_is_in_it(self, maker, script):
        # An independent look: every line of code that is no comment stands in a code cell.
        lines = script.read_text(encoding="utf-8").split("# %%\n", 1)[1].splitlines()
        expected = [line for line in lines if line and not line.startswith("#")]
        source = "\n".join(cell.source for cell in code(stored(script)))
        assert [line for line in source.splitlines() if line] == expected

    def test_it_was_run_from_top_to_bottom(self, script):
        cells = code(stored(script))
        assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
        kinds = {output.output_type for cell in cells for output in cell.outputs}
        assert "error" not in kinds
        assert {output.get("name") for cell in cells for output in cell.outputs} <= {"stdout", None}
        assert printed(stored(script))

    def test_it_is_small_and_speaks_of_no_machine(self, script):
        text = script.with_suffix(".ipynb").read_text(encoding="utf-8")
        assert len(text) < 200_000
        assert all(len(picture) < 100_000 for picture in pictures(stored(script)))
        assert not re.search(r"/(home|root|tmp|usr|work)/", text)
        assert set(stored(script).metadata) == {"kernelspec"}


def test_lines_of_the_readme_were_printed():
    blocks = re.findall(r"```text\n(.*?)```", (EXAMPLES / "README.md").read_text("utf-8"), re.S)
    outputs = "".join(printed(stored(script)) for script in SCRIPTS).splitlines()
    assert len(blocks) == len(SCRIPTS)
    for line in "".join(blocks).splitlines():
        assert line in {*outputs, ""}


def test_links_of_the_readme_lead_somewhere():
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", (EXAMPLES / "README.md").read_text("utf-8"))
    assert targets
    assert [target for target in targets if not (EXAMPLES / target).exists()] == []


def test_a_script_is_run_in_a_folder(maker, tmp_path):
    script, folder = tmp_path / "tiny.py", tmp_path / "folder"
    script.write_text(TINY, encoding="utf-8")
    folder.mkdir()
    book = maker.executed(script, folder)
    assert [cell.cell_type for cell in book.cells] == [
        "markdown",
        "code",
        "markdown",
        "code",
        "code",
    ]
    assert book.cells[0].source == "# A title\n\n    python tiny.py"
    assert printed(book) == "42\n"
    assert len(pictures(book)) == 1
    assert [path.name for path in folder.iterdir()] == ["tiny.png"]
    nbformat.validate(book)
