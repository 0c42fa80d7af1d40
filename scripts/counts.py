"""Counts that tell whether the house is in order: files, lines, what a call opens, what is named.

python scripts/counts.py            # this checkout
python scripts/counts.py OTHER      # another one, before and after a change
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

METHODS = ("first-order", "covariance", "diagonal", "sampled")
#: Operators of the record of a pass, by which nobody is to decide what to do.
OPERATORS = frozenset(["Dense", "Scale", "Columns", "Sum"])
SOURCES = frozenset(["features", "links", "weights"])
SHORT = 60
KEYED_BY_ID = re.compile(r"(?<![\w.])id\(|map\(id,")

#: Runs in a process of its own: the other checkout may hold other modules of the same names.
OPENED = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import torch, varigraph as vg
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
links = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
graph = Data(x=torch.rand(4, 5), edge_index=links, x_var=0.1, edge_prob=torch.full((6,), 0.9))
model = GraphSAGE(5, 8, 2, 3, dropout=0.5)
vg.predict(model, graph, method=sys.argv[2], samples=4, links="bernoulli")  # imports
opened = set()
sys.setprofile(lambda frame, event, arg: opened.add(frame.f_code.co_filename))
vg.predict(model, graph, method=sys.argv[2], samples=4, links="bernoulli")
sys.setprofile(None)
print("\\n".join(sorted(name for name in opened if name.startswith(sys.argv[1]))))
"""


def main() -> None:
    """Print all counts of a checkout."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
    package = root / "src" / "varigraph"
    files = sorted(package.rglob("*.py"))
    sizes = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    print(f"files                            {len(files):6,}")
    print(f"  in studies/                    {sum('studies' in f.parts for f in files):6,}")
    chapters = [size for file, size in sizes.items() if file.name != "__init__.py"]
    print(f"  of fewer than {SHORT} lines          {sum(size < SHORT for size in chapters):6,}")
    print(f"lines                            {sum(sizes.values()):6,}")
    print(f"  median of a file               {sorted(chapters)[len(chapters) // 2]:6,}")
    for method in METHODS:
        opened = _opened(package.parent, method)
        lines = sum(sizes[Path(name)] for name in opened)
        print(f"opened by {method:<22} {len(opened):6,}   {lines:6,} lines")
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
    print(f"isinstance over operators        {sum(map(_ladders, trees.values())):6,}")
    outside = {file: tree for file, tree in trees.items() if file.parent.name != "sources"}
    print(f"literals that name a source      {sum(map(_literals, outside.values())):6,}")
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    print(f"id(                              {len(KEYED_BY_ID.findall(text)):6,}")


def _opened(source: Path, method: str) -> list[str]:
    """Files of the package in which a prediction calls anything."""
    command = [sys.executable, "-c", OPENED, str(source), method]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()


def _ladders(tree: ast.Module) -> int:
    """Calls of ``isinstance`` that ask for an operator."""
    return sum(
        isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and any(name in OPERATORS for name in _names(node.args[1]))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and len(getattr(node, "args", ())) == 2
    )


def _names(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def _literals(tree: ast.Module) -> int:
    """Strings that are the name of a source, whatever they mean where they stand."""
    return sum(
        isinstance(node, ast.Constant) and node.value in SOURCES
        for node in ast.walk(tree)
        if isinstance(getattr(node, "value", None), str)
    )


if __name__ == "__main__":
    main()
