"""Builds the documentation as a site with search into build/docs: `make docs`.

The pages are those of docs/ with README.md, CONTRIBUTING.md and CHANGELOG.md; the navigation is
docs/index.md. The site reads nothing from a network, and its search works from the disk.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "build" / "docs"
BESIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
}
"""Pages beside docs/, and their names in the site."""
CONTENTS = "contents.md"
"""The name of docs/index.md in the site."""
SHIM = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
WORKER = ROOT / ".ci" / "site_worker.js"
"""Takes its place, so that search needs no network."""
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")


def pages(folder: Path) -> None:
    """Writes every page of the site, with links that lead on within it."""
    shutil.copytree(ROOT / "docs", folder, dirs_exist_ok=True)
    (folder / "index.md").rename(folder / CONTENTS)
    for page in [*folder.rglob("*.md")]:
        up = "../" * (len(page.relative_to(folder).parts) - 1)
        page.write_text(linked(page.read_text("utf-8"), up), "utf-8")
    for name, page_name in BESIDE.items():
        (folder / page_name).write_text(linked((ROOT / name).read_text("utf-8"), ""), "utf-8")
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")


def linked(page: str, up: str) -> str:
    """A page with the places of links as the site has them."""

    def place(found: re.Match[str]) -> str:
        name = found[1].removeprefix(f"{up}../").removeprefix("docs/")
        if name == f"{up}index.md":
            name = up + CONTENTS
        return f"]({up + BESIDE[name] if name in BESIDE else name}"

    return LINK.sub(place, page)


def navigation(index: str) -> Iterator[dict[str, Any]]:
    yield {"Home": "index.md"}
    yield {"Contents": CONTENTS}
    for part in re.split(r"^## ", index, flags=re.M)[1:]:
        title, _, listed = part.partition("\n")
        links = re.findall(r"\[([^\]]+)\]\(([\w/.-]+\.md)\)", listed)
        yield {title: [{name.strip("`"): BESIDE.get(Path(to).name, to)} for name, to in links]}


def main() -> int:
    with TemporaryDirectory() as place:
        folder = Path(place, "pages")
        pages(folder)
        settings = {
            "site_name": "ragbench",
            "docs_dir": str(folder),
            "site_dir": str(TARGET),
            "use_directory_urls": False,
            "theme": {"name": "material", "font": False, "features": ["content.code.copy"]},
            "plugins": ["search", "offline"],
            "markdown_extensions": [
                "tables",
                "fenced_code",
                {"toc": {"permalink": True}},
                "attr_list",
            ],
            "nav": [*navigation((ROOT / "docs" / "index.md").read_text("utf-8"))],
            "validation": {"links": {"anchors": "warn"}},
        }
        config = Path(place, "mkdocs.yml")
        config.write_text(json.dumps(settings), "utf-8")  # which is YAML, too
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"]
        quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        done = subprocess.run([*command, "--config-file", str(config)], env=quiet, check=False)
    script = f"<script>{WORKER.read_text('utf-8')}</script>"
    for page in TARGET.rglob("*.html"):
        page.write_text(page.read_text("utf-8").replace(SHIM, script), "utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
