"""Maximal marginal relevance: what fits the query and repeats little of what stands above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ragbench.core.chunk import Chunk
from ragbench.core.fusion import min_max
from ragbench.errors import ConfigError, InterfaceError
from ragbench.post.candidate_tokens import candidate_tokens
from ragbench.post.operator import Query
from ragbench.post.rerank import NotedScores
from ragbench.post.rerankers.semantic import (
    FIELD,
    chunk_directions,
    query_direction,
    similarities,
    sparse_from_rows,
)

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

    tokens = candidate_tokens(texts)
    columns, width = _columns(tokens.numbers)
    places, times = np.unique(tokens.rows * width + columns, return_counts=True)
    rows, columns = np.divmod(places, width)
    holding = np.bincount(columns, minlength=width)
    weights = (1 + np.log(times)) * np.log1p(len(texts) / holding.clip(1))[columns]
    lengths = np.sqrt(np.bincount(rows, weights * weights, minlength=len(texts)))
    lengths[lengths == 0] = 1
    # A word of one text alone makes it like no other, and counts for its length only.
    shared = holding[columns] > 1
    rows, columns, weights = rows[shared], columns[shared], weights[shared] / lengths[rows[shared]]
    ends = np.searchsorted(rows, np.arange(len(texts) + 1))
    matrix = sparse_from_rows(weights, columns, ends, width)
    similarity: NDArray[np.float64] = (matrix @ matrix.T).toarray()
    np.fill_diagonal(similarity, tokens.lengths > 0)
    return similarity


def _columns(numbers: NDArray[np.int32]) -> tuple[NDArray[np.intp], int]:
    """A column for each number, and how many there are.

    Numbers are given out in the order in which this process met the tokens. Columns follow the
    texts alone, so that sums are rounded alike in every process.
    """
    import numpy as np

    places = np.arange(len(numbers))
    first = np.zeros(int(numbers.max(initial=0)) + 1, dtype=np.intp)
    # Of several places of a number, the one that is written last stays.
    first[numbers[::-1]] = places[::-1]
    is_first = first[numbers] == places
    return (is_first.cumsum() - 1)[first[numbers]], max(1, int(is_first.sum()))


@dataclass(frozen=True, kw_only=True, slots=True)
class MmrReranker:
    """Picks, again and again, the chunk with the highest marginal relevance.

    That is ``balance * relevance - (1 - balance) * highest similarity to a chunk already picked``
    (Carbonell and Goldstein 1998, "The Use of MMR, Diversity-Based Reranking for Reordering
    Documents and Producing Summaries"). A chunk's score is its marginal relevance when it was
    picked, held below that of the pick before it.
    """

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
        if not 0 <= self.balance <= 1:
            raise ConfigError(f"mmr: balance must lie in [0, 1], not {self.balance:g}")

    @property
    def name(self) -> str:
        return "mmr"

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
            direction = query_direction(query)
            if direction is not None and rows is not None:
                if rows.shape[1] != len(direction):
                    raise InterfaceError("the embeddings of query and chunks differ in length")
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
