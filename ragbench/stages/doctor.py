"""What the verdicts on a dump say of the retriever: ranks, cut-offs, weak queries, next steps."""

from __future__ import annotations

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import orjson

from ragbench.core.chunk import Chunk
from ragbench.core.reading import Reading, words_of
from ragbench.core.validation import (
    DoctorFinding,
    EarlierRetrieval,
    PairedDumps,
    RetrievalDoctor,
    RetrievalDump,
    RetrievalQuality,
    ScoreCutoff,
    SourceCount,
    Verdict,
    WarningKind,
    WeakQuery,
)
from ragbench.errors import DataError, Problem
from ragbench.metrics.summary import most_frequent
from ragbench.safe_text import counted
from ragbench.stats.mean import share_of

_Entry = TypeVar("_Entry")

SOURCE_FIELDS = ("source", "document_id", "doc_id", "file", "file_name", "url", "title")
"""Where in a chunk's metadata its source may be."""
_RANKS = (("1", 1), ("2-5", 5), ("6-20", 20), ("21+", math.inf))
"""Groups of ranks at which answers stand: the name, and the last rank of it."""
_NEVER = "never"
"""The group of queries whose answer was not retrieved."""
_KEEPS = (0.9, 0.95, 0.99)
"""Shares of answers that a cut-off by score is stated for."""
_WEAKEST = 10
"""Queries that are listed at most."""
_SOURCES = 10
"""Sources that are listed at most."""
_MANY = 0.2
"""Share from which on something is worth an action."""
_FEW_ANSWERS = 20
"""Fewer answers, or chunks of a source, say nothing of the others."""
_DUPLICATES = 0.05
"""Share of repeated chunks that is worth an action."""


@dataclass(slots=True)
class DoctorTally:
    """Counts verdicts with their chunks; of queries it keeps a score and, of the worst, a line.

    A dump may have millions of queries: what is kept of each must be small.
    """

    ranks: Counter[str] = field(default_factory=Counter[str])
    """Queries by the group of ranks of their answer, `_NEVER` included."""
    scores: array[float] = field(default_factory=lambda: array("d"))
    """Of the chunk that holds the answer, a query each."""
    chunks: int = 0
    """All that were retrieved."""
    duplicates: int = 0
    """Chunks with the text of an earlier one."""
    sources: Counter[str] = field(default_factory=Counter[str])
    """Chunks by their source."""
    relevant: Counter[str] = field(default_factory=Counter[str])
    """Relevant chunks by their source."""
    weakest: list[tuple[float, int, WeakQuery]] = field(
        default_factory=list[tuple[float, int, WeakQuery]]
    )
    """A heap of the worst queries."""
    earlier: Mapping[str, bool] | None = None
    """Whether the answer was present, by query id, in the dump that this one is compared with."""
    against: str = ""
    """The name of the dump that this one is compared with; empty without one."""
    distances: bool = False
    """Whether scores are minus distances."""
    rising: int = 0
    """Queries whose scores rise from the first chunk to the last."""
    pairs: Counter[tuple[bool, bool]] = field(default_factory=Counter[tuple[bool, bool]])
    """Whether the answer was present in the earlier dump, and whether it is in this one."""

    def add(self, dump: RetrievalDump, verdict: Verdict) -> None:
        """Counts one query of a dump: its chunks, their sources, and where its answer was.

        Args:
            dump: what the retriever returned for the query.
            verdict: what a validator says of these chunks.
        """
        warnings = verdict.inspection or ()
        relevant_ids = set(verdict.relevant_chunk_ids)
        self.chunks += len(dump.chunks)
        for warning in dump.warnings:
            # The reader of the dump left these out: they were retrieved all the same.
            if warning.kind is WarningKind.DUPLICATE_TEXT:
                self.chunks += warning.count
        for warning in warnings:
            if warning.kind is WarningKind.DUPLICATE_TEXT:
                self.duplicates += warning.count
        if any(warning.kind is WarningKind.MIXED_SCORE_DIRECTIONS for warning in warnings):
            self.rising += 1
        for chunk in dump.chunks:
            source = _source_of(chunk)
            if source:
                self.sources[source] += 1
                self.relevant[source] += chunk.id in relevant_ids
        # A query that the earlier dump does not have cannot be won or lost.
        if self.earlier is not None and dump.query_id in self.earlier:
            self.pairs[self.earlier[dump.query_id], verdict.answer_present] += 1
        if verdict.answer_present:
            self._note_rank(dump, verdict)
        else:
            self._note_weak(dump, verdict)

    def _note_rank(self, dump: RetrievalDump, verdict: Verdict) -> None:
        """Counts at which rank of a query the answer is, and keeps the score of that chunk.

        From the ranks follows whether a reranker would help; from the scores, which cut-off keeps
        how many answers.
        """
        # The answer is where it is quoted from; without a quote, in the best of the relevant ones.
        answer_ids = {evidence.chunk_id for evidence in verdict.evidence}
        # `relevant_chunk_ids` begins with the most relevant one.
        if not answer_ids:
            answer_ids = set(verdict.relevant_chunk_ids[:1])
        # Only the first chunk with the answer counts: the rank at which a reader meets it.
        for rank, chunk in enumerate(dump.chunks, start=1):
            if chunk.id in answer_ids:
                group = next(name for name, last_rank in _RANKS if rank <= last_rank)
                self.ranks[group] += 1
                if chunk.score is not None:
                    self.scores.append(chunk.score)
                break

    def _note_weak(self, dump: RetrievalDump, verdict: Verdict) -> None:
        """Counts a query without its answer, and lists the query if it is among the worst so far.

        The listed ones are where its user should begin to read. Only a few are kept, since a dump
        may have millions.
        """
        self.ranks[_NEVER] += 1
        kinds = [warning.kind for warning in verdict.inspection or ()]
        if verdict.retrieval_quality is RetrievalQuality.PARTIAL:
            reason = verdict.message
        elif WarningKind.NO_CHUNKS in kinds:
            reason = "nothing was retrieved"
        else:
            reason = "nothing relevant"
        weak = WeakQuery(
            query_id=dump.query_id,
            query=dump.query,
            retrieval_quality=verdict.retrieval_quality.value,
            answer_probability=verdict.answer_probability,
            reason=reason,
        )
        # The worst stay in the heap: its smallest is the best of them. Earlier queries win ties.
        # The entries' second slot is minus the number of the query without an answer: never equal
        # in two.
        entry = (-verdict.answer_probability, -self.ranks[_NEVER], weak)
        if len(self.weakest) < _WEAKEST:
            heapq.heappush(self.weakest, entry)
        else:
            heapq.heappushpop(self.weakest, entry)

    def result(self) -> RetrievalDoctor:
        """The report on the retriever of a dump, from all verdicts: figures, then what to do.

        The lists are cut to a few entries each: sources with the most chunks, and the worst
        queries.
        """
        # All groups have an entry, those without a query too, and in the order of ranks.
        groups = [name for name, _ in _RANKS]
        ranks = {name: self.ranks[name] for name in (*groups, _NEVER)}

        scores = sorted(self.scores, reverse=True)
        sign = 1
        if self.distances:  # shown as the distances that the user gave
            sign = -1
        cutoffs: list[ScoreCutoff] = []
        if scores:
            for share in _KEEPS:
                # Sorted from the best: down to this place lies the wished share of the answers.
                lowest = scores[math.ceil(share * len(scores)) - 1]
                cutoffs.append(ScoreCutoff(keeps=share, score=sign * lowest))

        sources: list[SourceCount] = []
        if self.sources:
            for name, count in most_frequent(self.sources)[:_SOURCES]:
                relevant = self.relevant[name]
                sources.append(SourceCount(source=name, chunks=count, relevant=relevant))

        compared: PairedDumps | None = None
        if self.earlier is not None:
            compared = _paired_dumps(self.against, self.pairs)
        return RetrievalDoctor(
            answer_ranks=ranks,
            cutoffs=tuple(cutoffs),
            duplicates=share_of(self.duplicates, self.chunks),
            sources=tuple(sources),
            weakest=tuple(weak for _, _, weak in sorted(self.weakest, reverse=True)),
            findings=tuple(self._findings(ranks)),
            compared=compared,
        )

    def _findings(self, ranks: Mapping[str, int]) -> Iterator[DoctorFinding]:
        """The figures of a retriever that are worth an action, each with the action to take.

        In the order in which they should be mended: scores that rise would make the ranks below
        wrong.
        """
        total = sum(ranks.values())
        never = ranks[_NEVER]
        chunks = self.chunks
        answers = total - never
        deep = ranks["6-20"] + ranks["21+"]
        # The table of ranks has no other groups but these and rank 1.
        all_at_rank_one = not deep and not ranks["2-5"]
        # Each: whether it applies, the finding, and the action.
        rules = [
            (
                2 * self.rising > total,
                f"the scores rise from the first chunk to the last in {self.rising:,} of "
                f"{total:,} queries: ranks and cut-offs below take the order of the list",
                "say --score-kind distance if they are distances; else sort the best first",
            ),
            (
                total and never >= _MANY * total,
                f"no certain answer for {never:,} of {total:,} queries",
                "read the weakest queries: is the answer in the corpus? If it is, retrieve "
                "more candidates or change chunking; if not, add the document",
            ),
            (
                answers and deep >= _MANY * answers,
                f"{deep:,} of {answers:,} answers stand below rank 5",
                "add a reranker, or keep more chunks",
            ),
            (
                # Of few answers chance alone may put all at rank 1; with one chunk a query there is
                # no lower k.
                answers >= _FEW_ANSWERS and all_at_rank_one and chunks >= 2 * total,
                "every answer stands at rank 1",
                "fewer chunks (a lower k) would do",
            ),
            (
                chunks and self.duplicates >= _DUPLICATES * chunks,
                f"{self.duplicates:,} of {chunks:,} chunks repeat an earlier one",
                "remove duplicates from the index, or after retrieval",
            ),
        ]
        for applies, text, action in rules:
            if applies:
                yield DoctorFinding(text=text, action=action)
        advice = "look whether it belongs into the index, or filter it out"
        # Counted in order of size, so that the largest useless source comes first.
        for name, count in self.sources.most_common(_SOURCES):
            if count >= max(_FEW_ANSWERS, _MANY * chunks) and not self.relevant[name]:
                useless = f"'{name}' gave {counted(count, 'chunk')}, none relevant"
                yield DoctorFinding(text=useless, action=advice)


def _source_of(chunk: Chunk) -> str:
    """The source of a chunk: its document or, without one, a field of its metadata such as "url".

    Sources that give many chunks and no answer are worth a look. Empty when no field names a
    source.
    """
    if chunk.document_id:
        return chunk.document_id
    for name in SOURCE_FIELDS:
        if name in chunk.metadata:
            source = chunk.metadata[name]
            # A field of another type names no source, and no later field is looked at.
            if isinstance(source, str):
                return source
            return ""
    return ""


def _paired_dumps(against: str, pairs: Counter[tuple[bool, bool]]) -> PairedDumps:
    """Two dumps of the same queries by whether the answer was present.

    The p-value is that of McNemar's exact test, two-sided: the chance of so uneven a split between
    queries won and lost, were both retrievers equal.

    Args:
        pairs: queries by whether the answer was present in the earlier dump, and is in this one.
    """
    won = pairs[False, True]
    lost = pairs[True, False]
    p_value = 1.0
    # Without a difference the test has nothing to count, and scipy is not imported.
    if won + lost:
        stats: Any = import_module("scipy.stats")
        p_value = float(stats.binomtest(won, won + lost).pvalue)
    return PairedDumps(against=against, queries=pairs.total(), won=won, lost=lost, p_value=p_value)


def earlier_verdicts(path: Path) -> dict[str, bool]:
    """By query id, whether an earlier validation found the answer among the chunks.

    A new dump of the same queries is compared with it: which answers were won or lost.
    """
    return _entries_by_query(path, lambda row: bool(row["answer_present"]))


def earlier_retrievals(path: Path) -> dict[str, EarlierRetrieval]:
    """By query id, what an earlier validation retrieved and how it judged that.

    A new validation compares itself with these: which answers were won and which were lost.
    """
    return _entries_by_query(path, _earlier_retrieval)


def _earlier_retrieval(row: Mapping[str, Any]) -> EarlierRetrieval:
    """What a comparison with the new verdict needs of an earlier one, from its line of the file.

    The names are those of the fields that `ragbench validate -o` writes.
    """
    quotes = [(str(quote["chunk_id"]), str(quote["text"])) for quote in row["evidence"]]
    return EarlierRetrieval(
        answer_present=bool(row["answer_present"]),
        answer_probability=float(row["answer_probability"]),
        quality=str(row["retrieval_quality"]),
        chunk_ids=tuple(map(str, row["relevance"])),
        relevant_ids=tuple(map(str, row["relevant_chunk_ids"])),
        quotes=tuple(quotes),
    )


def _entries_by_query(path: Path, read: Callable[[Mapping[str, Any]], _Entry]) -> dict[str, _Entry]:
    """By query id, an entry of each verdict in a file of `ragbench validate -o`.

    Of a repeated query the first entry; nothing of a query that the validator failed on.

    Args:
        read: makes the entry from a verdict's line, decoded from JSON.
    """
    entries: dict[str, _Entry] = {}
    place = _PlaceInVerdicts(path)
    with Reading(place.refusal), path.open("rb") as file:
        for line in file:  # a line at a time: of a million queries they are gigabytes
            place.line += 1
            row = orjson.loads(line)
            if row["answer_present"] is not None:  # the validator failed on it
                entries.setdefault(str(row["query_id"]), read(row))
    return entries


@dataclass(slots=True)
class _PlaceInVerdicts:
    """The line of a file of verdicts that is being read."""

    path: Path
    line: int = 0
    """From 1; 0 before the first."""

    def refusal(self, error: Exception) -> DataError:
        """The error for a file of verdicts that cannot be read, or whose present line is none.

        A user sees which line is no verdict of `ragbench validate -o`.

        Args:
            error: whatever was raised while the file was read.
        """
        if isinstance(error, OSError):
            message = f"cannot be read: {words_of(error)}"
            return DataError([Problem(message=message, path=str(self.path))])
        message = "expected a verdict of ragbench validate -o"
        return DataError([Problem(message=message, path=str(self.path), line=self.line)])
