"""Relevance feedback from the best candidates: what they have in common is looked for in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ragbench.core.chunk import Chunk
from ragbench.core.fusion import min_max
from ragbench.errors import ConfigError, InterfaceError
from ragbench.post.candidate_tokens import CandidateTokens, candidate_tokens
from ragbench.post.operator import Query
from ragbench.post.rerank import NotedScores
from ragbench.post.rerankers.lexical import CorpusCounts, check_corpus, corpus_counts
from ragbench.post.rerankers.semantic import FIELD, chunk_directions, query_direction
from ragbench.text.tokens import tokenise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_K1, _B = 1.2, 0.75


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackReranker:
    """Takes the best candidates for relevant and widens the query by what they hold.

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

    by: Literal["auto", "words", "embeddings"] = "auto"
    """What is compared; ``"auto"``: embeddings where all are there."""
    examples: int = 5
    """How many of the best candidates are taken for relevant, at least 1."""
    query_weight: float = 0.5
    """The share of the query in the widened one, in [0, 1]."""
    terms: int = 30
    """With ``words``: how many words are added, at least 1."""
    corpus: str | None = None
    """With ``words``: a file or folder of all documents, for how rare a word is; among the
    candidates alone when not given, which tells little behind a search for the same words."""
    embedding_field: str = FIELD
    """The field of a chunk's metadata that holds its embedding."""

    def __post_init__(self) -> None:
        if self.examples < 1 or self.terms < 1:
            raise ConfigError("feedback: examples and terms must be at least 1")
        if not 0 <= self.query_weight <= 1:
            raise ConfigError(
                f"feedback: query_weight must lie in [0, 1], not {self.query_weight:g}"
            )
        check_corpus("feedback", self.corpus)

    @property
    def name(self) -> str:
        return "feedback"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """Numbers of at least 0 by words, of at least -1 by embeddings."""
        notes: list[str] = []
        best, shares = self._examples(chunks, notes)
        if self.by != "words":
            scores = self._by_embeddings(query, chunks, best, shares)
            if scores is not None:
                return NotedScores(tuple(scores.tolist()), tuple(notes))
            if self.by == "embeddings":
                notes.append("the query or a chunk has no embedding: words were compared")
        return NotedScores(tuple(self._by_words(query, chunks, best, shares)), tuple(notes))

    def _examples(
        self, chunks: Sequence[Chunk], notes: list[str]
    ) -> tuple[list[int], NDArray[np.float64]]:
        """The places of the best candidates, and how much each counts; these sum to 1."""
        import numpy as np

        count = min(self.examples, len(chunks))
        scores = [chunk.score for chunk in chunks if chunk.score is not None]
        if len(scores) < len(chunks):
            notes.append("a chunk has no score: the first ones were taken for the best")
            return list(range(count)), np.full(count, 1 / count)
        best = sorted(range(len(chunks)), key=lambda at: -scores[at])[:count]
        worth = np.array(min_max(scores))[best]
        return best, worth / worth.sum()  # the highest is never 0

    def _by_embeddings(
        self,
        query: Query,
        chunks: Sequence[Chunk],
        best: list[int],
        shares: NDArray[np.float64],
    ) -> NDArray[np.float64] | None:
        import numpy as np

        direction = query_direction(query)
        rows, places = chunk_directions(query, chunks, self.embedding_field)
        if direction is None or rows is None or len(places) < len(chunks):
            return None
        if rows.shape[1] != len(direction):
            raise InterfaceError("the embeddings of query and chunks differ in length")
        added = shares @ rows[best]
        added /= np.linalg.norm(added) or 1.0
        widened = self.query_weight * direction + (1 - self.query_weight) * added
        scores: NDArray[np.float64] = rows @ (widened / (np.linalg.norm(widened) or 1.0))
        return scores

    def _by_words(
        self,
        query: Query,
        chunks: Sequence[Chunk],
        best: list[int],
        shares: NDArray[np.float64],
    ) -> list[float]:
        import math

        titles = [chunk.metadata.get("title") for chunk in chunks]
        texts = candidate_tokens(
            [
                f"{title} {chunk.text}" if isinstance(title, str) else chunk.text
                for title, chunk in zip(titles, chunks, strict=True)
            ]
        )
        counts = None if self.corpus is None else corpus_counts(self.corpus)
        widened = self._widened(query, texts, counts, best, shares)
        found = texts.counts(list(widened))
        relative = texts.lengths / (texts.lengths.sum() / len(chunks) or 1.0)
        slopes = _K1 * (1 - _B + _B * relative)
        parts = found * list(widened.values()) / (found + slopes[:, None])
        # Rounded once, whatever the order of the words.
        return list(map(math.fsum, parts.tolist()))

    def _widened(
        self,
        query: Query,
        texts: CandidateTokens,
        counts: CorpusCounts | None,
        best: list[int],
        shares: NDArray[np.float64],
    ) -> dict[str, float]:
        """The widened query: words with weights that sum to 1."""
        import numpy as np

        asked = Counter(tokenise(query.text))
        words = texts.words_of(best)
        every = list(dict.fromkeys([*words, *asked]))
        found = texts.counts(every)
        if counts is None:
            rarity = np.log1p(len(texts.texts) / (found > 0).sum(axis=0).clip(1))
        else:
            rarity = np.array(counts.weights(every))
        added = shares @ (found[best] / texts.lengths[best].clip(1)[:, None]) * rarity
        # Of equal weights, the word that stands first in the alphabet.
        order = sorted(range(len(every)), key=lambda at: (-added[at], every[at]))[: self.terms]
        heaviest = {every[at]: float(added[at]) for at in order if added[at] > 0}
        own = {
            word: asked[word] * float(weight)
            for word, weight in zip(every, rarity, strict=True)
            if word in asked
        }
        widened: Counter[str] = Counter()
        for weights, share in ((own, self.query_weight), (heaviest, 1 - self.query_weight)):
            total = sum(weights.values()) or 1.0
            widened.update({word: share * weight / total for word, weight in weights.items()})
        return dict(widened)
