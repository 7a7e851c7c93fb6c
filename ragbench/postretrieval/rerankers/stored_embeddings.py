"""Embeddings that came with the query and the chunks. None is ever computed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragbench.errors import InterfaceError
from ragbench.postretrieval.query import Query
from ragbench.records.corpus import Chunk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FIELD", "chunk_directions", "query_direction", "similarities"]

FIELD = "embedding"
"""The field of a chunk's metadata that holds its embedding."""
_ONE_THREAD = 1 << 18
"""How many products OpenBLAS leaves to one thread."""


def query_direction(query: Query) -> NDArray[np.float64] | None:
    """The query's embedding with length 1; None when it has none.

    Raises:
        InterfaceError: it is not a list of finite numbers.
    """
    if query.embedding is None:
        return None
    direction: NDArray[np.float64] = _directions([query.embedding], ["the query"])[0]
    return direction


def chunk_directions(
    query: Query, chunks: Sequence[Chunk], field: str = FIELD
) -> tuple[NDArray[np.float64] | None, list[int]]:
    """The chunks' embeddings with length 1, of those that have one.

    Args:
        query: holds embeddings by chunk id; they win over those in the metadata.
        chunks: the chunks.
        field: the field of their metadata.

    Returns:
        One row a chunk that has an embedding, and the places of these chunks in the order given;
        None in place of the rows when no chunk has one. An embedding of zeros stays zero, so that
        its cosine with anything is 0.

    Raises:
        InterfaceError: an embedding is not a list of finite numbers, or they differ in length.
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
