"""Mistakes in a few words or, under --json, as JSON; names of users are shown and never obeyed."""

import io
import json
import sys

import pytest
import typer
from typer.testing import CliRunner

from cli.test_app import COMMANDS, LEAVES
from varigraph import __main__
from varigraph.cli import app
from varigraph.cli.mistakes import SAME, as_options, explained

#: A mistake for each verb that is found before any work.
MISTAKES = {
    "predict": ("nowhere.py:build", "cora"),
    "explain": ("nowhere.py:build", "cora"),
    "calibrate": ("nowhere.py:build", "cora"),
    "check": ("nowhere.py:build",),
    "data": ("coral",),
    "links": ("coral",),
    "partition": ("nowhere.npy", "--parts", "2", "--out", "parts"),
    "run": ("coral",),
    "audit": ("nowhere.py:build", "cora"),
    "bench": ("coral",),
    "report": ("nowhere",),
    "study paper": ("--table", "9"),
    "study sensitivity": ("coral",),
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def told(*arguments):
    """What a refused command says as JSON."""
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 2
    assert done.stderr == ""
    error = json.loads(done.stdout)["error"]
    assert set(error) == {"kind", "message", "remedy"}
    return error


def test_every_verb_has_a_mistake_here():
    assert {" ".join(path) for path in LEAVES} == set(MISTAKES)


@pytest.mark.parametrize("verb", MISTAKES)
def test_a_mistake_is_json_under_json(verb):
    error = told(*verb.split(), *MISTAKES[verb])
    assert error["kind"].endswith("Error")
    assert error["message"]
    assert error["remedy"]


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_an_unknown_option_is_json_under_json(path):
    error = told(*path, "--nonsense")
    assert error["kind"] == "UsageError"
    assert "--nonsense" in error["message"]
    assert error["remedy"].endswith(" ".join((*path, "--help")))


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["run", "--samples", "many"], "--samples"),
        (["predict"], "MODEL"),
        (["nonsense"], "nonsense"),
        ([], "--json"),
    ],
    ids=["no number", "no model", "no verb", "nothing"],
)
def test_a_command_that_cannot_be_read_is_json_under_json(arguments, culprit):
    assert culprit in told(*arguments)["message"]


def test_json_leaves_the_exit_codes_of_good_commands():
    done = CliRunner().invoke(app, ["data", "cora", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["name"] == "cora"


def test_a_folder_may_be_called_as_it_likes():
    folder = "a[/y]b [red]c:heart:d"
    command = ["run", "cora", "--epochs", "1", "--samples", "2", "--out", folder]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == f"{folder}/report.html"


@pytest.mark.usefixtures("quick")
def test_a_file_of_links_may_be_called_as_it_likes(link_file, tmp_path):
    path = link_file.rename(tmp_path / "a[red]b.txt")
    done = CliRunner().invoke(app, ["links", str(path), "--folds", "2", "--out", "x[/y]z"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("a[red]b, ")
    assert done.stdout.splitlines()[-1] == "x[/y]z/links.csv"


def test_signs_that_the_terminal_lacks_are_spelt_out(monkeypatch):
    screen = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(screen, encoding="ascii"))
    __main__.spell_out()
    print("–", flush=True)
    assert screen.getvalue() == b"\\u2013\n"


def test_a_package_that_only_the_work_needs_is_named(capsys):
    with pytest.raises(typer.Exit) as exit_, explained(as_json=True):
        raise ModuleNotFoundError(name="matplotlib")
    assert exit_.value.exit_code == 2
    assert json.loads(capsys.readouterr().out)["error"] == {
        "kind": "VarigraphError",
        "message": "matplotlib is missing",
        "remedy": 'pip install "varigraph[cli]"',
    }


def test_other_packages_that_are_missing_are_not_hidden():
    with pytest.raises(ModuleNotFoundError), explained():
        raise ModuleNotFoundError(name="theirs")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("seed=-1 is negative", "--seed -1 is negative"),
        ('give method="sampled"', 'give --method "sampled"'),
        ("GCN(16, dropout=0.5)", "GCN(16, dropout=0.5)"),
        ("GCN(dropout=0.5)", "GCN(dropout=0.5)"),
        ("reseed=1", "reseed=1"),
        ("score=3, or score=False if none is", "--score 3, or --score none if none is"),
        ("give that as scale=", "give that as --scale"),
    ],
)
def test_options_are_named_as_they_are_typed(text, shown):
    assert as_options(text) == shown


def test_names_of_options_are_those_of_the_verbs():
    typed = {name for path in LEAVES for each in COMMANDS[path].params for name in each.opts}
    assert {f"--{name}" for name in SAME.split()} <= typed
