"""Where a search lost the gold: looked for in the collection, not guessed from the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        """The name of a gold context in reports: its id, or its text where it has none.

        Reports of lost gold (the right passages of a question) print it.
        """
        return self.text if self.id is None else self.id

    def is_held_by(self, chunk: Chunk) -> bool:
        """Whether a chunk holds all of the gold context: by id, else by offsets, else by text.

        An id may be a chunk's or a document's. Where the chunk names no document, its id may be the
        store's own, so that a known text decides.
        """
        document = _document_of(chunk)
        are_ids_reliable = document is not None or not self.text
        if self.id is not None and are_ids_reliable:
            return self.id in (chunk.id, document)
        overlap = self._overlap_length(chunk, document)
        if overlap is not None:
            # The offsets are known, as there is an overlap; the zeros only satisfy the types.
            length = (self.end or 0) - (self.start or 0)
            return overlap == length
        text = normalised(chunk.text)
        gold = normalised(self.text)
        # A chunk that is a part of the gold resembles it, too, and does not hold all of it.
        return len(text) >= len(gold) and holds(text, gold)

    def is_cut_by(self, chunk: Chunk) -> bool:
        """Whether a chunk holds a part of the gold context, up to the chunk's own edge.

        So the chunker cut the gold apart: other chunks would bring it back, and no search does.
        """
        overlap = self._overlap_length(chunk, _document_of(chunk))
        if overlap is not None:
            return overlap > 0
        text = normalised(chunk.text)
        gold = normalised(self.text)
        if min(len(text), len(gold)) < _TELLING:
            return False
        if text in gold:
            return True
        # The gold begins before the chunk's end, or ends behind the chunk's start.
        head = text.find(gold[:_TELLING])
        if head >= 0 and gold.startswith(text[head:]):
            return True
        tail = text.rfind(gold[-_TELLING:])
        return tail >= 0 and gold.endswith(text[: tail + _TELLING])

    def _overlap_length(self, chunk: Chunk, document: str | None) -> int | None:
        """How many characters of a document both the gold context and the chunk cover.

        None where offsets are not known, or are of different documents.

        Args:
            document: the id of the chunk's document.
        """
        if document is None or document != self.document_id:
            return None
        if self.start is None or self.end is None:
            return None
        if chunk.start is None or chunk.end is None:
            return None
        start = max(self.start, chunk.start)
        end = min(self.end, chunk.end)
        return max(0, end - start)  # below 0 where one ends before the other begins


def golds_of(case: Case) -> tuple[Gold, ...]:
    """The gold contexts of a case, those a retrieval should find.

    Evidence spans, else ids, else texts. Spans too short to be recognised in chunks count only
    where their offsets are known.
    """
    spans: list[Gold] = []
    for evidence in case.evidence:
        if evidence.text.strip():
            span = Gold(
                document_id=evidence.document_id,
                start=evidence.start,
                end=evidence.end,
                text=evidence.text,
            )
            spans.append(span)
    are_recognisable = all(_is_recognisable(span) for span in spans)
    if spans and are_recognisable:
        return tuple(spans)
    ids = case.relevant_ids
    if ids:
        texts: Sequence[str] = case.reference_contexts or ()
        if len(texts) != len(ids):  # nothing says which text belongs to which id
            texts = [""] * len(ids)
        return tuple(Gold(id=id_, text=text) for id_, text in zip(ids, texts, strict=True))
    return tuple(Gold(text=text) for text in gold_texts(case) or ())


def _is_recognisable(span: Gold) -> bool:
    """Whether a gold span can be recognised in chunks.

    It can be by its offsets, or by a text that is long enough: a few characters would be in many
    chunks by chance.
    """
    return span.start is not None or len(span.text) >= _TELLING


def _document_of(chunk: Chunk) -> str | None:
    """The id of a chunk's document, which a chunk of a result has in its metadata.

    None if unknown. Gold that names a document is compared with it.
    """
    document = chunk.document_id or chunk.metadata.get("document_id")
    if isinstance(document, str):
        return document
    return None


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
        """Chunks that may hold a gold context, looked up by its document, id or text.

        The question plays no part: so a gold context that no search ranks can still be known to be
        in the collection. None where the collection can be searched by none of the three.

        Args:
            filtered: whether only chunks that pass the search's filters count.
        """
        ...

    def variant(self, variant: SearchVariant) -> Retriever | None:
        """The search without one thing that may lose gold, such as its filter.

        None where that makes no difference: then that thing lost nothing.
        """
        ...


@dataclass(slots=True)
class _LocatedCase:
    """A case, and what is known so far of where its golds went."""

    queries: Transformed
    golds: Sequence[Gold]
    retrieved: int
    """How many chunks the evaluated retrieval gave."""
    fates: dict[int, SearchedGold] = field(default_factory=dict[int, SearchedGold])
    """What became of each gold, by its position; only of those that were found."""

    @property
    def is_settled(self) -> bool:
        """Whether every gold context of the case has a cause: no further search is needed.

        Searches take time: a settled case is left out of those that follow.
        """
        return len(self.fates) == len(self.golds)

    def settle(self, ranking: Sequence[Chunk], cause: GoldCause) -> None:
        """Notes the cause for each gold context that this ranking is the first to hold.

        Golds that an earlier search had keep their cause.

        Args:
            ranking: the chunks of a search, best first.
            cause: why the evaluated search lost a gold that this one has.
        """
        for position, gold in enumerate(self.golds):
            if position in self.fates:
                continue
            ids: list[str] = []
            ranks: list[int] = []
            for rank, chunk in enumerate(ranking, start=1):
                # All chunks that hold the gold are noted, not only the first: reports name each.
                if gold.is_held_by(chunk):
                    ids.append(chunk.id)
                    ranks.append(rank)
            if ids:
                self.fates[position] = SearchedGold(
                    gold=gold.name, cause=cause, rank=ranks[0], chunk_ids=tuple(ids)
                )


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
        """Whether the case has gold contexts: texts or ids that a retrieval should find.

        Cases without gold cannot have lost any.
        """
        return bool(golds_of(case))

    def located(
        self, inputs: Sequence[tuple[Case, RetrievalResult[Any]]], top_k: int | None = None
    ) -> list[GoldSearch]:
        """For each case, where its gold contexts were lost; all cases are searched together.

        Reports name the cause: the index, the rank, the threshold, the filter, or the chunker.

        Args:
            inputs: the cases, each with the result of the evaluated retrieval.
            top_k: how many chunks that retrieval was to give; None for the setting.
        """
        if top_k is None:
            top_k = self.top_k
        depth = max(self.depth, top_k)
        cases: list[_LocatedCase] = []
        for case, result in inputs:
            # The result keeps the queries that were searched for: no model writes them again.
            queries = pre_retrieved(result).queries or (SearchQuery(text=case.query),)
            located = _LocatedCase(
                queries=Transformed(queries=queries),
                golds=golds_of(case),
                retrieved=len(result),
            )
            located.settle(_chunks_of(result), GoldCause.RETRIEVED)
            cases.append(located)
        # The order matters: from the search as it is to the search with the most taken away, the
        # first that holds a gold names what lost it. The index is the cause only where an exact
        # search ranks the gold among the first `top_k`.
        self._settle_by(cases, SearchVariant.EXACT, GoldCause.LOST_BY_INDEX, top_k)
        self._settle_by(cases, SearchVariant.PLAIN, GoldCause.RANKED_LOWER, depth)
        self._settle_by(cases, SearchVariant.EXACT, GoldCause.RANKED_LOWER, depth)
        self._settle_by(cases, SearchVariant.UNLIMITED, GoldCause.LOST_BY_THRESHOLD, depth)
        self._settle_by(cases, SearchVariant.UNFILTERED, GoldCause.LOST_BY_FILTER, depth)
        searches: list[GoldSearch] = []
        for located in cases:
            fates: list[SearchedGold] = []
            for position, gold in enumerate(located.golds):
                fate = located.fates.get(position)
                if fate is None:
                    fate = self._looked_up_in_collection(gold)
                fates.append(fate)
            search = GoldSearch(golds=tuple(fates), retrieved=located.retrieved, depth=depth)
            searches.append(search)
        return searches

    def _settle_by(
        self, cases: Sequence[_LocatedCase], variant: SearchVariant, cause: GoldCause, limit: int
    ) -> None:
        """Settles the gold contexts that a variant of the search ranks: they get this cause.

        The order of the variants decides which cause a gold gets: the first that ranks it.

        Args:
            cases: those with gold that has no cause yet are searched for.
            variant: the search without one thing that may lose gold.
            cause: that thing.
            limit: chunks of each ranking.
        """
        unsettled = [case for case in cases if not case.is_settled]
        if not unsettled:
            return
        retriever = cast("Searched", self.retriever).variant(variant)
        if retriever is None:  # the evaluated search has no such part, and would find the same
            return
        queries = [case.queries for case in unsettled]
        try:
            rankings = self.rankings(retriever, queries, limit)
        except ConfigError:
            if variant is SearchVariant.EXACT:  # engines without an exact search refuse it
                return
            raise
        for case, ranking in zip(unsettled, rankings, strict=True):
            case.settle(ranking, cause)

    def _looked_up_in_collection(self, gold: Gold) -> SearchedGold:
        """The cause for a gold context that no search ranks: it is looked up by itself.

        It may be filtered out, ranked too low for any search, cut apart by the chunker, or not
        indexed.
        """
        retriever = cast("Searched", self.retriever)
        chunks = retriever.gold_chunks(gold, filtered=False)
        if chunks is None:
            return SearchedGold(gold=gold.name, cause=GoldCause.UNKNOWN)
        holding = {chunk.id for chunk in chunks if gold.is_held_by(chunk)}
        if holding:
            # No search ranked it, maybe because none looked deep enough: the filter is the cause
            # only where it lets none of these chunks pass.
            passing = retriever.gold_chunks(gold, filtered=True) or ()
            cause = GoldCause.LOST_BY_FILTER
            if any(chunk.id in holding for chunk in passing):
                cause = GoldCause.NOT_RANKED
            return SearchedGold(gold=gold.name, cause=cause, chunk_ids=tuple(sorted(holding)))
        parts = {chunk.id for chunk in chunks if gold.is_cut_by(chunk)}
        if not parts:
            return SearchedGold(gold=gold.name, cause=GoldCause.NOT_INDEXED, chunk_ids=())
        return SearchedGold(gold=gold.name, cause=GoldCause.CUT, chunk_ids=tuple(sorted(parts)))


def _offset(value: object) -> int | None:
    """An offset in a document, as a chunk's metadata name it; None for any other value.

    Metadata are the user's: a key called ``start`` may hold something else, such as a date.
    """
    if isinstance(value, int):
        return value
    return None


def _chunks_of(result: RetrievalResult[Any]) -> list[Chunk]:
    """The retrieved chunks, with the document and offsets that their metadata name.

    Gold that is a span of a document is recognised by these.
    """
    chunks: list[Chunk] = []
    for chunk in result.to_chunks():
        start = _offset(chunk.metadata.get("start"))
        end = _offset(chunk.metadata.get("end"))
        # Only what gold is recognised by; score and metadata are not looked at.
        placed = Chunk(
            id=chunk.id,
            text=chunk.text,
            document_id=_document_of(chunk),
            start=start,
            end=end,
        )
        chunks.append(placed)
    return chunks
