"""The scores that chunks come with, for rerankers that build on them."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.records.corpus import Chunk

__all__ = ["given_scores", "unscored_note"]


def given_scores(chunks: Sequence[Chunk], default: float) -> list[float]:
    """Each chunk's present score, or the default where it has none (0 is a score)."""
    return [default if chunk.score is None else chunk.score for chunk in chunks]


def unscored_note(chunks: Sequence[Chunk], default: float) -> tuple[str, ...]:
    """What to say about chunks without a score; nothing when all have one."""
    unscored = sum(chunk.score is None for chunk in chunks)
    if not unscored:
        return ()
    return (f"{unscored} of {len(chunks)} chunks had no score: {default:g} was taken",)
