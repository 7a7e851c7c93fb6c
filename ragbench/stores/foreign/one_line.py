"""What other programs wrote, as messages show it."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["listed", "one_line"]

_LONGEST = 60
_MOST = 12


def one_line(text: str) -> str:
    """A name or an id, not too long and without what moves the cursor of a terminal."""
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return "".join(at if at.isprintable() else "?" for at in shown)


def listed(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    rest = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(map(one_line, names[:_MOST])) + rest
