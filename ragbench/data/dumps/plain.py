"""Plain JSON with guessed names: a list of texts or objects under a usual name."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.data.dumps.form import DumpForm, Hits, is_list, is_object

__all__ = ["FORM", "ID_NAMES", "SCORE_NAMES", "TEXT_NAMES"]

TEXT_NAMES = (
    *("text", "content", "page_content", "chunk", "passage", "document", "contents", "body"),
    *("context", "snippet", "chunk_text", "passage_text", "pageContent"),
)
"""What a chunk's text is called."""
ID_NAMES = (
    *("id", "chunk_id", "_id", "doc_id", "document_id", "docid", "passage_id", "pid", "node_id"),
    *("uuid", "pk", "key"),
)
"""What its id is called."""
SCORE_NAMES = (
    *("score", "similarity", "relevance_score", "distance", "_score", "_distance", "dist", "rank"),
    "relevance",
)
"""What its score is called."""


def _is_hit(value: object) -> bool:
    return is_object(value) and any(isinstance(value.get(name), str) for name in TEXT_NAMES)


def _unwrap(value: object) -> Sequence[Hits] | None:
    if is_list(value) and (not value or _is_hit(value[0]) or isinstance(value[0], str)):
        return [value]
    return None


FORM = DumpForm(
    name="plain",
    summary="Plain JSON or JSONL: a query with a list of texts or objects, names guessed.",
    example='{"question": "...", "passages": [{"pid": 1, "passage": "..."}]}',
    unwrap=_unwrap,
    is_hit=_is_hit,
    id=(*ID_NAMES, "metadata.id", "metadata.chunk_id", "meta.id"),
    text=TEXT_NAMES,
    score=tuple(name for name in SCORE_NAMES if name != "rank"),
    metadata=("metadata", "meta", "payload"),
    any_text_in="",
)
