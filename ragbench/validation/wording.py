"""The sentences of a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.records.validation import RetrievalQuality

__all__ = ["NOTHING_RELEVANT", "message_for"]

NOTHING_RELEVANT = "No relevant information found in retrieved data."
"""What the specification demands, word for word, when no chunk is relevant (FR-013)."""


def message_for(quality: RetrievalQuality, relevant: Sequence[str]) -> str:
    """The verdict in a sentence."""
    if not relevant:
        return NOTHING_RELEVANT
    named = ", ".join(relevant[:5]) + (", ..." if len(relevant) > 5 else "")
    chunks = f"{len(relevant)} relevant {'chunk' if len(relevant) == 1 else 'chunks'} ({named})"
    if quality is RetrievalQuality.GOOD:
        return f"The answer is in the retrieved data: {chunks}."
    return f"The retrieved data may answer the query in part: {chunks}, and no certain answer."
