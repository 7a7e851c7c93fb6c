"""Operators that bring in more chunks, and how rankings are fused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Annotated, Literal

from msgspec import Meta

from ragbench.core.chunk import Chunk
from ragbench.core.fusion import min_max, reciprocal_rank_scores
from ragbench.errors import InterfaceError
from ragbench.post.operator import (
    AboveZero,
    Checked,
    ChunkNeighbours,
    ChunkSearch,
    Filled,
    OperatorInput,
    OperatorOutput,
    Positive,
    RankedChunk,
    in_order,
)

Fusion = Literal["concat", "interleave", "weighted", "rrf"]

Rankings = Sequence[Sequence[RankedChunk]]


def newcomers(chunks: Sequence[Chunk]) -> list[RankedChunk]:
    """What a service gave, as chunks that retrieval did not give."""
    found: list[RankedChunk] = []
    for chunk in chunks:
        if not isinstance(chunk, Chunk):  # pyright: ignore[reportUnnecessaryIsInstance] - users' code
            raise InterfaceError(f"the chunk service gave {type(chunk).__name__}, not a Chunk")
        if chunk.score is not None and not math.isfinite(chunk.score):
            raise InterfaceError(f"the chunk service gave chunk '{chunk.id}' score {chunk.score}")
        found.append(
            RankedChunk(
                chunk=chunk,
                score=chunk.score,
                rank=len(found) + 1,
                initial_score=chunk.score,
                initial_rank=None,
            )
        )
    return found


def fuse(rankings: Rankings, fusion: Fusion, weights: Sequence[float]) -> tuple[RankedChunk, ...]:
    """Makes one ranking of several. Each chunk id appears once; the first record of it stays.

    - ``concat``: the first ranking whole, then what is new in the second, and so on. Scores stay.
    - ``interleave``: the first of each ranking, then the second of each ... Scores stay.
    - ``weighted``: by the sum of weight times score, scores brought to [0, 1] within each ranking
      by `ragbench.core.fusion.min_max` (Lee 1997; Fox & Shaw 1994, CombSUM). A ranking in which a
      chunk
      has no score counts by places instead: 1 for the first of n, 1/n for the last.
    - ``rrf``: by `ragbench.core.fusion.reciprocal_rank_scores`.

    Returns:
        The union, ranks from 1. Of equal sums the lower id comes first, as in retrieval.
    """
    if fusion == "concat":
        return in_order(_first_of_each(entry for ranking in rankings for entry in ranking))
    taken = _first_of_each(
        entry for turn in zip_longest(*rankings) for entry in turn if entry is not None
    )
    if fusion == "interleave":
        return in_order(taken)
    if fusion == "rrf":
        ids = [[entry.chunk.id for entry in ranking] for ranking in rankings]
        sums = reciprocal_rank_scores(ids, weights=weights)
    else:
        sums = _weighted_sums(rankings, weights)
    scored = [replace(entry, score=sums[entry.chunk.id]) for entry in taken]
    return in_order(sorted(scored, key=lambda entry: (-sums[entry.chunk.id], entry.chunk.id)))


def _first_of_each(entries: Iterable[RankedChunk]) -> list[RankedChunk]:
    known: dict[str, RankedChunk] = {}
    for entry in entries:
        known.setdefault(entry.chunk.id, entry)
    return list(known.values())


def _weighted_sums(rankings: Rankings, weights: Sequence[float]) -> dict[str, float]:
    sums: dict[str, list[float]] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        met: set[str] = set()
        for entry, share in zip(ranking, _scaled_scores(ranking), strict=True):
            if entry.chunk.id not in met:  # a repeated id counts where it stands best
                met.add(entry.chunk.id)
                sums.setdefault(entry.chunk.id, []).append(weight * share)
    return {id: math.fsum(parts) for id, parts in sums.items()}


def _scaled_scores(ranking: Sequence[RankedChunk]) -> list[float]:
    scores = [entry.score for entry in ranking if entry.score is not None]
    if len(scores) < len(ranking):
        return [1.0 - place / len(ranking) for place in range(len(ranking))]
    return min_max(scores)


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkExpand(Checked):
    """Asks the service for the neighbours of the first chunks, then for those of what it found."""

    name = "merge.link_expand"

    service: ChunkNeighbours
    """Where the chunks came from."""
    first: Positive = 3
    """How many of the chunks that stand are expanded."""
    depth: Positive = 1
    """How many links away a chunk may be."""
    top_k: Positive = 5
    """How many neighbours to ask for at each chunk."""
    fusion: Fusion = "concat"
    """How what was found joins what stood there; see `ragbench.post.merge`."""
    weight: AboveZero = 0.5
    """Of what was found, against 1 for what stood there; for ``weighted`` and ``rrf``."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`: every chunk that came in is among those that go out."""
        found = self._neighbours(context.chunks[: self.first])
        chunks = fuse([context.chunks, found], self.fusion, (1.0, self.weight))
        added = len(chunks) - len({entry.chunk.id for entry in context.chunks})
        return OperatorOutput(chunks=chunks, notes=(f"{added} chunks were added",))

    def _neighbours(self, starts: tuple[RankedChunk, ...]) -> list[RankedChunk]:
        """In breadth: all that is one link away, then all that is two ..."""
        asked: set[str] = set()
        found: dict[str, RankedChunk] = {}
        frontier = [entry.chunk.id for entry in starts]
        for _ in range(self.depth):
            following: list[str] = []
            for id in frontier:
                if id in asked:
                    continue
                asked.add(id)
                for entry in newcomers(self.service.neighbours(id, self.top_k))[: self.top_k]:
                    if entry.chunk.id not in found:
                        found[entry.chunk.id] = entry
                        following.append(entry.chunk.id)
            frontier = following
        return list(found.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class SecondaryQuery(Checked):
    """One more query to ask."""

    query: Filled
    """Its text; ``{question}`` stands for the question."""
    top_k: Positive = 5
    """How many chunks to ask for."""
    weight: AboveZero = 1.0
    """Against 1 for the chunks that stand; for ``weighted`` and ``rrf``."""

    def about(self, question: str) -> str:
        return self.query.replace("{question}", question)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryMerge(Checked):
    """Searches by further queries and fuses what they find with what stands."""

    name = "merge.multi_query"

    service: ChunkSearch
    """Where the chunks came from."""
    queries: Annotated[Sequence[SecondaryQuery], Meta(min_length=1)]
    """What else to ask."""
    fusion: Fusion = "concat"
    """How the rankings become one; see `ragbench.post.merge`."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`: every chunk that came in is among those that go out."""
        found = [
            newcomers(self.service.search(query.about(context.query.text), query.top_k))[
                : query.top_k
            ]
            for query in self.queries
        ]
        weights = (1.0, *(query.weight for query in self.queries))
        chunks = fuse([context.chunks, *found], self.fusion, weights)
        added = len(chunks) - len({entry.chunk.id for entry in context.chunks})
        return OperatorOutput(chunks=chunks, notes=(f"{added} chunks were added",))
