"""Chunks with a new text, which say what it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragbench.postretrieval.ranked import RankedChunk
from ragbench.records.corpus import Chunk
from ragbench.text.sentences import Span

__all__ = ["DERIVED", "made_from", "rewritten", "sliced"]

DERIVED = "derived"
"""The metadata key of the list of changes that a text went through, oldest first."""


def rewritten(entry: RankedChunk, text: str, *, by: str, more: Sequence[str] = ()) -> RankedChunk:
    """A chunk with another text. Id, document, offsets and metadata are those of the origin.

    Args:
        entry: the origin.
        text: the new text.
        by: the operator's name.
        more: ids of other chunks that the text was made of.
    """
    change = {"by": by, "from": [entry.chunk.id, *more]}
    return replace(entry, chunk=replace(entry.chunk, text=text, metadata=_with(entry, change)))


def sliced(
    entry: RankedChunk, spans: Sequence[Span], *, by: str, joined_by: str = " "
) -> RankedChunk:
    """A chunk with some stretches of its text; the same object when that is all of it.

    Where the origin knows its offsets in its document, so does the result: from the first
    character kept to the last. Each stretch, as ``[start, end]`` in the origin's text, is in the
    metadata.

    Args:
        entry: the origin.
        spans: the stretches, in reading order; at least one.
        by: the operator's name.
        joined_by: what stands between two stretches.
    """
    chunk = entry.chunk
    text = joined_by.join([chunk.text[span.start : span.end] for span in spans])
    if text == chunk.text:
        return entry
    change = {"by": by, "from": [chunk.id], "spans": [[span.start, span.end] for span in spans]}
    start, end = chunk.start, chunk.end
    if start is not None and end is not None and end - start == len(chunk.text):
        start, end = start + spans[0].start, start + spans[-1].end
    new = replace(chunk, text=text, start=start, end=end, metadata=_with(entry, change))
    return replace(entry, chunk=new)


def made_from(origins: Sequence[RankedChunk], text: str, *, id: str, by: str) -> RankedChunk:
    """A chunk that stands for several: it has no score and no place of its own in retrieval."""
    change: dict[str, Any] = {"by": by, "from": [entry.chunk.id for entry in origins]}
    documents = {entry.chunk.document_id for entry in origins}
    return RankedChunk(
        chunk=Chunk(
            id=id,
            text=text,
            document_id=documents.pop() if len(documents) == 1 else None,
            metadata={DERIVED: [change]},
        ),
        score=None,
        rank=1,
        initial_score=None,
        initial_rank=None,
    )


def _with(entry: RankedChunk, change: dict[str, Any]) -> dict[str, Any]:
    before = entry.chunk.metadata.get(DERIVED)
    earlier: list[Any] = [*before] if isinstance(before, list) else []
    return {**entry.chunk.metadata, DERIVED: [*earlier, change]}
