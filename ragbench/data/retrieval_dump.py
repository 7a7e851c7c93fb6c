"""What a search found, as lines of JSON that other commands and tools read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from ragbench.data.atomic import written_whole
from ragbench.records.corpus import Chunk

__all__ = ["dump_row", "write_retrieval_dump"]


def dump_row(query_id: str, query: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
    """One query with its chunks, best first, as JSON.

    A chunk has ``id``, ``text``, ``score`` and ``metadata``; where they are known also
    ``document_id``, ``start`` and ``end``, its place in that document.
    """
    return {"query_id": query_id, "query": query, "chunks": [_chunk(chunk) for chunk in chunks]}


def write_retrieval_dump(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Writes rows of `dump_row`, a line each; the file appears whole or not at all.

    Returns:
        How many lines it has.

    Raises:
        InputError: the file cannot be written.
    """
    written = 0
    with written_whole(path) as file:
        for row in rows:
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
            written += 1
    return written


def _chunk(chunk: Chunk) -> dict[str, Any]:
    place = {"document_id": chunk.document_id, "start": chunk.start, "end": chunk.end}
    return {
        "id": chunk.id,
        "text": chunk.text,
        "score": chunk.score,
        "metadata": dict(chunk.metadata),
        **{name: value for name, value in place.items() if value is not None},
    }
