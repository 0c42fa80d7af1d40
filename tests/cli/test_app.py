import ast
import builtins
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import typer
from typer.testing import CliRunner

import varigraph
from varigraph import __main__
from varigraph.choices import DATASETS, Method
from varigraph.cli import app
from varigraph.data.data_sets import DATA_SETS
from varigraph.prediction.predict import METHODS

WIDE = {"COLUMNS": "400", "TERMINAL_WIDTH": "400"}


def verbs(command, *path):
    """Names of all verbs, and of those below them, with their commands."""
    for name, below in getattr(command, "commands", {}).items():
        yield (*path, name), below
        yield from verbs(below, *path, name)


COMMANDS = dict(verbs(typer.main.get_command(app)))
LEAVES = [path for path, command in COMMANDS.items() if not hasattr(command, "commands")]


def usage_of(*path):
    usage = CliRunner().invoke(app, [*path, "--help"], env=WIDE)
    assert usage.exit_code == 0
    return " ".join(usage.stdout.split())


def example_of(command):
    (example,) = re.findall(r"Example: (varigraph .*)", command.epilog)
    return shlex.split(example)[1:]


def test_all_verbs_are_there():
    names = {path[0] for path in COMMANDS}
    graphs, paper = {"data", "links", "partition"}, {"run", "study", "bench"}
    yours = {"predict", "explain", "calibrate", "audit", "report", "check"}
    assert names == yours | graphs | paper


def test_version():
    version = CliRunner().invoke(app, ["--version"])
    assert version.exit_code == 0
    assert version.stdout.startswith("varigraph ")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_ends_with_an_example_that_can_be_parsed(path):
    assert f"Example: varigraph {path[0]} " in usage_of(*path)
    example = example_of(COMMANDS[path])
    assert tuple(example[: len(path)]) == path
    names = [name for name in LEAVES if tuple(example[: len(name)]) == name]
    assert names, "the example calls a verb"
    leaf = COMMANDS[names[0]]
    made = leaf.make_context("varigraph", example[len(names[0]) :])  # exits where it cannot be
    assert made.params


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_verb_speaks_json(path):
    assert "--json" in usage_of(*path)


def test_the_main_help_has_the_exit_codes_and_an_example():
    said = usage_of()
    assert "Exit codes: 0 fine; 1 " in said
    assert "2 a mistake" in said
    assert "130 interrupted" in said
    assert "Example: varigraph predict " in said
    assert "--install-completion" in said


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_an_unknown_option_is_a_mistake_without_a_traceback(path):
    done = CliRunner().invoke(app, [*path, "--nonsense"])
    assert done.exit_code == 2
    assert "nonsense" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("varigraph run ", set(DATASETS)),
        ("varigraph run ci", {"citeseer"}),
        ("varigraph data p", {"pubmed", "photo"}),
        ("varigraph predict a.py:f co", {"cora", "computers"}),
        ("varigraph predict a.py:f cora --method f", {"first-order"}),
        ("varigraph predict a.py:f cora --task r", {"regression"}),
        ("varigraph predict a.py:f cora --task b", {"binary"}),
        ("varigraph predict a.py:f cora --links ", {"removed", "bernoulli", "weight"}),
        ("varigraph audit --method d", {"diagonal"}),
        ("varigraph run cora --reading w", {"weight"}),
        ("varigraph study sensitivity --method s", {"sampled"}),
    ],
)
def test_the_shell_completes(words, offered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = {
        "_VARIGRAPH_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = CliRunner().invoke(app, [], prog_name="varigraph", env=env)
    assert set(done.stdout.split()) == offered


def test_files_are_completed_next_to_data_sets(tmp_path, monkeypatch):
    from varigraph.cli.options import graphs

    (tmp_path / "cover.npz").touch()
    monkeypatch.chdir(tmp_path)
    assert graphs("co") == ["cora", "computers", "cover.npz"]


AT_ONCE = """
import sys
from typer.testing import CliRunner
from varigraph.cli import app

for words in WORDS:
    assert CliRunner().invoke(app, words).exit_code == 0, words
env = {
    "_VARIGRAPH_COMPLETE": "complete_bash",
    "COMP_WORDS": "varigraph predict a.py:f cora --method f",
    "COMP_CWORD": "5",
}
completed = CliRunner().invoke(app, [], prog_name="varigraph", env=env)
assert completed.stdout.split() == ["first-order"]
slow = {"torch", "torch_geometric", "numpy", "scipy", "matplotlib"} & set(sys.modules)
assert not slow, slow
"""


def test_help_version_and_completion_do_without_torch():
    words = [["--version"], ["--help"], *([*path, "--help"] for path in COMMANDS)]
    code = f"WORDS = {words}\n{AT_ONCE}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_the_words_that_are_completed_are_those_that_are_known():
    assert ("cora", *DATA_SETS) == DATASETS
    assert get_args(Method) == tuple(METHODS)


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_what_is_not_installed_is_named(monkeypatch, capsys, missing):
    real = builtins.__import__

    def absent(name, *args, **options):
        if name == "varigraph.cli":
            raise ModuleNotFoundError(name=missing)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(SystemExit, match="2"):
        __main__.main()
    assert 'pip install "varigraph[cli]"' in capsys.readouterr().err


def test_what_only_some_verbs_need_is_imported_by_them_alone():
    package = Path(varigraph.__file__).parent
    files = [*package.glob("cli/**/*.py"), *package.glob("studies/**/*.py")]
    assert len(files) > 30
    for path in files:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:  # not within functions
            text = ast.unparse(node) if isinstance(node, (ast.Import, ast.ImportFrom)) else ""
            assert not re.search(r"\b(pyarrow|safetensors|plotly|pandas)\b", text), path
