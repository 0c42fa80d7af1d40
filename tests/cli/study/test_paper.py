import json
from functools import partial

import pytest
from typer.testing import CliRunner

from studies.comparison import fakes
from studies.comparison.tiny_computers import write_computers
from varigraph.cli import app
from varigraph.studies.comparison import study as studies

DATA = ["study", "paper", "--table", "1", "--quick"]


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Table 5 with fakes on a small Computers, in one process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("VARIGRAPH_UNCHECKED", "computers")
    root = write_computers(tmp_path / "root")
    real = studies.paper_study
    monkeypatch.setattr(studies, "paper_study", partial(real, methods=fakes.METHODS))
    options = {"table": 5, "seeds": 1, "samples": 3, "links": "none", "jobs": 1, "root": root}
    return [
        *("study", "paper", "--out", str(tmp_path / "study")),
        *(text for name, value in options.items() for text in (f"--{name}", str(value))),
    ]


def test_help_ends_with_an_example():
    usage = CliRunner().invoke(app, ["study", "paper", "--help"], env={"COLUMNS": "120"})
    assert usage.exit_code == 0
    assert "Example: varigraph study paper " in usage.stdout
    assert all(name in usage.stdout for name in ("--resume", "--quick", "--jobs", "--json"))


def test_the_first_table_needs_no_training(tmp_path):
    printed = CliRunner().invoke(app, [*DATA, "--out", str(tmp_path / "study")])
    assert printed.exit_code == 0, printed.output
    assert "5,278" in printed.stdout
    assert printed.stdout.splitlines()[-1] == str(tmp_path / "study")
    assert printed.stderr == ""


def test_a_line_for_every_piece_where_nobody_watches(command, tmp_path):
    printed = CliRunner().invoke(app, command)
    assert printed.exit_code == 0, printed.output
    lines = printed.stderr.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("cells/")
    assert "1 of 3, about 0 min left" in lines[0]
    assert lines[-1].endswith("3 of 3, all made")
    for part in ("paper protocol", "held-out", "calibration", "parts"):
        assert f"Computers, {part}" in printed.stdout or f": {part}" in printed.stdout


def test_a_second_call_is_refused_and_resumes_where_asked(command, explained, tmp_path):
    first = CliRunner().invoke(app, [*command, "--json"])
    said = explained(*command)
    assert "--resume" in said
    assert "--fresh" in said
    again = CliRunner().invoke(app, [*command, "--json", "--resume"])
    assert again.stderr == ""
    assert json.loads(again.stdout) == json.loads(first.stdout)
    assert json.loads(again.stdout)["folder"] == str(tmp_path / "study")
    assert CliRunner().invoke(app, [*command, "--fresh"]).exit_code == 0


def test_the_document_is_written_where_asked(command, tmp_path):
    path = tmp_path / "results.md"
    assert CliRunner().invoke(app, [*command, "--write-docs", str(path)]).exit_code == 0
    assert path.read_text() == (tmp_path / "study" / "tables.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"seeds": 5, "samples": 100, "links": "hadamard", "quick": False}),
        (["--quick"], {"seeds": 1, "samples": 20, "links": None, "quick": True}),
        (["--quick", "--seeds", "3"], {"seeds": 3, "samples": 20, "links": None, "quick": True}),
        (["--links", "none"], {"seeds": 5, "samples": 100, "links": None, "quick": False}),
    ],
)
def test_a_quick_look_has_its_own_defaults(arguments, expected, monkeypatch):
    given = {}

    def stop(*args, **options):
        given.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(studies, "paper_study", stop)
    stopped = CliRunner().invoke(app, ["study", "paper", *arguments])
    assert stopped.exit_code == 130
    assert "--resume" in stopped.stderr
    assert {name: given[name] for name in expected} == expected


@pytest.mark.parametrize(
    "mistake",
    [["--table", "9"], ["--seeds", "0"], ["--samples", "1"], ["--links", "maybe"], ["--jobs", "0"]],
)
def test_mistakes_are_explained_without_a_traceback(explained, mistake, tmp_path):
    explained(*DATA[:2], *mistake, "--out", tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_a_document_that_cannot_be_written_is_refused_before_the_work(explained, tmp_path):
    said = explained(
        *DATA, "--out", tmp_path / "study", "--write-docs", tmp_path / "none" / "results.md"
    )
    assert "there is no folder" in said
    assert not (tmp_path / "study").exists()
