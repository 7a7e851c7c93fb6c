"""Cosine of stored embeddings."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ragbench.core.chunk import Chunk
from ragbench.errors import InterfaceError
from ragbench.post.operator import Query
from ragbench.post.rerank import NotedScores
from ragbench.post.rerankers.fusion import given_scores, unscored_note

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FIELD = "embedding"
"""The field of a chunk's metadata that holds its embedding."""
_ONE_THREAD = 1 << 18
"""How many products OpenBLAS leaves to one thread."""


def query_direction(query: Query, rows: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """The query's embedding with length 1; None when it has none.

    Raises:
        InterfaceError: those of the chunks have another length.
    """
    if query.embedding is None:
        return None
    direction: NDArray[np.float64] = _directions([query.embedding], ["the query"])[0]
    if rows is not None and rows.shape[1] != len(direction):
        raise InterfaceError(
            f"the query's embedding has {len(direction)} dimensions, those of the chunks "
            f"{rows.shape[1]}: both must come from one model"
        )
    return direction


def chunk_directions(
    query: Query, chunks: Sequence[Chunk], field: str = FIELD
) -> tuple[NDArray[np.float64] | None, list[int]]:
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


def similarities(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The products of all pairs of rows.

    A few hundred rows are multiplied in blocks that are too small for the library behind numpy to
    share out among threads: for matrices of this size these mostly wait for each other, on a busy
    machine for as long as a hundred times the work takes.
    """
    import numpy as np

    block = _ONE_THREAD // max(1, rows.size)
    if block < 1:
        whole: NDArray[np.float64] = rows @ rows.T
        return whole
    blocks = [rows[start : start + block] @ rows.T for start in range(0, len(rows), block)]
    return np.concatenate(blocks)


def _directions(embeddings: Sequence[Any], owners: Sequence[str]) -> NDArray[np.float64]:
    import numpy as np

    try:
        matrix = np.asarray(embeddings, dtype=np.float64)
    except (TypeError, ValueError):
        raise InterfaceError(_complaint(embeddings, owners)) from None
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise InterfaceError(_complaint(embeddings, owners))
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    directions: NDArray[np.float64] = matrix / np.where(lengths == 0, 1, lengths)[:, None]
    return directions


def _complaint(embeddings: Sequence[Any], owners: Sequence[str]) -> str:
    """Names the first embedding that cannot be used."""
    import numpy as np

    size: int | None = None
    for embedding, owner in zip(embeddings, owners, strict=True):
        try:
            vector = np.asarray(embedding, dtype=np.float64)
        except (TypeError, ValueError):
            return f"the embedding of {owner} is not a list of numbers"
        if vector.ndim != 1 or not vector.size:
            return f"the embedding of {owner} is not a list of numbers"
        if not np.isfinite(vector).all():
            return f"the embedding of {owner} holds a number that is not finite"
        if size is not None and vector.size != size:
            return (
                f"the embedding of {owner} has {vector.size} dimensions, those before it {size}: "
                "all must come from one model"
            )
        size = vector.size
    return "the embeddings cannot be used"


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
    """Stands in where a chunk has neither an embedding nor a score."""

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """Cosines, or given scores where embeddings are missing."""
        scores = given_scores(chunks, self.default_score)
        rows, places = chunk_directions(query, chunks, self.embedding_field)
        direction = query_direction(query, rows)
        if direction is None:
            note = "the query has no embedding: the given scores were kept"
            return NotedScores(tuple(scores), (note, *unscored_note(chunks, self.default_score)))
        if rows is not None:
            for place, cosine in zip(places, (rows @ direction).tolist(), strict=True):
                scores[place] = cosine
        return NotedScores(tuple(scores), self._notes(chunks, places))

    def _notes(self, chunks: Sequence[Chunk], places: list[int]) -> tuple[str, ...]:
        missing = len(chunks) - len(places)
        if not missing:
            return ()
        without = [chunk for at, chunk in enumerate(chunks) if at not in set(places)]
        note = f"{missing} of {len(chunks)} chunks have no embedding: their given scores were kept"
        return (note, *unscored_note(without, self.default_score))


def sparse_matrix(weights: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """A matrix of the given weights at their places; weights of the same place add up."""
    sparse = importlib.import_module("scipy.sparse")
    return sparse.csr_array((weights, (rows, columns)), shape=shape, dtype=float)
