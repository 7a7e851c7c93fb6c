"""The operators document's mappings, to records and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from ragbench.errors import InputError
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.ranked import RankedChunk
from ragbench.records.corpus import Chunk

__all__ = ["chunks_of", "query_of", "written_back"]

_IDS = ("id", "entry_id", "node_id")


def query_of(data: Mapping[str, Any]) -> Query:
    """The question in a mapping.

    Raises:
        InputError: ``question`` is no text.
    """
    question = data.get("question", "")
    if not isinstance(question, str):
        raise InputError(f"question must be a text, not {type(question).__name__}")
    now = data.get("now")
    return Query(
        text=question,
        embedding=data.get("query_embedding"),
        now=now if isinstance(now, datetime) else None,
    )


def chunks_of(data: Mapping[str, Any]) -> list[Chunk]:
    """The items of ``memory_data`` as chunks; one without an id is named by its position.

    Raises:
        InputError: it is no list, or holds something that is no item.
    """
    items: Any = data.get("memory_data") or []
    if isinstance(items, (str, bytes)) or not isinstance(items, Sequence):
        raise InputError(f"memory_data must be a list, not {type(items).__name__}")
    return [_chunk(position, item) for position, item in enumerate(cast("Sequence[Any]", items))]


def written_back(
    data: Mapping[str, Any],
    given: Sequence[Chunk],
    chunks: Sequence[RankedChunk],
    score_field: str | None,
) -> list[dict[str, Any]]:
    """Chunks as items: an item that came in with its other keys, text and score brought up to date.

    Args:
        data: what came in.
        given: the chunks that were made of it.
        chunks: the final ones.
        score_field: the metadata key that the final score goes under too; None for none.
    """
    items = {
        chunk.id: item for chunk, item in zip(given, data.get("memory_data") or [], strict=True)
    }
    return [_item(entry, items.get(entry.chunk.id, {}), score_field) for entry in chunks]


def _item(entry: RankedChunk, item: Mapping[str, Any], score_field: str | None) -> dict[str, Any]:
    chunk = entry.chunk
    metadata: Mapping[str, Any] = chunk.metadata
    if score_field is not None and entry.score is not None:
        metadata = {**metadata, score_field: entry.score}
    new = {**item, "text": chunk.text, "metadata": metadata}
    if not item:
        new["id"] = chunk.id
    if entry.score is not None or "score" in item:
        new["score"] = entry.score
    return new


def _chunk(position: int, item: object) -> Chunk:
    where = f"memory_data[{position}]"
    if not isinstance(item, Mapping):
        raise InputError(f"{where} must be a mapping, not {type(item).__name__}")
    known = cast("Mapping[str, Any]", item)
    text, metadata = known.get("text"), known.get("metadata")
    if not isinstance(text, str):
        raise InputError(f"{where}: text must be a text, not {type(text).__name__}")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, Mapping):
        raise InputError(f"{where}: metadata must be a mapping, not {type(metadata).__name__}")
    held = cast("Mapping[str, Any]", metadata)
    return Chunk(
        id=_id(position, known, held),
        text=text,
        score=_score(where, known.get("score")),
        document_id=held.get("document_id"),
        metadata=held,
    )


def _id(position: int, item: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    for place in (item, metadata):
        for key in _IDS:
            if place.get(key) not in (None, ""):
                return str(place[key])
    return str(position)


def _score(where: str, score: object) -> float | None:
    if score is None:
        return None
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score):
        raise InputError(f"{where}: score must be a finite number, not {score!r}")
    return float(score)
