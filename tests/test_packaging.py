"""What is handed on: pins that fit, licences that are allowed, an sdist that lacks nothing."""

import importlib.util
import subprocess
import sys
import tarfile
from importlib.metadata import Distribution, metadata, requires, version
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import varigraph

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "constraints.txt").read_text(encoding="utf-8")
PINS = [Requirement(line) for line in TEXT.splitlines() if line and not line.startswith("#")]
#: Patches matter: some packages want 3.11.5, and Debian 12 has 3.11.2.
PYTHONS = ("3.10.0", "3.11.2", "3.11.9", "3.12.0", "3.13.0")


def script(name):
    """A file of scripts/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


licences, resolve = script("licences"), script("resolve")


def pinned(python, system):
    """The versions that hold on a system, by name; more than one where lines overlap."""
    env = {
        **system.markers,
        "python_full_version": python,
        "python_version": ".".join(python.split(".")[:2]),
    }
    found = {}
    for pin in PINS:
        if pin.marker is None or pin.marker.evaluate(env):
            found.setdefault(canonicalize_name(pin.name), []).append(pin)
    return found


def test_nothing_is_pinned_that_torch_decides():
    names = {canonicalize_name(pin.name) for pin in PINS}
    assert "torch" in names
    decided = ("triton", "pytorch-triton", "nvidia-", "cuda-", "setuptools")
    assert not [name for name in names if name.startswith(decided)]


@pytest.mark.parametrize("system", resolve.SYSTEMS, ids=lambda system: system.name)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_pin_is_one_version_within_our_own_bounds(python, system):
    pins = pinned(python, system)
    assert {name: lines for name, lines in pins.items() if len(lines) > 1} == {}
    bounds = [Requirement(line) for line in requires("varigraph")]
    names = {bound.name for bound in bounds} - {"varigraph", "triton"}
    assert names <= {pin.name.replace("_", "-").lower() for (pin,) in pins.values()}
    for bound in bounds:
        for pin in pins.get(canonicalize_name(bound.name), []):
            (exact,) = pin.specifier
            assert exact.operator == "=="
            assert Version(exact.version) in bound.specifier, f"{pin} is not {bound}"


PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "theirs"
version = "1"
dependencies = ["built==2; sys_platform == 'darwin'", "built==3; python_version < '3.11'"]
[tool.hatch.build.targets.wheel]
bypass-selection = true
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """A project whose constraints do not fit macOS or Python 3.10; nothing needs a network."""
    (tmp_path / "constraints.txt").write_text("built==1\n")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    with ZipFile(tmp_path / "built-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            "built-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: built\nVersion: 1\n"
        )
        wheel.writestr("built-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("built-1.dist-info/RECORD", "")
    monkeypatch.setattr(resolve, "ROOT", tmp_path)
    offline = {"NO_INDEX": "1", "NO_BUILD_ISOLATION": "0", "FIND_LINKS": str(tmp_path)}
    for name, value in offline.items():
        monkeypatch.setenv(f"PIP_{name}", value)


@pytest.mark.usefixtures("theirs")
def test_set_ups_are_resolved_for_the_system_that_is_asked_about():
    linux, mac = resolve.SYSTEMS
    assert resolve.resolved(Path(sys.executable), linux, "3.12", "cli") == ""
    assert "built==3" in resolve.resolved(Path(sys.executable), linux, "3.10", "cli")
    assert "built==2" in resolve.resolved(Path(sys.executable), mac, "3.12", "cli")


def test_all_licences_are_allowed():
    found = licences.licences()
    assert {"torch", "numpy", "typer", "mkdocs", "pytest"} <= set(found)  # each extra is walked
    assert [item for item in found.items() if not licences.allowed(*item)] == []


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("License-Expression: MIT OR GPL-3.0-only", True),
        ("License-Expression: MIT AND GPL-3.0-only", False),
        ("License-Expression: Apache-2.0 WITH LLVM-exception", True),
        ("License: LGPL-2.1-or-later", False),
        ("License: Apache 2.0", True),
        ("Classifier: License :: OSI Approved :: GNU Affero General Public License v3", False),
        ("Classifier: License :: OSI Approved :: BSD License", True),
        ("Summary: says nothing", False),
    ],
)
def test_copyleft_and_silence_are_refused(said, verdict, tmp_path):
    (tmp_path / "METADATA").write_text(f"Metadata-Version: 2.4\nName: x\n{said}\n")
    expression = licences.licence(Distribution.at(tmp_path))
    assert licences.allowed("x", expression) == verdict


def test_the_sdist_has_every_file_of_the_repository(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: what is tracked is not known")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "sdist"]
    subprocess.run([*build, "--directory", tmp_path], cwd=ROOT, check=True, capture_output=True)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    tracked = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        carried = {name.split("/", 1)[1] for name in content.getnames()}
    there = {name for name in tracked.splitlines() if (ROOT / name).exists()}
    assert carried - {"PKG-INFO"} == there
    assert {"Makefile", "constraints.txt", ".ci/run", "SECURITY.md"} <= carried


def test_the_metadata_is_complete():
    said = metadata("varigraph")
    assert said["Version"] == varigraph.__version__ == version("varigraph")
    assert said["License-Expression"] == "MIT AND Apache-2.0"
    assert said["Author"] == said["Maintainer"] == "varigraph contributors"
    assert said["Requires-Python"] == ">=3.10"
    assert said["Description-Content-Type"] == "text/markdown"
    named = {line.split(" :: ")[-1] for line in said.get_all("Classifier")}
    assert set(resolve.PYTHONS) <= named
