"""What differs between two runs' systems, in words."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.core.run_origin import SystemChange
from ragbench.safe_text import shown_line

_MOST = 8
"""How many changes are named."""
_LONGEST = 200


def change_title(before: str, now: str) -> str:
    """What stands above the lines."""
    return f"what changed between {before} and {now}"


def change_lines(change: SystemChange) -> Iterator[str]:
    """A line for each thing that differs, or one that says that nothing does, or is not known."""
    if change.unknown:
        yield f"unknown: {shown_line(change.unknown, longest=_LONGEST)}"
        return
    if change.is_ruled_out:
        yield (
            "nothing that was imported, read or set: where scores of the same cases differ, it is "
            "noise"
        )
    for sentence in change.changes[:_MOST]:
        yield shown_line(sentence, longest=_LONGEST)
    if len(change.changes) > _MOST:
        yield f"and {len(change.changes) - _MOST:,} more: see --json"
    if change.unseen:
        yield ("" if change.changes else "nothing that ragbench can see; ") + _unseen(change)


def _unseen(change: SystemChange) -> str:
    first, *others = change.unseen
    more = f" (and {len(others):,} more)" if others else ""
    return f"it cannot see into all: {shown_line(first, longest=_LONGEST)}{more}"
