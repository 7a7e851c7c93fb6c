"""Maximal marginal relevance: what fits the query and repeats little of what stands above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Literal

from ragbench.core.chunk import Chunk
from ragbench.core.fusion import min_max
from ragbench.post.operator import Query, between, refuse
from ragbench.post.rerank import NotedScores
from ragbench.post.rerankers.semantic import (
    FIELD,
    chunk_directions,
    query_direction,
    similarities,
    sparse_matrix,
)
from ragbench.text.tokens import tokenise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def lexical_similarity(texts: Sequence[str]) -> NDArray[np.float64]:
    """Cosines of the texts' words, each weighted by ln(1 + N / n) * (1 + ln tf).

    N is the number of texts, n of those that hold the word, tf its number in the text.

    Returns:
        A symmetric square matrix in [0, 1]; a text without words is like none, itself included.
    """
    import numpy as np

    counted = [Counter(tokenise(text)) for text in texts]
    vocabulary: dict[str, int] = {}
    for word in chain.from_iterable(counted):
        vocabulary.setdefault(word, len(vocabulary))
    rows = np.repeat(np.arange(len(texts)), [len(counter) for counter in counted])
    columns = np.array([vocabulary[word] for counter in counted for word in counter], dtype=int)
    times = np.array([times for counter in counted for times in counter.values()])
    holding = np.bincount(columns, minlength=len(vocabulary))
    weights = (1 + np.log(times)) * np.log1p(len(texts) / holding)[columns]
    lengths = np.sqrt(np.bincount(rows, weights * weights, minlength=len(texts)))
    # A word of one text alone makes it like no other, and counts for its length only.
    shared = holding[columns] > 1
    rows, columns, weights = rows[shared], columns[shared], weights[shared] / lengths[rows[shared]]
    matrix = sparse_matrix(weights, rows, columns, (len(texts), len(vocabulary) or 1))
    similarity: NDArray[np.float64] = (matrix @ matrix.T).toarray()
    np.fill_diagonal(similarity, [float(bool(counter)) for counter in counted])
    return similarity


@dataclass(frozen=True, kw_only=True, slots=True)
class MmrReranker:
    """Picks, again and again, the chunk with the highest marginal relevance.

    That is ``balance * relevance - (1 - balance) * highest similarity to a chunk already picked``
    (Carbonell and Goldstein 1998, "The Use of MMR, Diversity-Based Reranking for Reordering
    Documents and Producing Summaries"). A chunk's score is its marginal relevance when it was
    picked, held below that of the pick before it.
    """

    name = "mmr"

    balance: float = 0.5
    """1 looks at relevance alone, 0 at diversity alone."""
    relevance: Literal["auto", "score", "embedding"] = "auto"
    """``"embedding"``: cosine of the query's and the chunk's embedding. ``"score"``: the given
    score, mapped to [0, 1] among the candidates. ``"auto"``: embeddings where all are there."""
    similarity: Literal["auto", "embedding", "lexical"] = "auto"
    """How alike two chunks are. ``"embedding"``: cosine. ``"lexical"``: cosine of their words,
    weighted by rarity among the candidates. ``"auto"``: embeddings where all are there."""
    embedding_field: str = FIELD
    """The field of a chunk's metadata that holds its embedding."""

    def __post_init__(self) -> None:
        refuse(between("balance", self.balance, 0, 1))

    @property
    def needs_embeddings(self) -> bool:
        """Whether a setting asks for embeddings; ``"auto"`` does without."""
        return "embedding" in (self.relevance, self.similarity)

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """Numbers whose order is that of the picks."""
        notes: list[str] = []
        rows: NDArray[np.float64] | None = None
        if self.similarity != "lexical" or self.relevance != "score":
            rows, places = chunk_directions(query, chunks, self.embedding_field)
            rows = rows if len(places) == len(chunks) else None
        relevance = self._relevance(query, chunks, rows, notes)
        if self.similarity != "lexical" and rows is not None:
            similarity = similarities(rows)
        else:
            if self.similarity == "embedding":
                notes.append("a chunk has no embedding: chunks were compared by their words")
            similarity = lexical_similarity([chunk.text for chunk in chunks])
        values = _marginal(relevance, similarity, self.balance)
        return NotedScores(tuple(values), tuple(notes))

    def _relevance(
        self,
        query: Query,
        chunks: Sequence[Chunk],
        rows: NDArray[np.float64] | None,
        notes: list[str],
    ) -> NDArray[np.float64]:
        import numpy as np

        if self.relevance != "score":
            direction = query_direction(query, rows)
            if direction is not None and rows is not None:
                return rows @ direction
            if self.relevance == "embedding":
                notes.append("the query or a chunk has no embedding: the given scores were used")
        if any(chunk.score is None for chunk in chunks):
            notes.append("a chunk has no score: relevance was taken from the present order")
            return np.linspace(1.0, 0.0, len(chunks))
        return np.array(min_max([chunk.score or 0.0 for chunk in chunks]))


def _marginal(
    relevance: NDArray[np.float64], similarity: NDArray[np.float64], balance: float
) -> list[float]:
    """Each chunk's marginal relevance when it was picked, strictly falling from pick to pick."""
    import math

    import numpy as np

    size = len(relevance)
    values = [0.0] * size
    worth = balance * relevance
    cost = (1 - balance) * similarity
    # What is picked leaves: its cost becomes infinite.
    nearest = np.zeros(size)
    last = math.inf
    for turn in range(size):
        at = int(np.argmax(worth - nearest))
        value = min(float(worth[at] - nearest[at]), math.nextafter(last, -math.inf))
        values[at] = last = value
        nearest = cost[at].copy() if turn == 0 else np.maximum(nearest, cost[at])
        worth[at] = -np.inf
    return values
