"""Documents and examples outside docs/, as pages of the site.

A hook of mkdocs. Links stay as they are in the repository, where they lead to the file itself;
in the site they lead to its page.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import join, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
#: Pages by their file in the repository.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples/README.md",
}
#: Files that pages link to, or show.
EXAMPLES = (".ipynb", ".png", ".py")
LINK = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for path in sorted((ROOT / "examples").iterdir()):
        if path.suffix in EXAMPLES:
            place = f"examples/{path.name}"
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    here = repository_path(page.file.src_uri)
    return LINK.sub(lambda found: found[1] + link(found[2], here, page.file.src_uri), markdown)


def link(target: str, here: str, page: str) -> str:
    """The same target, seen from the page instead of from the file ``here``."""
    file = normpath(join(here, "..", target))
    return relpath(PAGES.get(file, file.removeprefix("docs/")), join(page, ".."))


def repository_path(page: str) -> str:
    sources = {page: source for source, page in PAGES.items()}
    return sources.get(page, f"docs/{page}")
