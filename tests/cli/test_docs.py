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
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.mark.parametrize("name", ["cli.md", "metrics.md", "operators.md", "python.md"])
def test_a_generated_page_is_up_to_date(name: str) -> None:
    path = ROOT / "docs" / name
    generator = runpy.run_path(str(GENERATOR))

    expected: dict[Path, str] = generator["pages"]()

    way_on = f"run python {GENERATOR.relative_to(ROOT)}"
    assert path.read_text("utf-8") == expected[path], way_on


def test_the_index_lists_every_guide() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", index))

    guides = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert guides - {"index.md"} - listed == set(), "add them to docs/index.md"


# --- links


def anchors(path: Path) -> set[str]:
    """The names by which a page's headings are linked."""
    headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)
    names: set[str] = set()
    for heading in headings:
        letters = re.sub(r"[^\w\- ]", "", heading.lower())
        names.add(letters.replace(" ", "-"))
    return names


@EVERY_PAGE
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)

    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        path = page.parent / target if target else page
        assert path.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(path), f"{page.name} links to {link}"


# --- commands

FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def command_lines(page: str) -> Iterator[str]:
    """The commands of ragbench on a page, in blocks of code and in the text."""
    for block in FENCE.findall(page):
        on_one_line = block.replace("\\\n", " ")
        yield from re.findall(r"^(?:\$ )?(ragbench .*)$", on_one_line, re.MULTILINE)
    for code in re.findall(r"`(ragbench [^`]+)`", FENCE.sub("", page)):
        # Three dots stand for what the reader fills in.
        if "..." not in code:
            yield " ".join(code.split())


def words_of(line: str) -> list[str]:
    """The arguments of a command line, without its comment and where its output goes."""
    for end in (" #", " > ", " | "):
        line = line.partition(end)[0]
    words = shlex.split(line)[1:]
    return [word for word in words if word != "--traceback"]


def error_of_usage(words: list[str]) -> str:
    """What the program says of these arguments, none of which it acts upon; empty where nothing."""
    program: Any = typer.main.get_command(app)
    name, *arguments = words
    command = program.commands[name].loaded()
    subcommands = getattr(command, "commands", None)
    if subcommands:
        if not arguments:
            return ""
        command = subcommands[arguments[0]]
        arguments = arguments[1:]
    try:
        command.make_context(name, arguments)
    except Exception as error:  # noqa: BLE001
        return str(error)
    return ""


@EVERY_PAGE
def test_every_command_on_a_page_exists_with_its_options(page: Path) -> None:
    for line in command_lines(page.read_text("utf-8")):
        words = words_of(line)
        is_of_the_program = words[0].startswith("-")
        if is_of_the_program or "[OPTIONS]" in line:
            continue
        error = error_of_usage(words)
        # A file that a page names need not be there.
        assert not re.search("No such option|unexpected extra", error), f"{line}: {error}"
