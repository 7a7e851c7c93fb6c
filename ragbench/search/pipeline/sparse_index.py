"""The chunks of a collection ranked by words: the index, and where it is kept."""

from __future__ import annotations

import importlib
import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter, matcher
from ragbench.core.record import Record, replace
from ragbench.errors import InputError, warn
from ragbench.io.atomic import folder_written_whole
from ragbench.ledger.scores import user_cache
from ragbench.plugins import Floats32, np
from ragbench.search.pipeline.strategies import Search
from ragbench.search.stores.collection import OwnCollection
from ragbench.search.stores.record import (
    WordsForm,
    WordVector,
    searched_fields,
    similarity,
    word_number,
)
from ragbench.text.language import guess_language
from ragbench.text.question import function_tokens
from ragbench.text.tokens import TOKENISER_VERSION, chunk_tokens, tokenise

INDEX_FORM = 2
"""Changes with what a kept index holds."""
_MOST_KEPT = 2**30
"""Bytes that kept indexes may take together; those used longest ago are removed first."""


sparse_cache_folder = partial(user_cache, "RAGBENCH_BM25_CACHE", "bm25")
"""Where BM25 indexes are kept, in an environment; None where they are not."""


def kept_index(folder: Path, store: OwnCollection) -> SparseStrategy:
    """The index of a store that a folder holds, or one that is built and kept there.

    The folder's siblings are removed, those used longest ago first, while all of them take more
    than 1 GiB. A folder that cannot be written costs time, not the search.
    """
    index = SparseStrategy.load(folder, store)
    if index is not None:
        os.utime(folder)
        return index
    index, total = SparseStrategy.build(store), 0
    with suppress(OSError, InputError):
        index.save(folder)
        age = {one: -one.stat().st_mtime for one in folder.parent.iterdir()}
        for one in sorted(age, key=age.__getitem__):
            total += sum(file.stat().st_size for file in one.glob("*"))
            if total > _MOST_KEPT and one != folder:
                shutil.rmtree(one, ignore_errors=True)
    return index


_BATCH = 1000
_IDS = "ids.json"
_METADATA = "metadata.json"


_LARGE = 100_000
"""Chunks from which on a warning says what an index takes: a minute and more for so many, and 50
bytes of memory a word."""


class Bm25Scores:
    """Scores of texts, named by their position; `pipeline.baseline` has the formula."""

    def __init__(self, size: int, vocabulary: dict[str, int], index: Any) -> None:
        self.size = size
        self._vocabulary = vocabulary
        self._index = index

    @classmethod
    def build(cls, texts: Iterable[Sequence[str]], *, k1: float, b: float) -> Bm25Scores:
        vocabulary: dict[str, int] = {}
        number = vocabulary.setdefault
        tokens = [[number(token, len(vocabulary)) for token in text] for text in texts]
        if not vocabulary:
            return cls(len(tokens), vocabulary, None)
        # By name, because the package has no types.
        index = importlib.import_module("bm25s").BM25(method="lucene", k1=k1, b=b, backend="numpy")
        # Without its "empty token", which would stand for queries that match nothing.
        index.index((tokens, vocabulary), create_empty_token=False, show_progress=False)
        return cls(len(tokens), vocabulary, index)

    def save(self, folder: Path) -> None:
        """Writes the index into a folder that exists."""
        if self._index is not None:
            self._index.save(str(folder), show_progress=False)

    @classmethod
    def load(cls, folder: Path, size: int) -> Bm25Scores:
        """Reads what `save` wrote, of ``size`` texts; the numbers stay on the disk until used."""
        if not (folder / "params.index.json").is_file():
            return cls(size, {}, None)
        load = importlib.import_module("bm25s").BM25.load
        index = load(str(folder), mmap=True, show_progress=False)
        return cls(size, index.vocab_dict, index)

    def scores(self, tokens: Iterable[str]) -> Floats32 | None:
        """The score of every text; None where no token is known."""
        ids = [self._vocabulary[token] for token in tokens if token in self._vocabulary]
        if not ids:
            return None
        found: Floats32 = self._index.get_scores_from_ids(ids)
        return found

    def idf(self, token: str) -> float:
        """The inverse document frequency of a token, as in the formula; highest if unknown."""
        known = self._vocabulary.get(token)
        frequency = 0
        if known is not None:
            starts = self._index.scores["indptr"]
            frequency = int(starts[known + 1]) - int(starts[known])
        return math.log(1 + (self.size - frequency + 0.5) / (frequency + 0.5))

    @staticmethod
    def best(scores: Floats32, k: int) -> list[tuple[int, float]]:
        """Positions and values of the k highest scores above 0; of equals, the first one first.

        The package's own selection leaves the order of equal scores open.
        """
        found = np.flatnonzero(scores > 0)
        if len(found) > k:
            least = np.partition(scores[found], len(found) - k)[len(found) - k]
            found = found[scores[found] >= least]
        order = found[np.argsort(-scores[found], kind="stable")][:k]
        return [(int(at), float(scores[at])) for at in order]


@dataclass(eq=False, kw_only=True, slots=True)
class SparseStrategy:
    """Ranks the chunks of a collection by words, rare ones above all.

    A score is the BM25 of a chunk divided by the inverse document frequencies of all words of the
    query: how much of the query's weight the chunk holds, in [0, 1). It is comparable between
    queries, which BM25 itself is not, and it never changes a ranking.

    A chunk that shares nothing with the query but words such as "the" and "is" does not match.
    """

    store: OwnCollection
    ids: Sequence[str]
    metadata: Callable[[], Sequence[Any]]
    scores: Bm25Scores
    _passing: tuple[str, Any] = ("", None)

    @classmethod
    def build(cls, store: OwnCollection) -> SparseStrategy:
        """Reads all chunks of a store and indexes them; see `pipeline.baseline.Bm25Index`.

        From 100,000 chunks on, a warning says what to do where that takes too much.
        """
        ids = sorted(store.digests())
        if len(ids) >= _LARGE:
            warn(
                f"BM25 is built of all {len(ids):,} chunks, once, in this process, which takes "
                "minutes and gigabytes of memory; indexed into Qdrant with --words store, Qdrant "
                "ranks by the same scores, and nothing is built"
            )
        metadata: list[Any] = []
        tokens: list[list[str]] = []
        for start in range(0, len(ids), _BATCH):
            for chunk in store.get(ids[start : start + _BATCH]).values():
                metadata.append(dict(searched_fields(chunk)))
                tokens.append(chunk_tokens(chunk.text, chunk.metadata.get("title"), 2))
        scores = Bm25Scores.build(tokens, k1=1.2, b=0.75)
        return cls(store=store, ids=ids, metadata=lambda: metadata, scores=scores)

    def save(self, folder: Path) -> None:
        """Writes the index to a folder, which appears whole or not at all."""
        with folder_written_whole(folder, replaceable=lambda _: True) as draft:
            self.scores.save(draft)
            (draft / _METADATA).write_bytes(orjson.dumps(self.metadata()))
            (draft / _IDS).write_bytes(orjson.dumps(self.ids))

    @classmethod
    def load(cls, folder: Path, store: OwnCollection) -> SparseStrategy | None:
        """Reads what `save` wrote; None where there is nothing, or nothing that can be read."""
        try:
            ids: list[str] = orjson.loads((folder / _IDS).read_bytes())
            scores = Bm25Scores.load(folder, len(ids))
        except (OSError, ValueError, KeyError):
            return None

        def metadata() -> Any:  # which only filters ask for
            return orjson.loads((folder / _METADATA).read_bytes())

        return cls(store=store, ids=ids, metadata=metadata, scores=scores)

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        rankings = [self._ranked(query, search) for query in queries]
        chunks = self.store.get(sorted({id_ for ranking in rankings for id_, _ in ranking}))
        return [
            [replace(chunks[id_], score=score) for id_, score in ranking if id_ in chunks]
            for ranking in rankings
        ]

    def _ranked(self, query: str, search: Search) -> list[tuple[str, float]]:
        """The ids of the chunks that share a word with the query, and their scores, best first."""
        filters, tokens = search.filters, tokenise(query)
        scores = self.scores.scores(tokens)
        if scores is None:
            return []
        if filters is not None:
            # By what it says: to Python 1 and True are equal.
            if self._passing[0] != repr(filters):
                passes = map(matcher(filters), self.metadata())
                self._passing = repr(filters), np.fromiter(passes, dtype=np.bool_)
            scores = scores * self._passing[1]
        idle = function_tokens(guess_language(query))
        if telling := [token for token in tokens if token not in idle]:
            if (matched := self.scores.scores(telling)) is None:
                return []
            scores = scores * (matched > 0)
        whole = sum(self.scores.idf(token) for token in tokens)
        best, least = Bm25Scores.best(scores, search.k), search.threshold or 0.0
        return [(self.ids[at], value / whole) for at, value in best if value / whole >= least]

    def idf(self, token: str) -> float:
        return self.scores.idf(token)

    @property
    def identity(self) -> Mapping[str, object]:
        return {"tokeniser": TOKENISER_VERSION}


_ROUNDED = 1e-6
"""Scores of a store have six decimals."""


class _Asked(Record):
    shares: WordVector
    """The words that chunks have: how often each stands in the question, divided by what all of
    the question's words are worth."""
    telling: frozenset[int]
    """Those of which a chunk must have one."""
    idle: float
    """The most that a chunk can score by the other ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredWordsStrategy:
    """The chunks that share words with the query, as `SparseStrategy` has them.

    The store ranks and filters; nothing of the collection is read but what is found.
    """

    store: OwnCollection
    words: WordsForm
    _weights: dict[int, float] = field(default_factory=dict[int, float])
    """What words are worth, as far as it was asked for."""
    _held: set[int] = field(default_factory=set[int])
    """Those of them that a chunk has."""

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        tokens = [tokenise(query) for query in queries]
        self._learn(word_number(token) for one in tokens for token in one)
        found: list[list[Chunk]] = [[] for _ in queries]
        known = {at: self._asked(query, tokens[at]) for at, query in enumerate(queries)}
        asked = {at: one for at, one in known.items() if one is not None}
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

    @property
    def identity(self) -> Mapping[str, object]:
        """How the store keeps the words that it ranks by."""
        return {"words": asdict(self.words)}

    def _learn(self, numbers: Iterable[int]) -> None:
        new = [number for number in dict.fromkeys(numbers) if number not in self._weights]
        found = dict(zip(new, self.store.word_weights(new), strict=True))
        held = {number: weight for number, weight in found.items() if weight is not None}
        weights = dict(held)
        if len(held) < len(new):
            weights = dict.fromkeys(new, math.log(1 + (self.store.count() + 0.5) / 0.5)) | held
        # In this order: another thread takes a weight that is there for known in full.
        self._held.update(held)
        self._weights.update(weights)

    def _asked(self, query: str, tokens: Sequence[str]) -> _Asked | None:
        """The question in numbers; None where no chunk can match."""
        idle = function_tokens(guess_language(query))
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
            or not asked.telling.isdisjoint(self.words.vector(chunk))
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
        has, shares = self.words.vector(chunk), asked.shares.items()
        parts = (share * self._weights[at] * has.get(at, 0.0) for at, share in shares)
        return similarity(math.fsum(parts))
