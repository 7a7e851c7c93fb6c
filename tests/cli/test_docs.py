"""The generated pages say what the program says, and every link in the documentation leads on."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ragbench_cli.main import app

ROOT = Path(__file__).parents[2]
GENERATOR = ROOT / ".ci" / "generate_docs.py"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("name", ["cli.md", "metrics.md", "operators.md", "python.md"])
def test_a_generated_page_is_up_to_date(name: str) -> None:
    path = ROOT / "docs" / name
    expected: dict[Path, str] = runpy.run_path(str(GENERATOR))["pages"]()
    assert path.read_text("utf-8") == expected[path], f"run python {GENERATOR.relative_to(ROOT)}"


def test_the_index_lists_every_guide() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "index.md").read_text("utf-8")))
    there = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert there - listed == set(), "add them to docs/index.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        path = page.parent / target if target else page
        assert path.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(path), f"{page.name} links to {link}"


def commands(page: str) -> Iterator[list[str]]:
    """The arguments of each command of ragbench on a page, in blocks and in the text."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page, re.M | re.S)
    text = re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)
    lines = re.findall(r"^(?:\$ )?(ragbench .*)$", "\n".join(blocks).replace("\\\n", " "), re.M)
    inline = [" ".join(line.split()) for line in re.findall(r"`(ragbench [^`]+)`", text)]
    for line in [*lines, *(line for line in inline if "..." not in line)]:
        if "[OPTIONS]" in line:
            continue
        yield shlex.split(line.partition(" #")[0].partition(" > ")[0].partition(" | ")[0])[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_on_a_page_exists_with_its_options(page: Path) -> None:
    program: Any = typer.main.get_command(app)
    for arguments in commands(page.read_text("utf-8")):
        name, *rest = [each for each in arguments if each != "--traceback"]
        if name.startswith("-"):
            continue
        command = program.commands[name].loaded()
        if subcommands := getattr(command, "commands", None):
            if not rest:
                continue
            command, rest = subcommands[rest[0]], rest[1:]
        try:
            command.make_context(name, rest)
        except Exception as error:  # noqa: BLE001
            wrong = re.search("No such option|unexpected extra", str(error))
            assert wrong is None, f"ragbench {shlex.join(arguments)}: {error}"


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
