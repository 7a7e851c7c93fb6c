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
from ragbench.stats.mean import share_of

_Read = TypeVar("_Read")

SOURCE_FIELDS = ("source", "document_id", "doc_id", "file", "file_name", "url", "title")
"""Where in a chunk's metadata its source may be."""
_RANKS = (("1", 1), ("2-5", 5), ("6-20", 20), ("21+", math.inf))
_NEVER = "never"
_KEEPS = (0.9, 0.95, 0.99)
_WEAKEST = 10
_SOURCES = 10
_MANY = 0.2
"""Share from which on something is worth an action."""


@dataclass(slots=True)
class DoctorTally:
    """Counts verdicts with their chunks; of queries it keeps a score and, of the worst, a line."""

    ranks: Counter[str] = field(default_factory=Counter[str])
    scores: array[float] = field(default_factory=lambda: array("d"))
    """Of the chunk that holds the answer, a query each."""
    chunks: int = 0
    duplicates: int = 0
    sources: Counter[str] = field(default_factory=Counter[str])
    relevant: Counter[str] = field(default_factory=Counter[str])
    weakest: list[tuple[float, int, WeakQuery]] = field(
        default_factory=list[tuple[float, int, WeakQuery]]
    )
    earlier: Mapping[str, bool] | None = None
    """Whether the answer was present, by query id, in the dump that this one is compared with."""
    against: str = ""
    distances: bool = False
    """Whether scores are minus distances."""
    rising: int = 0
    """Queries whose scores rise from the first chunk to the last."""
    pairs: Counter[tuple[bool, bool]] = field(default_factory=Counter[tuple[bool, bool]])

    def add(self, dump: RetrievalDump, verdict: Verdict) -> None:
        found, wanted = verdict.inspection or (), set(verdict.relevant_chunk_ids)
        self.chunks += len(dump.chunks)
        self.duplicates += sum(one.count for one in found if one.kind is WarningKind.DUPLICATE_TEXT)
        self.rising += any(one.kind is WarningKind.MIXED_SCORE_DIRECTIONS for one in found)
        for chunk in dump.chunks:
            named = (chunk.metadata[name] for name in SOURCE_FIELDS if name in chunk.metadata)
            source = chunk.document_id or next(named, "")
            if source and isinstance(source, str):
                self.sources[source] += 1
                self.relevant[source] += chunk.id in wanted
        if self.earlier is not None and dump.query_id in self.earlier:
            self.pairs[self.earlier[dump.query_id], verdict.answer_present] += 1
        if not verdict.answer_present:
            self._note_weak(dump, verdict)
            return
        holding = {one.chunk_id for one in verdict.evidence} or {*verdict.relevant_chunk_ids[:1]}
        for rank, chunk in enumerate(dump.chunks, start=1):
            if chunk.id in holding:
                self.ranks[next(name for name, last in _RANKS if rank <= last)] += 1
                self.scores.extend([] if chunk.score is None else [chunk.score])
                break

    def _note_weak(self, dump: RetrievalDump, verdict: Verdict) -> None:
        self.ranks[_NEVER] += 1
        kinds = [one.kind for one in verdict.inspection or ()]
        reason = "nothing was retrieved" if WarningKind.NO_CHUNKS in kinds else "nothing relevant"
        if verdict.retrieval_quality is RetrievalQuality.PARTIAL:
            reason = verdict.message
        weak = WeakQuery(
            query_id=dump.query_id,
            query=dump.query,
            retrieval_quality=verdict.retrieval_quality.value,
            answer_probability=verdict.answer_probability,
            reason=reason,
        )
        # The worst are kept: a heap's smallest is the best of them. Earlier queries win ties.
        entry = (-verdict.answer_probability, -self.ranks[_NEVER], weak)
        keep = heapq.heappush if len(self.weakest) < _WEAKEST else heapq.heappushpop
        keep(self.weakest, entry)

    def result(self) -> RetrievalDoctor:
        ranks = {name: self.ranks[name] for name in (*(name for name, _ in _RANKS), _NEVER)}
        scores, sign = sorted(self.scores, reverse=True), -1 if self.distances else 1
        return RetrievalDoctor(
            answer_ranks=ranks,
            cutoffs=tuple(
                ScoreCutoff(keeps=keeps, score=sign * scores[math.ceil(keeps * len(scores)) - 1])
                for keeps in (_KEEPS if scores else ())
            ),
            duplicates=share_of(self.duplicates, self.chunks),
            sources=tuple(
                SourceCount(source=name, chunks=count, relevant=self.relevant[name])
                for name, count in (most_frequent(self.sources) if self.sources else ())[:_SOURCES]
            ),
            weakest=tuple(weak for _, _, weak in sorted(self.weakest, reverse=True)),
            findings=tuple(self._findings(ranks)),
            compared=None if self.earlier is None else _compared(self.against, self.pairs),
        )

    def _findings(self, ranks: Mapping[str, int]) -> Iterator[DoctorFinding]:
        total, never, chunks = sum(ranks.values()), ranks[_NEVER], self.chunks
        found, deep = total - never, ranks["6-20"] + ranks["21+"]
        is_first = not deep and not ranks["2-5"]
        said = [
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
                found and deep >= _MANY * found,
                f"{deep:,} of {found:,} answers stand below rank 5",
                "add a reranker, or keep more chunks",
            ),
            (
                found >= 20 and is_first and chunks >= 2 * total,
                "every answer stands at rank 1",
                "fewer chunks (a lower k) would do",
            ),
            (
                chunks and self.duplicates >= 0.05 * chunks,
                f"{self.duplicates:,} of {chunks:,} chunks repeat an earlier one",
                "remove duplicates from the index, or after retrieval",
            ),
        ]
        for is_so, text, action in said:
            if is_so:
                yield DoctorFinding(text=text, action=action)
        look = "look whether it belongs into the index, or filter it out"
        for name, count in self.sources.most_common(_SOURCES):
            if count >= max(20, _MANY * chunks) and not self.relevant[name]:
                useless = f"'{name}' gave {count:,} chunks, none of them relevant"
                yield DoctorFinding(text=useless, action=look)


def _compared(against: str, pairs: Counter[tuple[bool, bool]]) -> PairedDumps:
    """With McNemar's exact test, two-sided: the chance of so uneven a split, were both equal."""
    won, lost = pairs[False, True], pairs[True, False]
    stats: Any = import_module("scipy.stats")
    return PairedDumps(
        against=against,
        queries=pairs.total(),
        won=won,
        lost=lost,
        p_value=float(stats.binomtest(won, won + lost).pvalue) if won + lost else 1.0,
    )


def earlier_verdicts(path: Path) -> dict[str, bool]:
    return _by_query(path, lambda row: bool(row["answer_present"]))


def earlier_retrievals(path: Path) -> dict[str, EarlierRetrieval]:
    return _by_query(
        path,
        lambda row: EarlierRetrieval(
            answer_present=bool(row["answer_present"]),
            answer_probability=float(row["answer_probability"]),
            quality=str(row["retrieval_quality"]),
            chunk_ids=tuple(map(str, row["relevance"])),
            relevant_ids=tuple(map(str, row["relevant_chunk_ids"])),
            quotes=tuple((str(one["chunk_id"]), str(one["text"])) for one in row["evidence"]),
        ),
    )


def _by_query(path: Path, read: Callable[[Mapping[str, Any]], _Read]) -> dict[str, _Read]:
    """What each verdict of a file holds; of a repeated query the first, none where it failed."""
    found: dict[str, _Read] = {}
    number = 0
    try:
        with path.open("rb") as file:  # a line at a time: of a million queries they are gigabytes
            for line in file:
                number += 1
                row = orjson.loads(line)
                if row["answer_present"] is not None:  # the validator failed on it
                    found.setdefault(str(row["query_id"]), read(row))
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise DataError([Problem(message=message, path=str(path))]) from error
    except (KeyError, TypeError, ValueError) as error:
        message = "expected a verdict of ragbench validate -o"
        raise DataError([Problem(message=message, path=str(path), line=number)]) from error
    return found
