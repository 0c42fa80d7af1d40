"""Resolves the set-up for every system and Python that we promise; nothing is installed.

From the root of the repository, in a few minutes, with a connection to a package index:

    python scripts/resolve.py

pip takes its settings from where it always does; PIP_CONFIG_FILE=/dev/null asks for none. The torch
of macOS on Intel ended with 2.2, so that machines of that kind are not among the systems.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
#: What is set up: by `make run`, and by `make test`.
EXTRAS = ("cli", "dev")
#: Resolutions at a time; they wait for the network most of the time.
AT_A_TIME = 4
#: pip --platform chooses among wheels but judges markers by the machine it runs on, hence this.
AS_ELSEWHERE = """\
import sys
from pip._internal.cli.main import main
from pip._vendor.packaging import markers

here = markers.default_environment()
markers.default_environment = lambda: {**here, **ELSEWHERE}
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class System:
    """A kind of machine: its name, the wheels it takes, and what markers ask about it."""

    name: str
    wheels: tuple[str, ...]
    markers: dict[str, str]


#: The oldest system of each kind that torch has wheels for.
SYSTEMS = (
    System(
        "Linux x86-64 (glibc 2.28)",
        (
            *(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)),
            *(f"manylinux{name}_x86_64" for name in ("2014", "2010", "1")),
        ),
        {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"},
    ),
    System(
        "macOS 14 arm64",
        ("macosx_14_0_arm64",),  # pip adds the older ones by itself
        {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64"},
    ),
)


def current_pip(folder: Path) -> Path:
    """The Python of an environment with the newest pip: older ones download what they resolve."""
    venv.create(folder, with_pip=True)
    python = next(folder.glob("[bS][ic][nr]*/python*"))
    install = ("-m", "pip", "install", "--quiet", "--upgrade", "pip")
    subprocess.run([python, *install], check=True)
    return python


def resolved(python: Path, system: System, version: str, extra: str) -> str:
    """An empty text, or what pip said when it found no set of versions that fit together."""
    elsewhere = {
        **system.markers,
        "python_version": version,
        "python_full_version": f"{version}.0",  # the first of its series is the hardest
    }
    with TemporaryDirectory() as nowhere:
        options = [
            *("install", "--dry-run", "--ignore-installed", "--target", nowhere),
            *("--use-feature", "fast-deps", "--only-binary", ":all:"),
            *("--python-version", version, *_each("--platform", system.wheels)),
            *("--constraint", str(ROOT / "constraints.txt"), f"{ROOT}[{extra}]"),
        ]
        code = AS_ELSEWHERE.replace("ELSEWHERE", repr(elsewhere))
        done = subprocess.run(
            [python, "-c", code, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # pip says to the one that it failed, to the other why
            text=True,
            check=False,
        )
    return "" if done.returncode == 0 else done.stdout[done.stdout.find("ERROR") :]


def _each(option: str, values: Iterable[str]) -> Iterator[str]:
    return (word for value in values for word in (option, value))


def main() -> int:
    """How many of the set-ups cannot be resolved."""
    cases = list(product(SYSTEMS, PYTHONS, EXTRAS))
    with TemporaryDirectory() as folder, ThreadPoolExecutor(AT_A_TIME) as pool:
        python = current_pip(Path(folder))
        found = pool.map(lambda case: resolved(python, *case), cases)
        complaints = []
        for (system, version, extra), complaint in zip(cases, found, strict=True):
            verdict = "no set of versions fits" if complaint else "resolved"
            print(f"{system.name}, Python {version}, [{extra}]: {verdict}", flush=True)
            complaints += [complaint] if complaint else []
    sys.stderr.writelines(complaints)
    return len(complaints)


if __name__ == "__main__":
    sys.exit(main())
