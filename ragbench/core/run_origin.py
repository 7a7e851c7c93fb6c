"""Where a run that was looked at came from."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "RunOrigin",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOrigin:
    """What must be known of a run to find it again."""

    source: str
    """Where it was read from."""
    dataset: str
    rag: str
    cases: int
    """Cases of it that were looked at."""
    commit: str | None
    dirty: bool
