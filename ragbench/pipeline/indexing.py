"""Stage 1 as a pipeline file describes it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Indexing"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexing:
    """Which documents are searched, and where their chunks are kept."""

    corpus: str | None = None
    """A file or folder with documents; relative to the pipeline's file. None takes those of the
    dataset that is evaluated."""
