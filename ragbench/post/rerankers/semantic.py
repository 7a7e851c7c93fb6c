"""Cosine of stored embeddings."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Literal

from ragbench.core.checked import Checked, Share
from ragbench.core.chunk import Chunk
from ragbench.core.fusion import min_max
from ragbench.errors import InterfaceError
from ragbench.plugins import Floats, np
from ragbench.post.operator import Query
from ragbench.post.rerank import NotedScores
from ragbench.post.rerankers.fusion import given_scores, unscored_note
from ragbench.text.tokens import tokenise

FIELD = "embedding"
"""The field of a chunk's metadata that holds its embedding."""
_ONE_THREAD = 1 << 18
"""How many products OpenBLAS leaves to one thread."""


def query_direction(query: Query, rows: Floats | None) -> Floats | None:
    """The query's embedding with length 1; None when it has none.

    Raises:
        InterfaceError: those of the chunks have another length.
    """
    if query.embedding is None:
        return None
    direction: Floats = _directions([query.embedding], ["the query"])[0]
    if rows is not None and rows.shape[1] != len(direction):
        raise InterfaceError(
            f"the query's embedding has {len(direction)} dimensions, those of the chunks "
            f"{rows.shape[1]}: both must come from one model"
        )
    return direction


def chunk_directions(
    query: Query, chunks: Sequence[Chunk], field: str = FIELD
) -> tuple[Floats | None, list[int]]:
    """The chunks' embeddings with length 1, of those that have one.

    Returns:
        A row per chunk and the chunks' places; one of zeros stays so, its cosines are 0.
    """
    by_id = query.chunk_embeddings or {}
    found: list[Any] = []
    places: list[int] = []
    for place, chunk in enumerate(chunks):
        embedding = by_id.get(chunk.id)
        if embedding is None:
            embedding = chunk.metadata.get(field)
        if embedding is not None:
            found.append(embedding)
            places.append(place)
    if not found:
        return None, []
    return _directions(found, [f"chunk '{chunks[place].id}'" for place in places]), places


def similarities(rows: Floats) -> Floats:
    """The products of all pairs of rows.

    A few hundred rows are multiplied in blocks that are too small for the library behind numpy to
    share out among threads: for matrices of this size these mostly wait for each other, on a busy
    machine for as long as a hundred times the work takes.
    """
    block = _ONE_THREAD // max(1, rows.size)
    if block < 1:
        whole: Floats = rows @ rows.T
        return whole
    blocks = [rows[start : start + block] @ rows.T for start in range(0, len(rows), block)]
    return np.concatenate(blocks)


def _directions(embeddings: Sequence[Any], owners: Sequence[str]) -> Floats:
    rows: list[Floats] = []
    for embedding, owner in zip(embeddings, owners, strict=True):
        try:
            vector = np.asarray(embedding, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.empty(0)
        if vector.ndim != 1 or not vector.size:
            raise InterfaceError(f"the embedding of {owner} is not a list of numbers")
        if not np.isfinite(vector).all():
            raise InterfaceError(f"the embedding of {owner} holds a number that is not finite")
        if rows and vector.size != rows[0].size:
            raise InterfaceError(
                f"the embedding of {owner} has {vector.size} dimensions, those before it "
                f"{rows[0].size}: all must come from one model"
            )
        rows.append(vector)
    matrix = np.stack(rows)
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    directions: Floats = matrix / np.where(lengths == 0, 1, lengths)[:, None]
    return directions


@dataclass(frozen=True, kw_only=True, slots=True)
class SemanticReranker:
    """Scores in [-1, 1]: the cosine of stored embeddings (post-retrieval operators, "semantic").

    A chunk without an embedding keeps its given score, and so do all when the query has none; a
    note says so. Such scores may be on another scale than cosines.
    """

    name = "semantic"

    NEEDS: ClassVar[tuple[str, ...]] = ("embeddings of query and chunks",)
    needs_embeddings: ClassVar[bool] = True

    embedding_field: str = FIELD
    """The field of a chunk's metadata that holds its embedding."""
    default_score: float = 0.5
    """Score of a chunk with neither an embedding nor a score."""

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        scores = given_scores(chunks, self.default_score)
        rows, places = chunk_directions(query, chunks, self.embedding_field)
        direction = query_direction(query, rows)
        if direction is None:
            note = "the query has no embedding: the given scores were kept"
            return NotedScores(tuple(scores), (note, *unscored_note(chunks, self.default_score)))
        if rows is not None:
            for place, cosine in zip(places, (rows @ direction).tolist(), strict=True):
                scores[place] = cosine
        if len(places) == len(chunks):
            return NotedScores(scores)
        without = [chunk for at, chunk in enumerate(chunks) if at not in set(places)]
        missing = f"{len(without)} of {len(chunks)} chunks have no embedding"
        note = f"{missing}: their given scores were kept"
        return NotedScores(scores, (note, *unscored_note(without, self.default_score)))


def sparse_matrix(weights: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """A matrix of the given weights at their places; weights of the same place add up."""
    sparse = importlib.import_module("scipy.sparse")
    return sparse.csr_array((weights, (rows, columns)), shape=shape, dtype=float)


def lexical_similarity(texts: Sequence[str]) -> Floats:
    """Cosines of the texts' words, each weighted by ln(1 + N / n) * (1 + ln tf).

    N is the number of texts, n of those that hold the word, tf its number in the text.

    Returns:
        A symmetric square matrix in [0, 1]; a text without words is like none, itself included.
    """
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
    similarity: Floats = (matrix @ matrix.T).toarray()
    np.fill_diagonal(similarity, [float(bool(counter)) for counter in counted])
    return similarity


@dataclass(frozen=True, kw_only=True, slots=True)
class MmrReranker(Checked):
    """Picks, again and again, the chunk with the highest marginal relevance.

    That is ``balance * relevance - (1 - balance) * highest similarity to a chunk already picked``
    (Carbonell and Goldstein 1998, "The Use of MMR, Diversity-Based Reranking for Reordering
    Documents and Producing Summaries"). A chunk's score is its marginal relevance when it was
    picked, held below that of the pick before it.
    """

    name = "mmr"

    balance: Share = 0.5
    """1 looks at relevance alone, 0 at diversity alone."""
    relevance: Literal["auto", "score", "embedding"] = "auto"
    """``"embedding"``: cosine of the query's and the chunk's embedding. ``"score"``: the given
    score, mapped to [0, 1] among the candidates. ``"auto"``: embeddings where all are there."""
    similarity: Literal["auto", "embedding", "lexical"] = "auto"
    """How alike two chunks are. ``"embedding"``: cosine. ``"lexical"``: cosine of their words,
    weighted by rarity among the candidates. ``"auto"``: embeddings where all are there."""
    embedding_field: str = FIELD
    """The field of a chunk's metadata that holds its embedding."""

    @property
    def needs_embeddings(self) -> bool:
        """Whether a setting asks for embeddings; ``"auto"`` does without."""
        return "embedding" in (self.relevance, self.similarity)

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        notes: list[str] = []
        rows: Floats | None = None
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
        self, query: Query, chunks: Sequence[Chunk], rows: Floats | None, notes: list[str]
    ) -> Floats:
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


def _marginal(relevance: Floats, similarity: Floats, balance: float) -> list[float]:
    """Each chunk's marginal relevance when it was picked, strictly falling from pick to pick."""
    import math

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
