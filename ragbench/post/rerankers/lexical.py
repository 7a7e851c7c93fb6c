"""BM25 over the candidates; relevance feedback from the best of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from ragbench.core.checked import Checked, NotNegative, Positive, Share, Weight
from ragbench.core.chunk import Chunk
from ragbench.core.fusion import min_max
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.read import read_documents
from ragbench.io.settings import FilePath
from ragbench.plugins import Floats, np
from ragbench.post.filter import inverse_frequency
from ragbench.post.operator import Query
from ragbench.post.rerank import NotedScores
from ragbench.post.rerankers.semantic import FIELD, chunk_directions, query_direction
from ragbench.text.tokens import chunk_tokens, tokenise

_TINY = 1e-300
"""Keeps a division by 0 from being one."""


class CandidateWords(Record, kw_only=False):
    """How often each word stands in each candidate: what scores by words are computed from."""

    counters: Sequence[Counter[str]]

    @classmethod
    def of(cls, chunks: Sequence[Chunk], *, title_weight: int) -> CandidateWords:
        """The words of the candidates, counted.

        Args:
            title_weight: how often the words of a title count, as if the text repeated them.
        """
        counters: list[Counter[str]] = []
        for chunk in chunks:
            tokens = chunk_tokens(chunk.text, chunk.metadata.get("title"), title_weight)
            counters.append(Counter(tokens))
        return cls(counters)

    def counts(self, words: Sequence[str]) -> Floats:
        """How often each word is in each candidate: a row per candidate, a column per word.

        BM25 and the weights of words are computed from this matrix.
        """
        rows: list[list[int]] = []
        for counter in self.counters:
            rows.append([counter[word] for word in words])
        counts = np.array(rows, dtype=np.float64)
        # An array of empty rows has one dimension: it must have two, also without a word.
        return counts.reshape(len(rows), len(words))

    def lengths(self) -> Floats:
        """The number of tokens of each candidate, with its title as often as that counts.

        BM25 holds long candidates down by it.
        """
        totals = [counter.total() for counter in self.counters]
        return np.array(totals, dtype=np.float64)

    def bm25(self, weights: Mapping[str, float], *, k1: float, b: float) -> list[float]:
        """The BM25 score of each candidate for weighted words.

        It is the sum of weight * tf / (tf + k1 * (1 - b + b * length / mean length)), tf being how
        often the word is in the candidate.

        Args:
            weights: of each word that is looked for.
            k1: how slowly repeated words stop counting.
            b: how much long candidates are held down.
        """
        lengths = self.lengths()
        # Candidates without any word have the mean 0, and score 0 whatever it is taken for.
        mean_length = lengths.sum() / len(lengths) or 1.0
        length_parts = b * lengths / mean_length
        slopes = k1 * (1 - b + length_parts)
        words = list(weights)
        counts = self.counts(words)
        weighted_counts = counts * list(weights.values())
        # An absent word adds nothing, also where the slope is 0.
        divisors = (counts + slopes[:, None]).clip(_TINY)
        parts = weighted_counts / divisors
        # Rounded once, whatever the order of the words.
        return [math.fsum(parts_of_chunk) for parts_of_chunk in parts.tolist()]


def check_corpus(corpus: str | None) -> None:
    """Refuses a corpus that does not exist while settings are read, before any question.

    Args:
        corpus: a file or folder of documents, by which words are weighted; None for none.
    """
    if corpus is not None and not Path(corpus).exists():
        raise ConfigError(f"corpus '{corpus}' does not exist")


def corpus_weights(corpus: str, words: Iterable[str]) -> list[float]:
    """The weight of each word by how many of a corpus's documents hold it: rare ones weigh more.

    Among the candidates alone, words that a search looked for all seem frequent.
    """
    size, documents_of_word = _document_counts(corpus)
    return [inverse_frequency(size, documents_of_word[word]) for word in words]


@lru_cache(maxsize=4)
def _document_counts(corpus: str) -> tuple[int, Counter[str]]:
    """The number of documents in a corpus, and for each word how many of them hold it.

    Cached, because every question asks for it and a corpus may be large.
    """
    size = 0
    documents_of_word: Counter[str] = Counter()
    for document in read_documents(corpus):
        size += 1
        # A title counts as text of the document: rarity asks only which documents hold a word.
        title = document.title or ""
        words = set(tokenise(f"{title} {document.text}"))
        documents_of_word.update(words)
    if not size:
        raise ConfigError(f"the corpus '{corpus}' holds no document")
    return size, documents_of_word


@dataclass(frozen=True, kw_only=True, slots=True)
class LexicalReranker(Checked):
    """Scores by words shared with the query; words that are rare among the candidates count more.

    Each token of the query adds its weight, ln(1 + N / n) with n of the N candidates holding it,
    times

    - ``bm25``: tf / (tf + k1 * (1 - b + b * length / mean length)), tf its number in the chunk
      (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond");
    - ``idf``: 1 when the chunk holds it.

    Candidates that were themselves found by these words all hold the best of them, which then
    weigh least: over a sparse first stage this reranker loses quality and is for fusions with
    others; over a dense one it can gain. The weight never falls below ln 2 for that reason. With
    the ``corpus`` weights are those of a whole search.
    """

    name = "lexical"

    method: Literal["bm25", "idf"] = "bm25"
    """``"bm25"``, or ``"idf"`` for the weight of the query that the chunk covers."""
    k1: Weight = 1.2
    """How slowly repeated tokens stop counting, at least 0."""
    b: Share = 0.75
    """How much long chunks are held down, in [0, 1]."""
    title_weight: NotNegative = 2
    """How often ``metadata["title"]`` counts as text of the chunk; 0 leaves it out."""
    corpus: FilePath | None = None
    """A file or folder of all documents: a token's weight is then ln(1 + (N - n + 0.5) / (n + 0.5))
    with n of the corpus's N documents holding it."""

    def __post_init__(self) -> None:
        """Looks for the corpus now: a missing one would fail every question."""
        Checked.__post_init__(self)
        check_corpus(self.corpus)

    def score(self, query: Query, chunks: Sequence[Chunk]) -> tuple[float, ...]:
        """The weight of the query's words that each chunk holds; 0 for a chunk that shares none.

        By ``bm25``, a word that the chunk repeats counts more, and a long chunk less.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        query_counts = Counter(tokenise(query.text))
        candidates = CandidateWords.of(chunks, title_weight=self.title_weight)
        # The rarities are in the order of `query_counts`: both are paired below.
        if self.corpus is not None:
            rarities = corpus_weights(self.corpus, query_counts)
        else:
            rarities = _candidate_weights(candidates, list(query_counts))
        weights: dict[str, float] = {}
        for (token, times), rarity in zip(query_counts.items(), rarities, strict=True):
            weights[token] = times * rarity
        if self.method == "bm25":
            scores = candidates.bm25(weights, k1=self.k1, b=self.b)
            return tuple(scores)
        covered_weights: list[float] = []
        for counter in candidates.counters:
            covered = [weight for token, weight in weights.items() if counter[token]]
            covered_weights.append(math.fsum(covered))
        return tuple(covered_weights)


def _candidate_weights(candidates: CandidateWords, words: Sequence[str]) -> list[float]:
    """The weight of each word by how many of the N candidates hold it: ln(1 + N / n).

    The weight never falls below ln 2: all candidates hold the words by which they were found.
    """
    holds_word = candidates.counts(words) > 0
    size = len(candidates.counters)
    weights: list[float] = []
    for candidates_with_word in holds_word.sum(axis=0).tolist():
        # A word that no candidate holds scores none of them, whatever it weighs.
        divisor = max(1, candidates_with_word)
        weights.append(math.log(1 + size / divisor))
    return weights


_K1 = 1.2
"""The usual k1 of BM25, that of the lexical reranker."""
_B = 0.75
"""The usual b of BM25, likewise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackReranker(Checked):
    """Takes the best candidates for relevant and widens the query by their words.

    That is pseudo-relevance feedback (Rocchio 1971, "Relevance Feedback in Information Retrieval").
    No model is asked and nothing is searched again: the widened query scores the candidates.

    - ``words``: the heaviest words of the best candidates, each with its share of their text
      times its rarity, are added to the query, as in RM3 (Abdul-Jaleel et al. 2004, "UMass at TREC
      2004"). A chunk scores the sum of the words' weights times tf / (tf + k1 * (1 - b + b *
      length / mean length)), k1 = 1.2 and b = 0.75.
    - ``embeddings``: the mean of the best candidates' embeddings is added to the query's (Li et
      al. 2023, "Pseudo Relevance Feedback with Deep Language Models and Dense Retrievers"). A
      chunk scores its cosine with the sum.

    It builds on the present scores: behind a better reranker it has better examples.
    """

    name = "feedback"

    by: Literal["auto", "words", "embeddings"] = "auto"
    """Compared values; ``"auto"``: embeddings if all are there."""
    examples: Positive = 5
    """How many of the best candidates are taken for relevant, at least 1."""
    query_weight: Share = 0.5
    """The share of the query in the widened one, in [0, 1]."""
    terms: Positive = 30
    """With ``words``: how many words are added, at least 1."""
    corpus: FilePath | None = None
    """With ``words``: a file or folder of all documents, for how rare a word is; among the
    candidates alone when not given, which means little behind a search for the same words."""
    embedding_field: str = FIELD
    """The field of a chunk's metadata that holds its embedding."""

    def __post_init__(self) -> None:
        """Looks for the corpus now: a missing one would fail every question."""
        Checked.__post_init__(self)
        check_corpus(self.corpus)

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """Scores chunks by the query widened with the best of them, by embeddings or by words.

        The numbers are at least 0 by words, and at least -1 by embeddings. The words of a title
        count as those of the text do.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        notes: list[str] = []
        best, shares = self._examples(chunks, notes)
        if self.by != "words":
            # ``auto`` compares embeddings where it can, and falls back without a note.
            scores = self._scores_by_embeddings(query, chunks, best, shares)
            if scores is not None:
                return NotedScores(tuple(scores.tolist()), tuple(notes))
            if self.by == "embeddings":
                notes.append("the query or a chunk has no embedding: words were compared")
        candidates = CandidateWords.of(chunks, title_weight=1)
        weights = self._widened_query(query, candidates, best, shares)
        return NotedScores(candidates.bm25(weights, k1=_K1, b=_B), notes)

    def _examples(self, chunks: Sequence[Chunk], notes: list[str]) -> tuple[list[int], Floats]:
        """The places of the best candidates, and how much each counts; these shares sum to 1.

        The query is widened by these candidates, which are taken for relevant.

        Args:
            notes: takes a sentence where the best ones had to be guessed.
        """
        count = min(self.examples, len(chunks))
        scores = [chunk.score for chunk in chunks if chunk.score is not None]
        if len(scores) < len(chunks):
            notes.append("a chunk has no score: the first ones were taken for the best")
            equal_shares = np.full(count, 1 / count)
            return list(range(count)), equal_shares
        places = sorted(range(len(chunks)), key=lambda place: -scores[place])
        best = places[:count]
        scaled_scores = np.array(min_max(scores))
        worth = scaled_scores[best]
        return best, worth / worth.sum()  # the highest is never 0

    def _scores_by_embeddings(
        self, query: Query, chunks: Sequence[Chunk], best: list[int], shares: Floats
    ) -> Floats | None:
        """The cosine of each chunk's embedding with the widened query's.

        None where the query or a chunk has no embedding. The query is widened by the mean embedding
        of the best candidates.

        Args:
            best: places of the candidates that are taken for relevant.
            shares: how much each of these counts.
        """
        rows, places = chunk_directions(query, chunks, self.embedding_field)
        direction = query_direction(query, rows)
        if direction is None or rows is None or len(places) < len(chunks):
            return None
        # Opposite directions have the mean 0, which has no length to divide by: it stays 0.
        added = shares @ rows[best]
        added /= np.linalg.norm(added) or 1.0
        widened = self.query_weight * direction + (1 - self.query_weight) * added
        length = np.linalg.norm(widened) or 1.0
        scores: Floats = rows @ (widened / length)
        return scores

    def _widened_query(
        self, query: Query, candidates: CandidateWords, best: list[int], shares: Floats
    ) -> dict[str, float]:
        """The words of the widened query with their weights, which sum to 1.

        They are the query's own words, and the heaviest of the best candidates.

        Args:
            best: places of the candidates that are taken for relevant.
            shares: how much each of these counts.
        """
        query_counts = Counter(tokenise(query.text))
        vocabulary = set(query_counts)
        for place in best:
            vocabulary.update(candidates.counters[place])
        words = sorted(vocabulary)
        counts = candidates.counts(words)
        if self.corpus is None:
            candidates_with_word = (counts > 0).sum(axis=0).clip(1)
            rarities = np.log1p(len(counts) / candidates_with_word)
        else:
            rarities = np.array(corpus_weights(self.corpus, words))
        # A word's share of each example's text, by how much the example counts, times its rarity.
        lengths = candidates.lengths()[best].clip(1)
        shares_of_text = counts[best] / lengths[:, None]
        gains = shares @ shares_of_text * rarities
        # Of equal weights, the word that stands first in the alphabet.
        columns = sorted(range(len(words)), key=lambda column: (-gains[column], words[column]))
        added: dict[str, float] = {}
        for column in columns[: self.terms]:
            if gains[column] > 0:
                added[words[column]] = float(gains[column])
        own: dict[str, float] = {}
        for word, rarity in zip(words, rarities, strict=True):
            if word in query_counts:
                own[word] = query_counts[word] * float(rarity)
        # The query's own words weigh `query_weight` together, and the added ones the rest of 1,
        # however many words each part has.
        widened: dict[str, float] = {}
        for weights, share in ((own, self.query_weight), (added, 1 - self.query_weight)):
            total = sum(weights.values()) or 1.0
            for word, weight in weights.items():
                scaled_weight = share * weight / total
                widened[word] = widened.get(word, 0) + scaled_weight
        return widened
