"""Which of the relevant contexts each retrieved chunk is: by id, by document id, or by text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ragbench.interface.results import RetrievalResult
from ragbench.runs.trace import Trace
from ragbench.scoring.text_match import gold_texts, holds, normalised

__all__ = [
    "IdRanking",
    "Matching",
    "SlotRanking",
    "comparable_ids",
    "decide_matching",
    "match",
]

NO_GOLD = "no relevant context is known"
_DOCUMENT_KEYS = ("document_id", "doc_id", "source")


class Matching(StrEnum):
    """How retrieved chunks are compared with relevant ones."""

    AUTO = "auto"
    """Case by case: by id where both sides have ids, else by text."""
    ID = "id"
    """By the chunks' ids; by text in a case in which one side has none."""
    DOCUMENT_ID = "document_id"
    """By the chunk's id, else by the document that its metadata names (``document_id``, ``doc_id``
    or ``source``): gold ids that name documents, against a retriever that returns their chunks."""
    TEXT = "text"
    """By whether a chunk holds a reference context or an evidence span."""


@dataclass(frozen=True, slots=True)
class IdRanking:
    """A ranking of distinct ids that the gold ids can be looked up in."""

    ids: Sequence[str]
    """The retrieved ids, best first; of a repeated id only the first place is kept."""
    grades: Mapping[str, int]
    """Relevance by id; not empty."""


@dataclass(frozen=True, slots=True)
class SlotRanking:
    """A ranking in which a chunk may be several gold contexts, and several chunks the same one."""

    slots: Sequence[tuple[int, ...]]
    """For each retrieved chunk, best first, the gold contexts that it holds, as positions in
    ``grades``."""
    grades: Sequence[int]
    """Relevance of each gold context; not empty."""


def match(trace: Trace, matching: Matching) -> IdRanking | SlotRanking | str:
    """Compares what a case retrieved with what is relevant to it.

    Args:
        trace: a case with a retrieval result.
        matching: how to compare.

    Returns:
        The ranking, or the reason why there is nothing to compare.
    """
    result = trace.context.value
    if result is None:
        return "retrieval gave no result"
    grades = None if matching is Matching.TEXT else trace.case.judgements
    if grades is not None:
        if not grades:
            return NO_GOLD
        if matching is Matching.DOCUMENT_ID:
            return _by_document(result, grades)
        ids = result.context_ids
        if ids is not None:
            return IdRanking(list(dict.fromkeys(ids)) if len(set(ids)) < len(ids) else ids, grades)
    texts = gold_texts(trace.case)
    if texts:
        return _by_text(result, texts)
    if texts is None and grades is not None:
        return "retrieval gave no context ids, and no relevant text is known to compare with"
    return NO_GOLD


def comparable_ids(traces: Sequence[Trace]) -> bool:
    """Whether retrieved ids and gold ids come from the same id space.

    Returns:
        True when any retrieved id is among the gold ids of any of the cases.
    """
    gold = _gold_ids(traces)
    return bool(gold) and any(
        not gold.isdisjoint(result.context_ids)
        for result in _results(traces)
        if result.context_ids is not None
    )


def decide_matching(traces: Sequence[Trace]) -> Matching:
    """Chooses, once for a run, how to compare.

    Args:
        traces: the first cases of the run.

    Returns:
        ``ID`` when ids are comparable; else ``DOCUMENT_ID`` when the chunks' metadata names gold
        documents; else ``TEXT`` when any case knows relevant texts; else ``ID``, by which
        retrieval has then found nothing.
    """
    if comparable_ids(traces):
        return Matching.ID
    gold = _gold_ids(traces)
    if gold and any(
        document in gold for result in _results(traces) for document in _documents(result)
    ):
        return Matching.DOCUMENT_ID
    if any(gold_texts(trace.case) for trace in traces):
        return Matching.TEXT
    return Matching.ID


def _gold_ids(traces: Sequence[Trace]) -> set[str]:
    return {id for trace in traces for id in trace.case.judgements or ()}


def _results(traces: Sequence[Trace]) -> Iterator[RetrievalResult[Any]]:
    for trace in traces:
        if trace.context.value is not None:
            yield trace.context.value


def _documents(result: RetrievalResult[Any]) -> list[str | None]:
    """The document that each chunk's metadata names."""
    if result.context_metadata is None:
        return [None] * len(result)
    return [
        next((str(metadata[key]) for key in _DOCUMENT_KEYS if metadata.get(key)), None)
        for metadata in result.context_metadata
    ]


def _by_document(result: RetrievalResult[Any], grades: Mapping[str, int]) -> SlotRanking:
    positions = {id: position for position, id in enumerate(grades)}
    ids: Sequence[str | None] = result.context_ids or [None] * len(result)
    slots: list[tuple[int, ...]] = []
    for id, document in zip(ids, _documents(result), strict=True):
        gold = id if id in positions else document
        slots.append((positions[gold],) if gold in positions else ())
    return SlotRanking(slots, list(grades.values()))


def _by_text(result: RetrievalResult[Any], texts: tuple[str, ...]) -> SlotRanking:
    slots: list[tuple[int, ...]] = []
    for context in result.contexts:
        chunk = normalised(context)
        slots.append(tuple(n for n, text in enumerate(texts) if holds(chunk, text)))
    return SlotRanking(slots, [1] * len(texts))
