import builtins

import pytest
from typer.testing import CliRunner

from varigraph import __main__
from varigraph.cli import app


def test_version():
    version = CliRunner().invoke(app, ["--version"])
    assert version.exit_code == 0
    assert version.stdout.startswith("varigraph ")


@pytest.mark.parametrize("verb", ["run", "audit", "links"])
def test_help_ends_with_an_example(verb):
    usage = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "120"})
    assert usage.exit_code == 0
    assert f"Example: varigraph {verb} " in usage.stdout
    assert "--json" in usage.stdout


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
