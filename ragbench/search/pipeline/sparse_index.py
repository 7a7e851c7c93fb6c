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
from itertools import chain
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
from ragbench.search.pipeline.strategies import BM25, ScoreMeaning, Search
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
_MAX_CACHE_BYTES = 2**30
"""Bytes (1 GiB) that kept indexes may take together; those used longest ago are removed first."""


sparse_cache_folder = partial(user_cache, "RAGBENCH_BM25_CACHE", "bm25")
"""Where BM25 indexes are kept, in an environment; None where they are not."""


def kept_index(folder: Path, store: OwnCollection) -> SparseStrategy:
    """The BM25 index of a store's chunks, read from its folder, or built and kept there.

    Building reads the whole store; from a kept index the next process searches at once. The
    folder's siblings are removed, those used longest ago first, while all of them take more than 1
    GiB. A folder that cannot be written costs time, not the search.
    """
    index = SparseStrategy.load(folder, store)
    if index is not None:
        os.utime(folder)  # its time says when it was last used
        return index
    index = SparseStrategy.build(store)
    with suppress(OSError, InputError):
        index.save(folder)
        _remove_oldest(folder.parent, spared=folder)
    return index


def _remove_oldest(parent: Path, spared: Path) -> None:
    """Removes kept BM25 indexes beyond the limit, so that the cache cannot fill a disk.

    The one used longest ago goes first; the spared one, just written, stays whatever its size.
    """
    last_used = {folder: folder.stat().st_mtime for folder in parent.iterdir()}
    total = 0
    # The indexes used last come first: those behind, which no longer fit into the limit, are the
    # ones used longest ago.
    latest_first = sorted(last_used, key=lambda folder: -last_used[folder])
    for folder in latest_first:
        # What is removed stays in the sum: nothing older than it is kept, however small.
        total += sum(file.stat().st_size for file in folder.glob("*"))
        if total > _MAX_CACHE_BYTES and folder != spared:
            shutil.rmtree(folder, ignore_errors=True)


_BATCH = 1000
"""Chunks that one request reads of the store: of each only its fields and tokens stay in memory."""
_IDS = "ids.json"
_METADATA = "metadata.json"
_LARGE = 100_000
"""Chunks from which on a warning says what an index takes: a minute and more for so many, and 50
bytes of memory a word."""
_BM25_K1 = 1.2
_BM25_B = 0.75
"""Those of `WordsForm`, too, so that an index here and a store that ranks give the same scores."""


class Bm25Scores:
    """Scores of texts, named by their position; `pipeline.baseline` has the formula."""

    def __init__(self, size: int, vocabulary: dict[str, int], index: Any) -> None:
        """BM25 scores of `size` texts, by the index of the package; None where no text has a word.

        `build` and `load` make one.

        Args:
            vocabulary: the number of each token.
        """
        self.size = size
        self._vocabulary = vocabulary
        self._index = index

    @classmethod
    def build(cls, texts: Iterable[Sequence[str]], *, k1: float, b: float) -> Bm25Scores:
        """A BM25 index of texts that come as their tokens.

        Scores are Lucene's BM25, as in the store that ranks by words itself.

        Args:
            k1: how slowly repeated tokens stop counting.
            b: how much long texts are held down, in [0, 1].
        """
        vocabulary: dict[str, int] = {}
        numbers: list[list[int]] = []
        for tokens in texts:
            # A token that was not seen yet has the next number.
            numbers.append([vocabulary.setdefault(token, len(vocabulary)) for token in tokens])
        if not vocabulary:
            # Without words the average length is 0, and the package's formula divides by it.
            return cls(len(numbers), vocabulary, None)
        # Imported by its name, because the package has no types.
        bm25s: Any = importlib.import_module("bm25s")
        index = bm25s.BM25(method="lucene", k1=k1, b=b, backend="numpy")
        # Without the package's "empty token", which would be found by queries that find nothing.
        index.index((numbers, vocabulary), create_empty_token=False, show_progress=False)
        return cls(len(numbers), vocabulary, index)

    def save(self, folder: Path) -> None:
        """Writes the BM25 index into a folder that exists; `load` reads it back.

        An index of texts without words has no files.
        """
        if self._index is not None:
            self._index.save(str(folder), show_progress=False)

    @classmethod
    def load(cls, folder: Path, size: int) -> Bm25Scores:
        """The BM25 index that `save` wrote; its numbers stay on the disk until they are used.

        A large index is open at once that way.

        Args:
            size: the number of its texts.
        """
        if not (folder / "params.index.json").is_file():
            return cls(size, {}, None)  # `save` writes nothing of texts without a token
        bm25s: Any = importlib.import_module("bm25s")
        index = bm25s.BM25.load(str(folder), mmap=True, show_progress=False)
        return cls(size, index.vocab_dict, index)

    def scores(self, tokens: Iterable[str]) -> Floats32 | None:
        """The BM25 score of every text for these tokens; None where no text has any of them.

        The array is in the order of the texts.
        """
        # A token as often as the question has it: a repeated one counts more.
        ids = [self._vocabulary[token] for token in tokens if token in self._vocabulary]
        if not ids:
            return None
        scores: Floats32 = self._index.get_scores_from_ids(ids)
        return scores

    def idf(self, token: str) -> float:
        """The inverse document frequency of a token, as in BM25's formula.

        The highest for an unknown token. The frequency says how rare a token is, and so how much a
        text with the token is about it.
        """
        number = self._vocabulary.get(token)
        frequency = 0
        if number is not None:
            # The texts with a token lie together: its own start to that of the next token.
            starts = self._index.scores["indptr"]
            frequency = int(starts[number + 1]) - int(starts[number])
        return math.log(1 + (self.size - frequency + 0.5) / (frequency + 0.5))

    @staticmethod
    def best(scores: Floats32, k: int) -> list[tuple[int, float]]:
        """The positions and scores of the `k` best texts above 0.

        Of equal scores the first text first. The package's own selection leaves the order of equal
        scores open, and rankings would not repeat.
        """
        positions = np.flatnonzero(scores > 0)
        if len(positions) > k:
            # Only what may be among the first k is sorted.
            kth_from_below = len(positions) - k
            kth_best = np.partition(scores[positions], kth_from_below)[kth_from_below]
            positions = positions[scores[positions] >= kth_best]
        order = np.argsort(-scores[positions], kind="stable")  # stable: equals stay in their order
        best = positions[order][:k]
        return [(int(position), float(scores[position])) for position in best]


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
    """Reads the metadata of all chunks, in the order of their ids."""
    scores: Bm25Scores
    _last_filter: tuple[str, Any] = ("", None)
    """The filter that was used last, and which chunks pass it: the queries of a run share one."""

    @classmethod
    def build(cls, store: OwnCollection) -> SparseStrategy:
        """A search by words over all chunks of a store; they are read and indexed here.

        From `_LARGE` chunks on, a warning says how to let the store rank instead.
        """
        ids = sorted(store.digests())  # so that equal scores are in the order of ids
        if len(ids) >= _LARGE:
            warn(
                f"BM25 is built of all {len(ids):,} chunks, once, in this process, which takes "
                "minutes and gigabytes of memory; indexed into Qdrant with --words store, Qdrant "
                "ranks by the same scores, and nothing is built"
            )
        metadata: list[Any] = []
        tokens: list[list[str]] = []
        for start in range(0, len(ids), _BATCH):
            # `get` gives the chunks in the order of `ids`: a position in the index means an id.
            for chunk in store.get(ids[start : start + _BATCH]).values():
                metadata.append(dict(searched_fields(chunk)))
                title = chunk.metadata.get("title")
                # A title counts twice, as where a store keeps the words (`WordsForm`), so that both
                # rankings give the same scores.
                tokens.append(chunk_tokens(chunk.text, title, 2))
        scores = Bm25Scores.build(tokens, k1=_BM25_K1, b=_BM25_B)
        return cls(store=store, ids=ids, metadata=lambda: metadata, scores=scores)

    def save(self, folder: Path) -> None:
        """Writes the index into a folder, which appears whole or not at all; `load` reads it back.

        With other files `INDEX_FORM` has to rise: an older folder would be misread.
        """
        # Any folder of this name is replaced: its name holds all that an index depends on.
        with folder_written_whole(folder, replaceable=lambda _: True) as draft:
            self.scores.save(draft)
            (draft / _METADATA).write_bytes(orjson.dumps(self.metadata()))
            (draft / _IDS).write_bytes(orjson.dumps(self.ids))

    @classmethod
    def load(cls, folder: Path, store: OwnCollection) -> SparseStrategy | None:
        """The search by words from the index in a folder.

        None where there is none that can be read.
        """
        try:
            ids: list[str] = orjson.loads((folder / _IDS).read_bytes())
            scores = Bm25Scores.load(folder, len(ids))
        except Exception:  # noqa: BLE001  # whatever is wrong with it, it is made anew
            return None
        # The metadata are read when they are first needed: only filters do.
        metadata = partial(_kept_metadata, folder)
        return cls(store=store, ids=ids, metadata=metadata, scores=scores)

    @property
    def score_meaning(self) -> ScoreMeaning:
        """The meaning of the scores.

        BM25 as a share of the query's weight, which thresholds compare with. Reports print the
        meaning wherever they show scores.
        """
        return BM25

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        """For each query the chunks that share words with it, best first, by the index in memory.

        The chunks of all results are read from the store in one request.
        """
        rankings = [self._ranked_ids(query, search) for query in queries]
        ids: set[str] = set()
        for ranking in rankings:
            ids.update(id_ for id_, _ in ranking)
        chunks = self.store.get(sorted(ids))
        results: list[list[Chunk]] = []
        for ranking in rankings:
            result: list[Chunk] = []
            for id_, score in ranking:
                if id_ in chunks:  # it may have been deleted since the index was built
                    result.append(replace(chunks[id_], score=score))
            results.append(result)
        return results

    def _ranked_ids(self, query: str, search: Search) -> list[tuple[str, float]]:
        """The ids and scores of the chunks that share a word with a query, best first.

        A score is the share of the query's weight that a chunk holds, in [0, 1). Words such as
        "the" do not match by themselves, unless the query has no others.
        """
        tokens = tokenise(query)
        scores = self.scores.scores(tokens)
        if scores is None:
            return []
        # Chunks that may not be in the result are given 0, which `best` leaves out.
        if search.filters is not None:
            scores = scores * self._passing_chunks(search.filters)
        function_words = function_tokens(guess_language(query))
        content = [token for token in tokens if token not in function_words]
        # A chunk must share more than "the"; a query of such words alone matches by them.
        if content:
            content_scores = self.scores.scores(content)
            if content_scores is None:
                return []
            scores = scores * (content_scores > 0)
        whole = sum(self.scores.idf(token) for token in tokens)
        threshold = search.threshold or 0.0
        ranking: list[tuple[str, float]] = []
        for position, score in Bm25Scores.best(scores, search.k):
            share = score / whole
            if share >= threshold:
                ranking.append((self.ids[position], share))
        return ranking

    def _passing_chunks(self, filters: Filter) -> Any:
        """For each chunk whether it passes the filter, as an array in the order of the index.

        The array of the last filter is kept: a run searches with one filter, question after
        question.
        """
        # Filters are compared by their text: to Python a filter for 1 equals one for True.
        key = repr(filters)
        last_key, passing = self._last_filter
        if last_key != key:
            passes = map(matcher(filters), self.metadata())
            passing = np.fromiter(passes, dtype=np.bool_)
            self._last_filter = (key, passing)
        return passing

    def idf(self, token: str) -> float:
        """How rare a word is among the indexed chunks; quoted answers weigh words by it, too.

        Rankings and quoted answers then agree on which words of a question matter.
        """
        return self.scores.idf(token)

    @property
    def identity(self) -> Mapping[str, object]:
        """All that the rankings depend on besides the chunks.

        Stored results are used while it is the same.
        """
        return {"tokeniser": TOKENISER_VERSION}


def _kept_metadata(folder: Path) -> Any:
    """The metadata of all chunks that a BM25 index in a folder was kept with, in its order.

    Only filters need them, so they are read at the first filter. A JSON list, as
    `SparseStrategy.save` writes it.
    """
    return orjson.loads((folder / _METADATA).read_bytes())


_ROUNDED = 1e-6
"""Scores of a store have six decimals: closer to a limit than this, a score shows nothing."""


class _Question(Record):
    """A question in the numbers of its words, as a store ranks by them."""

    shares: WordVector
    """The words that chunks have: how often each occurs in the question, divided by what all of
    the question's words are worth."""
    content: frozenset[int]
    """Those of which a chunk must have one: words such as "the" do not match by themselves."""
    function_share: float
    """The most that a chunk can score by the other ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredWordsStrategy:
    """The chunks that share words with the query, as `SparseStrategy` has them.

    The store ranks and filters; only the chunks of the results are read. So nothing is built in
    this process, however large the collection is.
    """

    store: OwnCollection
    words: WordsForm
    _weights: dict[int, float] = field(default_factory=dict[int, float])
    """What words are worth, as far as they were looked up."""
    _used: set[int] = field(default_factory=set[int])
    """Those of them that a chunk has."""

    @property
    def score_meaning(self) -> ScoreMeaning:
        """The meaning of the scores: those of `SparseStrategy`, which the store computes here.

        Reports print the meaning wherever they show scores.
        """
        return BM25

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        """For each query the chunks that share words with it, best first, ranked by the store.

        A ranking with chunks that share only words such as "the" is made again by the other words,
        so that the results are those of `SparseStrategy`.
        """
        tokens = [tokenise(query) for query in queries]
        all_tokens = chain.from_iterable(tokens)
        # The weights of all queries' words are asked for in one request, for the shares below.
        self._look_up(map(word_number, all_tokens))
        positions: list[int] = []
        questions: list[_Question] = []
        for position, query in enumerate(queries):
            question = self._numbered_question(query, tokens[position])
            if question is not None:
                positions.append(position)
                questions.append(question)
        shares = [question.shares for question in questions]
        rankings = self.store.search_words(shares, k=search.k, filters=search.filters)
        # None leaves out nothing: scores are at least 0.
        threshold = search.threshold or 0.0
        results: list[list[Chunk]] = [[] for _ in queries]
        for position, question, ranking in zip(positions, questions, rankings, strict=True):
            if not self._all_match(question, ranking):
                ranking = self._ranked_by_content(question, search.k, search.filters)
            results[position] = [chunk for chunk in ranking if (chunk.score or 0.0) >= threshold]
        return results

    def idf(self, token: str) -> float:
        """The inverse document frequency of a token among the store's chunks.

        The highest if unknown. Quoted answers weigh words by it, too.
        """
        number = word_number(token)
        self._look_up([number])
        return self._weights[number]

    @property
    def identity(self) -> Mapping[str, object]:
        """How the store keeps the words that it ranks by, as JSON.

        Stored results are used again only while it is the same.
        """
        return {"words": asdict(self.words)}

    def _look_up(self, numbers: Iterable[int]) -> None:
        """Reads the weights of new words from the store; each word is read once in a process.

        Another thread may be looking up words at the same time: hence the order of the two updates.

        Args:
            numbers: of the words (`record.word_number`).
        """
        new: list[int] = []
        for number in dict.fromkeys(numbers):
            if number not in self._weights:
                new.append(number)
        used: dict[int, float] = {}
        for number, weight in zip(new, self.store.word_weights(new), strict=True):
            if weight is not None:
                used[number] = weight
        weights = dict(used)
        if len(used) < len(new):
            # The formula for a word that no chunk has: it is the rarest there can be.
            chunk_count = self.store.count()
            highest = math.log(1 + (chunk_count + 0.5) / 0.5)
            weights = dict.fromkeys(new, highest) | used
        # In this order: another thread takes a word with a weight for one that is fully known.
        self._used.update(used)
        self._weights.update(weights)

    def _numbered_question(self, query: str, tokens: Sequence[str]) -> _Question | None:
        """The question as numbers and shares of its words, as a store ranks.

        None where no chunk can match. The shares are scaled so that a chunk's sum is the score of
        `SparseStrategy`.

        Args:
            tokens: of the question.
        """
        function_words = function_tokens(guess_language(query))
        content = {word_number(token) for token in tokens if token not in function_words}
        counts = Counter(map(word_number, tokens))
        used = counts.keys() & self._used
        # A question of function words alone matches by them.
        needed = frozenset(content or counts) & used
        if not needed:
            return None
        worth = {number: count * self._weights[number] for number, count in counts.items()}
        whole = sum(worth.values())
        # Words that no chunk has count in the whole and not here: a chunk cannot score by them.
        shares: dict[int, float] = {}
        for number, count in counts.items():
            if number in used:
                shares[number] = count / whole
        function_worth = sum(worth[number] for number in used - needed)
        return _Question(shares=shares, content=needed, function_share=function_worth / whole)

    def _all_match(self, question: _Question, ranking: Sequence[Chunk]) -> bool:
        """Whether each chunk of a ranking has a content word of the question, one unlike "the".

        The store ranks chunks with any word. A score beyond what function words give shows a
        content word; else the chunk's own words are looked at.
        """
        if not question.function_share:
            return True
        for chunk in ranking:
            if (chunk.score or 0.0) > question.function_share + _ROUNDED:
                continue  # more than the function words give together
            if question.content.isdisjoint(self.words.vector(chunk)):
                return False
        return True

    def _ranked_by_content(
        self, question: _Question, k: int, filters: Filter | None
    ) -> list[Chunk]:
        """The first `k` of the chunks that have a content word of the question, one unlike "the".

        The store ranks by those words alone, as many chunks as it takes until no later one could be
        among the first, whatever it has of the other words.
        """
        content_shares = {number: question.shares[number] for number in question.content}
        # More than k, because function words may change the order; four times as many each round.
        limit = 4 * k
        while True:
            (ranking,) = self.store.search_words([content_shares], k=limit, filters=filters)
            chunks = [replace(chunk, score=self._score(question, chunk)) for chunk in ranking]
            chunks.sort(key=lambda chunk: (-(chunk.score or 0.0), chunk.id))
            if len(ranking) < limit:  # these are all chunks that match
                return chunks[:k]
            worst_seen = ranking[-1].score or 0.0
            best_unseen = worst_seen + question.function_share + _ROUNDED
            kth_score = chunks[k - 1].score or 0.0
            if kth_score > best_unseen:
                return chunks[:k]
            limit *= 4

    def _score(self, question: _Question, chunk: Chunk) -> float:
        """A chunk's score by all words of the question, as the store itself would give it.

        The store ranked the chunk by some of the words only.
        """
        vector = self.words.vector(chunk)
        parts: list[float] = []
        for number, share in question.shares.items():
            parts.append(share * self._weights[number] * vector.get(number, 0.0))
        return similarity(math.fsum(parts))
