"""How good an order of candidates is, and scores kept for those who combine them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.rerank_data import Question
from ragbench import Chunk, Query, build_reranker, rerank
from ragbench.post.operator import RankedChunk, ranked
from ragbench.post.rerank import Reranker

TOP = 5

Order = list[str]
"""Chunk ids, best first."""
Table = list[dict[str, float]]
"""For each question the scores of its candidates by chunk id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    relevance: float
    """The mean grade of the first five."""
    ndcg: float
    """Grades as gains, all judged chunks for the ideal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """What one first stage found."""

    questions: Sequence[Question]
    queries: Sequence[Query]
    found: Sequence[Sequence[Chunk]]

    def first(self, count: int) -> Pool:
        return Pool(
            questions=self.questions[:count],
            queries=self.queries[:count],
            found=self.found[:count],
        )

    def retrieved(self) -> Quality:
        return mean(self.questions, [[chunk.id for chunk in chunks] for chunks in self.found])

    def ceiling(self) -> Quality:
        """Of the best order of the same candidates."""
        orders: list[Order] = []
        for question, chunks in zip(self.questions, self.found, strict=True):
            grades = {chunk.id: question.gains.get(chunk.id, 0.0) for chunk in chunks}
            orders.append(sorted(grades, key=grades.__getitem__, reverse=True))
        return mean(self.questions, orders)

    def scores(self, settings: Sequence[object]) -> Table:
        """What rerankers give that stand one behind the other."""
        rerankers = [build_reranker(one) for one in settings]
        return [
            self._scores(query, chunks, rerankers)
            for query, chunks in zip(self.queries, self.found, strict=True)
        ]

    def given(self) -> Table:
        return [{chunk.id: chunk.score or 0.0 for chunk in chunks} for chunks in self.found]

    def orders(self, table: Table) -> list[Order]:
        """The candidates by falling score; of equals, the one that retrieval put first."""
        return [
            sorted([chunk.id for chunk in chunks], key=scores.__getitem__, reverse=True)
            for scores, chunks in zip(table, self.found, strict=True)
        ]

    def quality(self, table: Table) -> Quality:
        """Of these orders."""
        return mean(self.questions, self.orders(table))

    @staticmethod
    def _scores(
        query: Query, chunks: Sequence[Chunk], rerankers: Sequence[Reranker]
    ) -> dict[str, float]:
        current: Sequence[RankedChunk] = ranked(chunks)
        for reranker in rerankers:
            current = rerank(query, current, reranker, on_error="raise").chunks
        return {one.chunk.id: one.score or 0.0 for one in current}


def mean(questions: Sequence[Question], orders: Sequence[Order]) -> Quality:
    pairs = list(zip(questions, orders, strict=True))
    return Quality(
        relevance=sum(relevance(one.gains, order) for one, order in pairs) / len(pairs),
        ndcg=sum(ndcg(one.gains, order) for one, order in pairs) / len(pairs),
    )


def relevance(gains: Mapping[str, float], order: Order) -> float:
    return math.fsum(gains.get(id_, 0.0) for id_ in order[:TOP]) / TOP


def ndcg(gains: Mapping[str, float], order: Order) -> float:
    ideal = sorted(gains.values(), reverse=True)[:TOP]
    return _discounted([gains.get(id_, 0.0) for id_ in order[:TOP]]) / _discounted(ideal)


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
