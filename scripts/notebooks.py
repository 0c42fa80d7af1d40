"""Makes examples/*.ipynb from examples/*.py: the same cells, run, with what they print and draw.

A script is the source: its cells begin with ``# %%``, and those with ``[markdown]`` are text. All
are run in a folder that is thrown away, so that nothing but notebooks and the figures in
examples/README.md is written. proteins.py reads its data from ``$VARIGRAPH_DATA``.

    python scripts/notebooks.py            # all of them, two or three minutes
    python scripts/notebooks.py sensors    # one
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import jupytext
import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
FIGURES = ("grid.png", "molecules.png", "sensors.png")
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
QUIET = {"PYTHONWARNINGS": "ignore:IProgress not found"}  # progress bars are not needed here


def notebook(script: Path) -> nbformat.NotebookNode:
    """The cells of a script, not yet run; the same script gives the same notebook."""
    cells = jupytext.read(script).cells
    for place, cell in enumerate(cells):
        cell.id = f"cell-{place}"  # otherwise random
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})


def executed(script: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of its cells, run from top to bottom in a folder."""
    book = notebook(script)
    client = NotebookClient(
        book,
        timeout=None,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env={**os.environ, **QUIET})
    book.metadata.pop("language_info")  # names the exact Python of whoever ran it
    return book


def main() -> None:
    names = sorted(script.stem for script in EXAMPLES.glob("*.py"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(names)}")
    for name in parser.parse_args().names or names:
        with TemporaryDirectory() as folder:
            book = executed(EXAMPLES / f"{name}.py", Path(folder))
            nbformat.write(book, EXAMPLES / f"{name}.ipynb")
            for figure in (Path(folder) / figure for figure in FIGURES):
                if figure.exists():
                    shutil.copy(figure, EXAMPLES)
        print(EXAMPLES / f"{name}.ipynb")


if __name__ == "__main__":
    main()
