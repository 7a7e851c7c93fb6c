"""Every code block of docs/migration.md runs and gives what it says."""

from collections.abc import Callable
from typing import Any


def test_every_block_runs(document: Callable[[str], Any]) -> None:
    page = document("migration.md")
    blocks = page.blocks()
    assert len(blocks) == 15
    for block in blocks:
        assert "  # -> " in block
        page.run(block)
