"""Words that the store itself ranks: how a new collection keeps them, and the search by them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

from ragbench.core.chunk import Chunk, Document
from ragbench.core.filters import Filter
from ragbench.errors import ConfigError, warn
from ragbench.pipeline.chunking import Chunker, document_chunks
from ragbench.pipeline.sparse_index import function_tokens
from ragbench.pipeline.strategies import Search
from ragbench.stores.collection import WordCollection
from ragbench.stores.database import Database
from ragbench.stores.record import similarity
from ragbench.stores.words import WordsForm, WordVector, check_words, word_number
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

    store: WordCollection
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
        """Whether each chunk has a word that counts; looked up where its score is low."""
        return all(
            (chunk.score or 0.0) > asked.idle + _ROUNDED
            or not asked.telling.isdisjoint(self.store.words.vector(chunk))
            for chunk in ranking
            if asked.idle
        )

    def _rescored(self, asked: _Asked, k: int, filters: Filter | None) -> list[Chunk]:
        """The first `k` of the chunks that have a word that counts.

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


WordsPlace: TypeAlias = Literal["here", "store"]
"""Who ranks by words: ragbench, from an index that it builds of all chunks; or the store."""

_DRIFT = 0.1
"""From such a share on a warning says that chunks have become longer or shorter."""


class AverageLength:
    """Tokens of a chunk, on average over those that were seen."""

    def __init__(self, form: WordsForm) -> None:
        self._form = form
        self._tokens = 0
        self._chunks = 0

    def see(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            self._tokens += len(self._form.tokens(chunk))
            self._chunks += 1

    @property
    def value(self) -> float:
        return self._tokens / self._chunks if self._chunks else 0.0

    def warn_of_drift(self) -> None:
        """Says that chunks are no longer as long as those that the words were weighed by."""
        was = self._form.average
        if not was or abs(self.value - was) <= _DRIFT * was:
            return
        warn(
            f"the chunks have {self.value:,.1f} words on average now; BM25 in the store holds long "
            f"ones down by {was:,.1f}, the average when the collection was made. To renew it, "
            "remove the collection with 'ragbench index --drop NAME' and index the corpus again"
        )


def words_of(
    place: WordsPlace | None,
    database: Database,
    collection: str,
    documents: Iterable[Document],
    chunker: Chunker,
) -> WordsForm | None:
    """How a collection keeps words; of a new one the average length is measured.

    None where the store is not to rank by words.
    """
    if place is None:
        return None
    if place not in get_args(WordsPlace):
        raise ConfigError(f"words must be one of {', '.join(get_args(WordsPlace))}, not '{place}'")
    measured = WordsForm(average=0.0)
    check_words(database, measured if place == "store" else None)
    if collection in database.collections():
        with database.open(collection) as store:
            kept = store.info().words
        if (place == "store") != (kept is not None):
            made = "by ragbench" if kept is None else "by the store"
            raise ConfigError(
                f"the collection '{collection}' was made to be ranked {made} by words: leave "
                "--words out, or index the corpus under another name"
            )
        return kept
    if place == "here":
        return None
    length = AverageLength(measured)
    for document in documents:
        length.see(document_chunks(document, chunker))
    return replace(measured, average=length.value)
