"""BM25 over the candidates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragbench.core.chunk import Chunk
from ragbench.post.operator import Query, at_least, between, refuse
from ragbench.post.words import CandidateWords, check_corpus, corpus_counts
from ragbench.text.tokens import tokenise


@dataclass(frozen=True, kw_only=True, slots=True)
class LexicalReranker:
    """Scores by words shared with the query; what is rare among the candidates counts more.

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
    k1: float = 1.2
    """How slowly repeated tokens stop counting, at least 0."""
    b: float = 0.75
    """How much long chunks are held down, in [0, 1]."""
    title_weight: int = 2
    """How often ``metadata["title"]`` counts as text of the chunk; 0 leaves it out."""
    corpus: str | None = None
    """A file or folder of all documents: a token's weight is then ln(1 + (N - n + 0.5) / (n + 0.5))
    with n of the corpus's N documents holding it."""

    def __post_init__(self) -> None:
        refuse(
            at_least("k1", self.k1, 0),
            between("b", self.b, 0, 1),
            at_least("title_weight", self.title_weight, 0),
            check_corpus(self.corpus),
        )

    def score(self, query: Query, chunks: Sequence[Chunk]) -> tuple[float, ...]:
        """Numbers of at least 0; 0 for a chunk that shares no token with the query."""
        wanted = Counter(tokenise(query.text))
        words = CandidateWords.of(chunks, title_weight=self.title_weight)
        rarities = self._rarities(words, list(wanted))
        weights = {
            token: times * rarity
            for (token, times), rarity in zip(wanted.items(), rarities, strict=True)
        }
        if self.method == "bm25":
            return tuple(words.bm25(weights, k1=self.k1, b=self.b))
        return tuple(
            math.fsum(weight for token, weight in weights.items() if counter[token])
            for counter in words.counted
        )

    def _rarities(self, words: CandidateWords, wanted: Sequence[str]) -> list[float]:
        if self.corpus is not None:
            return corpus_counts(self.corpus).weights(wanted)
        holding = (words.counts(wanted) > 0).sum(axis=0).tolist()
        return [math.log(1 + len(words.counted) / max(1, number)) for number in holding]
