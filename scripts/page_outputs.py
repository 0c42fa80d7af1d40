"""The code of the documents, run in order: Python in one namespace per page, commands besides.

    python scripts/page_outputs.py docs/start.md ...   # writes what is printed into the pages

A block of `text` right after one of `python` is what that prints. In a block of `console`, lines
that begin with `varigraph` or `$ varigraph` are commands, and what follows `$ varigraph ...` is
what it prints. tests/test_pages.py runs the same and compares, numbers aside.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(\$ )?(varigraph .*)$")
#: Commands that are shown but not run, and why.
NOT_RUN = {
    "varigraph run cora": "50 epochs; the command-line page runs it with 2",
    "varigraph links cora --method hadamard": "half a minute; tests/cli runs it on a small graph",
    "varigraph bench cora": "some minutes; tests/cli runs it with few masks",
    "varigraph study paper --quick": "a minute or two; tests/cli runs a part of it",
    "varigraph study paper --quick --table 4 --method mine.py:Mine": "the same; tests/studies do",
}
#: Columns that a table may take in a page.
WIDTH = "100"
Command = Callable[[list[str]], str]


@dataclass
class Block:
    """A fenced block of a page."""

    kind: str
    text: str
    start: int  # of its first line in the page, counted from 0
    span: tuple[int, int]  # of its text, in characters of the page


@dataclass
class Output:
    """What a page shows, and what the code before it printed."""

    span: tuple[int, int]
    shown: str
    printed: str
    command: str = ""


@dataclass
class PageRun:
    """One run of the code of a page, in the present folder.

    Args:
        name: of the page.
        command: runs the arguments of one command and returns what it prints.
    """

    name: str
    command: Command
    module: ModuleType = field(init=False)

    def outputs(self, page: str) -> Iterator[Output]:
        """Runs everything, and gives the outputs that the page shows."""
        self._open(page)
        printed = ""
        for block in blocks(page):
            if block.kind == "python":
                printed = self._python(block)
            elif block.kind == "console":
                yield from self._console(block)
            elif block.kind == "text" and printed:
                yield Output(block.span, block.text, printed)
                printed = ""

    def _open(self, page: str) -> None:
        # A file with every line where it stands in the page, for tracebacks and for
        # torch_geometric, which reads the source of layers.
        lines = [""] * (page.count("\n") + 1)
        for block in blocks(page):
            if block.kind == "python":
                code = block.text.splitlines()
                lines[block.start : block.start + len(code)] = code
        stem = re.sub(r"\W", "_", Path(self.name).stem)
        file = Path(f"{stem}_page.py").absolute()
        file.write_text("\n".join(lines), encoding="utf-8")
        self.module = ModuleType(file.stem)
        self.module.__file__ = str(file)
        sys.modules[file.stem] = self.module

    def _python(self, block: Block) -> str:
        code = compile("\n" * block.start + block.text, str(self.module.__file__), "exec")
        with redirect_stdout(io.StringIO()) as printed:
            exec(code, self.module.__dict__)
        return printed.getvalue()

    def _console(self, block: Block) -> Iterator[Output]:
        place, begun = block.span[0], ""
        lines = block.text.splitlines(keepends=True)
        for number, line in enumerate(lines):
            place += len(line)
            if line.endswith("\\\n"):  # the command goes on in the next line
                begun += line[:-2]
                continue
            found, begun = COMMAND.match((begun + line).strip()), ""
            if not found or found[2].split("#")[0].strip() in NOT_RUN:
                continue
            printed = self.command(shlex.split(found[2], comments=True)[1:])
            if found[1]:
                following = lines[number + 1 :]
                ends = (n for n, later in enumerate(following) if later.startswith("$ "))
                shown = "".join(following[: next(ends, len(following))])
                yield Output((place, place + len(shown)), shown, printed, found[2])


def blocks(page: str) -> list[Block]:
    return [
        Block(found[1], found[2], page[: found.start(2)].count("\n"), found.span(2))
        for found in FENCE.finditer(page)
    ]


def commands(page: str) -> list[str]:
    """Every line of its console blocks that is a command or looks like one."""
    lines = (line for block in blocks(page) if block.kind == "console" for line in console(block))
    return [line.split("#")[0].strip() for line in lines]


def console(block: Block) -> list[str]:
    lines = block.text.replace("\\\n", "").splitlines()
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return prompted or [line for line in lines if line.strip()]


def command_line(arguments: list[str]) -> str:
    from typer.testing import CliRunner  # noqa: PLC0415 - both come with the optional [cli]

    from varigraph.cli import app  # noqa: PLC0415

    done = CliRunner().invoke(app, arguments, env={"COLUMNS": WIDTH, "TERMINAL_WIDTH": WIDTH})
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def main() -> None:
    for path in [Path(name).absolute() for name in sys.argv[1:]]:
        page = path.read_text(encoding="utf-8")
        with TemporaryDirectory() as folder:
            os.chdir(folder)
            outputs = list(PageRun(path.name, command_line).outputs(page))
            os.chdir(path.parent)
        for output in reversed(outputs):
            start, end = output.span
            printed = "\n".join(line.rstrip() for line in output.printed.rstrip().splitlines())
            page = page[:start] + printed + "\n" + page[end:]
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
