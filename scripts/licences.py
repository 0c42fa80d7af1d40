"""Prints the licence of everything we depend on, by its own metadata; refuses what is not allowed.

In an environment that has all extras:

    python scripts/licences.py

docs/decisions/0004-dependencies.md says what is allowed and why.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OURS = "varigraph"
#: Licences that ask for their notice and no more; MPL-2.0 asks for its own files as well.
ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "BSD",  # two or three clauses, not said which
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "LLVM-exception",
    "MIT",
    "MIT-CMU",
    "MPL-2.0",
    "PSF-2.0",
    "Zlib",
}
#: Packages that may have another licence, by how their names begin, and why.
EXCEPTIONS = {
    "nvidia-": "NVIDIA's own terms: libraries that torch's ordinary build for Linux brings along",
    "cuda-": "the same",
}
#: What metadata says in other words.
CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
OTHER_WORDS = {"Apache 2.0": "Apache-2.0"}
APPROVED, UNKNOWN = "License :: OSI Approved :: ", "not said"


def dependencies(name: str, extras: frozenset[str], found: dict[str, Distribution]) -> None:
    """Add a package, and all that it needs on this machine, to those that were found.

    Args:
        name: of the package.
        extras: of it that are asked for.
        found: packages by name and extras.
    """
    key = f"{canonicalize_name(name)}[{','.join(sorted(extras))}]"
    if key in found:
        return
    found[key] = distribution(name)
    for line in found[key].requires or ():
        needed = Requirement(line)
        if _applies(needed, extras):
            dependencies(needed.name, frozenset(needed.extras), found)


def _applies(needed: Requirement, extras: frozenset[str]) -> bool:
    marker = needed.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, ""))


def licence(package: Distribution) -> str:
    """The licence as an expression of SPDX, as far as the metadata goes.

    Args:
        package: an installed one.
    """
    lines = _fields(package, "Classifier")
    approved = [line.split(" :: ")[-1] for line in lines if line.startswith(APPROVED)]
    short = [OTHER_WORDS.get(text, text) for text in _fields(package, "License")]
    return (
        "".join(_fields(package, "License-Expression"))
        # Which of several holds is not said: all must be allowed.
        or " AND ".join(CLASSIFIERS.get(name, name) for name in approved)
        or "".join(text for text in short if "\n" not in text)  # some have the whole text here
        or UNKNOWN
    )


def _fields(package: Distribution, name: str) -> list[str]:
    return package.metadata.get_all(name) or []


def allowed(name: str, expression: str) -> bool:
    """Whether we may depend on a package.

    Args:
        name: of the package.
        expression: its licence; of alternatives one is enough.
    """
    if name.startswith(tuple(EXCEPTIONS)):
        return True
    return any(
        set(re.split(r" AND | WITH ", choice.strip("() "))) <= ALLOWED
        for choice in expression.split(" OR ")
    )


def licences() -> dict[str, str]:
    """The licence of each package that we need with all our extras, by name."""
    extras = _fields(distribution(OURS), "Provides-Extra")
    found: dict[str, Distribution] = {}
    dependencies(OURS, frozenset(extras), found)
    named = {key.split("[")[0]: package for key, package in found.items()}
    return {name: licence(named[name]) for name in sorted(named) if name != OURS}


def main() -> int:
    """How many packages have a licence that is not allowed."""
    refused = 0
    for name, expression in licences().items():
        fine = allowed(name, expression)
        refused += not fine
        print(f"{name}: {expression}{'' if fine else '  <- not allowed'}")
    return refused


if __name__ == "__main__":
    sys.exit(main())
