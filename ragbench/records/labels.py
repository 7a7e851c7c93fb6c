"""What people said of claims: what a judge is measured against."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LEVELS", "LabelledClaim"]

LEVELS: tuple[str, ...] = ("not_supported", "partially_supported", "supported")
"""What a label may say, lowest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledClaim:
    """A claim, or a whole answer, with its evidence and what people said of it."""

    id: str
    claim: str
    evidence: tuple[str, ...]
    """Passages, in the order in which the people saw them."""
    level: int
    """Place in `LEVELS`."""
    question: str = ""
    """What the claim answers; empty where that is not known."""
    cluster: str | None = None
    """Claims of one answer or question share one: they are not independent."""
