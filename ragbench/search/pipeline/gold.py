"""Where a search lost the gold: looked for in the collection, not guessed from the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, cast, runtime_checkable

from ragbench.core.case import Case
from ragbench.core.chunk import Chunk
from ragbench.core.matched import GoldCause, GoldSearch, SearchedGold
from ragbench.core.record import Record
from ragbench.core.result import RetrievalResult
from ragbench.core.search_query import SearchQuery, Transformed, pre_retrieved
from ragbench.errors import ConfigError
from ragbench.metrics.matching import gold_texts, holds, normalised
from ragbench.search.pipeline.stages import Retriever

_TELLING = 20
"""Characters from which a part of a text says where it comes from."""


class Gold(Record):
    """One gold context: an id, a span of a document, or a text."""

    id: str | None = None
    """Of a chunk, or of a document."""
    document_id: str | None = None
    """Of the document that the text stands in, where that is known."""
    start: int | None = None
    """Offset of the text in that document."""
    end: int | None = None
    text: str = ""
    """Empty where the id alone is known."""

    @property
    def name(self) -> str:
        return self.text if self.id is None else self.id

    def is_held_by(self, chunk: Chunk) -> bool:
        document = _document_of(chunk)
        if self.id is not None and (document is not None or not self.text):
            return self.id in (chunk.id, document)
        overlap = self._overlap(chunk, document)
        if overlap is not None:
            return overlap == (self.end or 0) - (self.start or 0)
        text, gold = normalised(chunk.text), normalised(self.text)
        # A chunk that is a part of the gold resembles it, too, and does not hold all of it.
        return len(text) >= len(gold) and holds(text, gold)

    def is_cut_by(self, chunk: Chunk) -> bool:
        """Whether a chunk holds a part of it, up to the chunk's own edge."""
        overlap = self._overlap(chunk, _document_of(chunk))
        if overlap is not None:
            return overlap > 0
        text, gold = normalised(chunk.text), normalised(self.text)
        if min(len(text), len(gold)) < _TELLING:
            return False
        head, tail = text.find(gold[:_TELLING]), text.rfind(gold[-_TELLING:])
        return (
            text in gold
            or (head >= 0 and gold.startswith(text[head:]))
            or (tail >= 0 and gold.endswith(text[: tail + _TELLING]))
        )

    def _overlap(self, chunk: Chunk, document: str | None) -> int | None:
        """Characters in common; None where offsets are not known."""
        known = (self.start, self.end, chunk.start, chunk.end)
        if document is None or document != self.document_id or None in known:
            return None
        start, end, first, last = cast("tuple[int, int, int, int]", known)
        return max(0, min(end, last) - max(start, first))


def golds_of(case: Case) -> tuple[Gold, ...]:
    """What a retrieval for a case should find: evidence spans, else ids, else texts.

    Spans too short to be recognised count only where their offsets are known.
    """
    spans = [
        Gold(document_id=one.document_id, start=one.start, end=one.end, text=one.text)
        for one in case.evidence
        if one.text.strip()
    ]
    if spans and all(one.start is not None or len(one.text) >= _TELLING for one in spans):
        return tuple(spans)
    ids = case.relevant_ids
    texts = case.reference_contexts or ()
    paired = texts if len(texts) == len(ids) else [""] * len(ids)
    if ids:
        return tuple(Gold(id=id_, text=text) for id_, text in zip(ids, paired, strict=True))
    return tuple(Gold(text=text) for text in gold_texts(case) or ())


def _document_of(chunk: Chunk) -> str | None:
    named = chunk.document_id or chunk.metadata.get("document_id")
    return named if isinstance(named, str) else None


class SearchVariant(StrEnum):
    """The search that is evaluated, and variants that show whether a part of it lost the gold."""

    PLAIN = "plain"
    """As it is."""
    EXACT = "exact"
    """Without the store's approximate index."""
    UNLIMITED = "unlimited"
    """Without a score threshold."""
    UNFILTERED = "unfiltered"
    """Without the filter, and without a threshold."""


@runtime_checkable
class Searched(Protocol):
    """A retriever over a collection in which gold can be looked for."""

    def gold_chunks(self, gold: Gold, *, filtered: bool) -> list[Chunk] | None:
        """Chunks that may hold a gold context, found by what it is and not by the question.

        None where nothing can be asked.
        """
        ...

    def variant(self, variant: SearchVariant) -> Retriever | None:
        """The same search but for one thing; None where that makes no difference."""
        ...


@dataclass(slots=True)
class _Sought:
    queries: Transformed
    golds: Sequence[Gold]
    fates: dict[int, SearchedGold] = field(default_factory=dict[int, SearchedGold])
    """By position; those that are settled."""

    def take(self, ranking: Sequence[Chunk], cause: GoldCause) -> None:
        for at, gold in enumerate(self.golds):
            held = {n: one.id for n, one in enumerate(ranking, 1) if gold.is_held_by(one)}
            if held and at not in self.fates:
                ids, rank = tuple(held.values()), min(held)
                self.fates[at] = SearchedGold(gold=gold.name, cause=cause, rank=rank, chunk_ids=ids)


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldLocator:
    """Says for each gold context of a case whether it was retrieved, and if not, what lost it.

    The search that is evaluated is asked for more chunks, then without what may have lost the gold:
    the store's approximate index, the threshold, the filter. What no search has is looked up by its
    document, id or text.
    """

    rankings: Callable[[Retriever, Sequence[Transformed], int], list[list[Chunk]]]
    """How the evaluated retrieval asks a retriever: for these queries, so many chunks each."""
    retriever: Retriever
    """A `Searched` one."""
    top_k: int
    """How many chunks are retrieved where a run does not say."""
    depth: int = 100
    """How many chunks of a ranking are looked at."""

    def has_gold(self, case: Case) -> bool:
        """Whether anything is known that a retrieval for the case should find."""
        return bool(golds_of(case))

    def located(
        self, inputs: Sequence[tuple[Case, RetrievalResult[Any]]], top_k: int | None = None
    ) -> list[GoldSearch]:
        asked = self.top_k if top_k is None else top_k
        depth = max(self.depth, asked)
        sought: list[_Sought] = []
        for case, result in inputs:  # what was searched for stands there: no model is asked again
            queries = pre_retrieved(result).queries or (SearchQuery(text=case.query),)
            sought.append(_Sought(queries=Transformed(queries=queries), golds=golds_of(case)))
            sought[-1].take(_chunks_of(result), GoldCause.RETRIEVED)
        for variant, cause, limit in (
            (SearchVariant.EXACT, GoldCause.LOST_BY_INDEX, asked),
            (SearchVariant.PLAIN, GoldCause.RANKED_LOWER, depth),
            (SearchVariant.EXACT, GoldCause.RANKED_LOWER, depth),
            (SearchVariant.UNLIMITED, GoldCause.LOST_BY_THRESHOLD, depth),
            (SearchVariant.UNFILTERED, GoldCause.LOST_BY_FILTER, depth),
        ):
            lacking = [one for one in sought if len(one.fates) < len(one.golds)]
            varied = cast("Searched", self.retriever).variant(variant) if lacking else None
            if varied is None:
                continue
            rankings: list[list[Chunk]] = []
            # An engine without an exact search of its own refuses it.
            with suppress(*([ConfigError] if variant is SearchVariant.EXACT else [])):
                rankings = self.rankings(varied, [one.queries for one in lacking], limit)
            for one, ranking in zip(lacking, rankings, strict=bool(rankings)):
                one.take(ranking, cause)
        found: list[GoldSearch] = []
        for one, (_, result) in zip(sought, inputs, strict=True):
            fates = [one.fates.get(at) or self._looked_up(g) for at, g in enumerate(one.golds)]
            found.append(GoldSearch(golds=tuple(fates), retrieved=len(result), depth=depth))
        return found

    def _looked_up(self, gold: Gold) -> SearchedGold:
        searched = cast("Searched", self.retriever)
        everywhere = searched.gold_chunks(gold, filtered=False)
        if everywhere is None:
            return SearchedGold(gold=gold.name, cause=GoldCause.UNKNOWN)
        held = {chunk.id for chunk in everywhere if gold.is_held_by(chunk)}
        if held:
            passing = searched.gold_chunks(gold, filtered=True) or ()
            passes = any(chunk.id in held for chunk in passing)
            cause = GoldCause.NOT_RANKED if passes else GoldCause.LOST_BY_FILTER
            return SearchedGold(gold=gold.name, cause=cause, chunk_ids=tuple(sorted(held)))
        parts = {chunk.id for chunk in everywhere if gold.is_cut_by(chunk)}
        cause = GoldCause.CUT if parts else GoldCause.NOT_INDEXED
        return SearchedGold(gold=gold.name, cause=cause, chunk_ids=tuple(sorted(parts)))


def _chunks_of(result: RetrievalResult[Any]) -> list[Chunk]:
    """What was retrieved, with the document and offsets that its metadata name."""
    found: list[Chunk] = []
    for chunk in result.to_chunks():
        named = ((name, chunk.metadata.get(name)) for name in ("start", "end"))
        spans: dict[str, Any] = {name: at for name, at in named if isinstance(at, int)}
        document = _document_of(chunk)
        found.append(Chunk(id=chunk.id, text=chunk.text, document_id=document, **spans))
    return found
