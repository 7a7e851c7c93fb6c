"""What other programs wrote, as messages show it."""

from __future__ import annotations

__all__ = ["one_line"]

_LONGEST = 60


def one_line(text: str) -> str:
    """A name or an id, not too long and without what moves the cursor of a terminal."""
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return "".join(at if at.isprintable() else "?" for at in shown)
