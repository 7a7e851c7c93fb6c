"""Chunks with new texts, numbered for a model, as plain mappings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from ragbench.core.chunk import Chunk
from ragbench.errors import InputError, InterfaceError
from ragbench.post.operator import Query, RankedChunk
from ragbench.text.sentences import Span

__all__ = [
    "DERIVED",
    "chunks_of",
    "made_from",
    "numbered_passages",
    "numbers_in",
    "query_of",
    "rewritten",
    "shown_reply",
    "sliced",
    "text_of",
    "written_back",
]

_FENCE = re.compile(r"```[\w-]*\s*(.*?)```", re.DOTALL)


def numbered_passages(question: str, texts: Sequence[str]) -> str:
    """The question and the passages, numbered from 1, as JSON: no text can pass for an order."""
    passages = [{"number": number, "text": text} for number, text in enumerate(texts, start=1)]
    return json.dumps({"question": question, "passages": passages}, ensure_ascii=False)


def numbers_in(answer: str, key: str, count: int) -> list[int]:
    """The numbers of passages in an answer such as ``{"keep": [1, 3]}``.

    Args:
        answer: what the model said; words around the JSON object are passed over.
        key: where the list stands.
        count: how many passages there are.

    Raises:
        InterfaceError: there is no such list in it, or a number that no passage has.
    """
    value = _json_object(answer).get(key)
    if not isinstance(value, list):
        raise InterfaceError(f"the model's answer has no list '{key}': {shown_reply(answer)}")
    numbers: list[int] = []
    for number in cast("list[Any]", value):
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= count:
            raise InterfaceError(
                f"the model's answer names passage {number!r}; there are {count}: "
                f"{shown_reply(answer)}"
            )
        numbers.append(number)
    return numbers


def text_of(answer: str) -> str:
    """A plain text that a model was asked for.

    Raises:
        InterfaceError: it is empty.
    """
    text = answer.strip()
    if not text:
        raise InterfaceError("the model's answer is empty")
    return text


def _json_object(answer: str) -> dict[str, Any]:
    fenced = _FENCE.search(answer)
    text = fenced[1] if fenced else answer
    start = text.find("{")
    if start >= 0:
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    raise InterfaceError(f"the model's answer is not a JSON object: {shown_reply(answer)}")


def shown_reply(answer: str) -> str:
    """The beginning of what a model replied, in one line and in quotes, for a message."""
    text = " ".join(answer.split())
    return f"'{text[:120]} ...'" if len(text) > 120 else f"'{text}'"


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


_IDS = ("id", "entry_id", "node_id")


def query_of(data: Mapping[str, Any]) -> Query:
    """The question in a mapping.

    Raises:
        InputError: ``question`` is not a text.
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
        InputError: it is not a list, or holds something that is not an item.
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
