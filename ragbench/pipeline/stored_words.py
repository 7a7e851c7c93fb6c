"""Search by words that the store itself ranks, with the scores of `SparseIndex`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter
from ragbench.pipeline.sparse_index import function_tokens
from ragbench.pipeline.strategies import Search
from ragbench.stores.record import similarity
from ragbench.stores.words import RanksWords, WordVector, word_number
from ragbench.text.tokens import tokenise

_ROUNDED = 1e-6
"""Scores of a store have six decimals."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """A question in numbers."""

    shares: WordVector
    """The words that chunks have: how often each stands in the question, divided by what all of
    the question's words are worth."""
    telling: frozenset[int]
    """Those of which a chunk must have one."""
    idle: float
    """The most that a chunk can score by the other ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredWordsStrategy:
    """The chunks that share words with the query, as `ragbench.pipeline.sparse_index.SparseIndex`.

    The store ranks and filters; nothing of the collection is read but what is found.
    """

    store: RanksWords
    _weights: dict[int, float] = field(default_factory=dict[int, float])
    """What words are worth, as far as it was asked for."""
    _held: set[int] = field(default_factory=set[int])
    """Those of them that a chunk has."""

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        tokens = [tokenise(query) for query in queries]
        self._learn(word_number(token) for one in tokens for token in one)
        found: list[list[Chunk]] = [[] for _ in queries]
        asked = {
            at: one
            for at, query in enumerate(queries)
            if (one := self._asked(query, tokens[at])) is not None
        }
        rankings = self.store.search_words(
            [one.shares for one in asked.values()], k=search.k, filters=search.filters
        )
        least = search.threshold or 0.0
        for (at, one), ranking in zip(asked.items(), rankings, strict=True):
            if not self._all_tell(one, ranking):
                ranking = self._rescored(one, search.k, search.filters)
            found[at] = [chunk for chunk in ranking if (chunk.score or 0.0) >= least]
        return found

    def idf(self, token: str) -> float:
        """The inverse document frequency of a token among the chunks; highest if unknown."""
        number = word_number(token)
        self._learn([number])
        return self._weights[number]

    def _learn(self, numbers: Iterable[int]) -> None:
        new = [number for number in dict.fromkeys(numbers) if number not in self._weights]
        found = dict(zip(new, self.store.word_weights(new), strict=True))
        held = {number: weight for number, weight in found.items() if weight is not None}
        weights = dict(held)
        if len(held) < len(new):
            unknown = math.log(1 + (self.store.count() + 0.5) / 0.5)
            weights = dict.fromkeys(new, unknown) | held
        # In this order: another thread takes a weight that is there for known in full.
        self._held.update(held)
        self._weights.update(weights)

    def _asked(self, query: str, tokens: Sequence[str]) -> _Asked | None:
        """The question in numbers; None where no chunk can match."""
        idle = function_tokens(query)
        telling = {word_number(token) for token in tokens if token not in idle}
        times = Counter(map(word_number, tokens))
        held = times.keys() & self._held
        wanted = frozenset(telling or times) & held
        if not wanted:
            return None
        worth = {number: count * self._weights[number] for number, count in times.items()}
        whole = sum(worth.values())
        return _Asked(
            shares={number: times[number] / whole for number in times if number in held},
            telling=wanted,
            idle=sum(worth[number] for number in held - wanted) / whole,
        )

    def _all_tell(self, asked: _Asked, ranking: Sequence[Chunk]) -> bool:
        """Whether each chunk has one of the words that tell; looked up where its score is low."""
        return all(
            (chunk.score or 0.0) > asked.idle + _ROUNDED
            or not asked.telling.isdisjoint(self.store.words.vector(chunk))
            for chunk in ranking
            if asked.idle
        )

    def _rescored(self, asked: _Asked, k: int, filters: Filter | None) -> list[Chunk]:
        """The first `k` of the chunks that have a word that tells.

        The store ranks by those words alone, as many chunks as it takes until none that comes after
        them could be among the first, whatever it has of the other words.
        """
        telling = {number: asked.shares[number] for number in asked.telling}
        limit = 4 * k
        while True:
            (found,) = self.store.search_words([telling], k=limit, filters=filters)
            chunks = [replace(chunk, score=self._score(asked, chunk)) for chunk in found]
            chunks.sort(key=lambda chunk: (-(chunk.score or 0.0), chunk.id))
            last = (found[-1].score or 0.0) + asked.idle + _ROUNDED if found else 0.0
            if len(found) < limit or (chunks[k - 1].score or 0.0) > last:
                return chunks[:k]
            limit *= 4

    def _score(self, asked: _Asked, chunk: Chunk) -> float:
        has = self.store.words.vector(chunk)
        parts = (
            share * self._weights[number] * has.get(number, 0.0)
            for number, share in asked.shares.items()
        )
        return similarity(math.fsum(parts))
