"""Every code block of docs/migration.md runs and gives what it says."""

from collections.abc import Callable
from typing import Any

HEADINGS = (
    "Nothing migrated",
    "Only retrieval",
    "Only generation",
    "All of it",
    "Batches",
    "Coroutines",
    "Without a class",
    "Base classes of your own",
)


def test_every_block_runs(document: Callable[[str], Any]) -> None:
    page = document("migration.md")
    blocks = page.blocks()
    assert len(blocks) == 13
    for block in blocks:
        assert "  # -> " in block
        page.run(block)


def test_a_wrong_value_in_a_block_would_be_found(document: Callable[[str], Any]) -> None:
    page = document("migration.md")
    try:
        page.run("1 + 1  # -> 3")
    except AssertionError:
        return
    raise RuntimeError("a wrong value went through")


def test_every_step_has_its_section(document: Callable[[str], Any]) -> None:
    text = document("migration.md").text
    for heading in HEADINGS:
        assert f"\n## {heading}\n" in text
