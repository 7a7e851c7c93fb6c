"""What a vector store does: one protocol for a database, one for a collection in it.

Every implementation agrees on the following, and one contract suite holds them to it.

- A score is the cosine similarity of query and chunk, in [-1, 1], higher is better, rounded to six
  decimals (float32 carries no more). A vector of zeros has similarity 0 to everything.
- Results are ordered by score, then by id (code points); which of several equally good chunks make
  the cut follows from that order, too, and not from the engine.
- An id is any text without NUL characters that is not empty, at most `MAX_ID` bytes of UTF-8 long.
- A chunk comes back as it was given: id, text, document id, offsets and metadata, which may be
  any JSON. Its ``score`` is not stored.
- Filters mean what `ragbench.records.filters.matches` says, and the store executes them.
- A write is visible to the next read, and is kept when the method has returned (the store
  ``memory`` writes its folder in `VectorStore.mark` and `VectorStore.close` only).
- Errors are `ragbench.errors.StoreError`: one line that names the address without its password.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

from ragbench.records.corpus import Chunk
from ragbench.records.filters import Filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "MAX_ID",
    "MAX_SPARSE_INDEX",
    "CollectionInfo",
    "Database",
    "HybridStore",
    "SparseVector",
    "VectorStore",
    "Vectors",
]

MAX_ID = 2048
"""The longest id, in bytes of UTF-8; what PostgreSQL can keep in an index."""

MAX_SPARSE_INDEX = 10**9
"""Dimensions of sparse vectors end before this; what pgvector can keep."""

Vectors: TypeAlias = "NDArray[np.floating[Any]]"
"""Rows of floats, shape (number of texts, dimension)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectionInfo:
    """What a collection says of itself."""

    name: str
    dimension: int
    """Length of its vectors."""
    identity: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What its vectors were made by and of, as JSON: embedder, chunker, digest of the corpus."""
    complete: bool = False
    """Whether indexing came to its end; False from the first write of an indexing to its last."""
    sparse: bool = False
    """Whether it keeps a sparse vector beside each dense one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SparseVector:
    """Weights of a few of very many dimensions, such as the tokens of a text."""

    indices: tuple[int, ...]
    """Dimensions, each once, in [0, `MAX_SPARSE_INDEX`)."""
    values: tuple[float, ...]
    """One weight each."""


@runtime_checkable
class VectorStore(Protocol):
    """One open collection."""

    def info(self) -> CollectionInfo:
        """What the collection says of itself, read from the store now."""
        ...

    def mark(self, *, complete: bool, identity: Mapping[str, Any] | None = None) -> None:
        """Sets `CollectionInfo.complete` and, where given, replaces the identity; kept at once."""
        ...

    def upsert(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        """Adds chunks; one whose id is stored replaces it. Of one id given twice the last counts.

        Args:
            chunks: any number of them; the store cuts them into batches that it can take.
            vectors: one row a chunk, of any length above zero; they are kept at unit length.

        Raises:
            StoreError: a vector has another length than the collection's or is not finite, an id
                or a chunk cannot be stored, or the store fails. Of the first three nothing of
                the call is stored.
        """
        ...

    def delete(self, ids: Sequence[str]) -> None:
        """Removes chunks; ids that are not there are no error."""
        ...

    def get(self, ids: Sequence[str]) -> dict[str, Chunk]:
        """The chunks of these ids; those that are not there are left out."""
        ...

    def vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors of these ids, at unit length; those that are not there are left out."""
        ...

    def digests(self) -> dict[str, str]:
        """Every id with the digest of its chunk (`ragbench.stores.record.chunk_digest`)."""
        ...

    def count(self) -> int:
        """How many chunks there are."""
        ...

    def search(
        self, vectors: Vectors, *, k: int, filters: Filter | None = None
    ) -> list[list[Chunk]]:
        """The chunks most similar to each query.

        Args:
            vectors: one row a query.
            k: how many chunks to return for each, at least 1; fewer where there are no more.
            filters: what the chunks' metadata must pass.

        Returns:
            For each query its chunks with their ``score``, best first.

        Raises:
            StoreError: a vector has another length than the collection's or is not finite, or
                the store fails.
            ConfigError: `k` is below 1.
        """
        ...

    def close(self) -> None:
        """Ends the use of the collection. Calling it again does nothing."""
        ...

    def __enter__(self) -> Self:
        """The store itself."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes it."""
        ...


@runtime_checkable
class HybridStore(VectorStore, Protocol):
    """A collection that also ranks by sparse vectors, and fuses the two rankings by itself.

    Whoever writes decides what the weights are. For BM25: the documents' weights hold frequency
    and length, the queries' the inverse document frequency, so that the inner product is the score.
    """

    def upsert_hybrid(
        self, chunks: Sequence[Chunk], vectors: Vectors, sparse: Sequence[SparseVector]
    ) -> None:
        """As `upsert`, with one sparse vector a chunk (of a collection made with ``sparse``)."""
        ...

    def search_sparse(
        self, sparse: Sequence[SparseVector], *, k: int, filters: Filter | None = None
    ) -> list[list[Chunk]]:
        """The chunks of the greatest inner product with each query; those of 0 are left out."""
        ...

    def search_hybrid(
        self,
        vectors: Vectors,
        sparse: Sequence[SparseVector],
        *,
        k: int,
        candidates: int,
        filters: Filter | None = None,
        weights: tuple[float, float] = (1.0, 1.0),
        rrf_k: int = 60,
    ) -> list[list[Chunk]]:
        """Both rankings fused by weighted reciprocal ranks, in the store.

        A chunk's score is the sum over the rankings that hold it of ``weight / (rrf_k + rank)``,
        with ranks from 1 (Cormack, Clarke and Buettcher 2009).

        Args:
            vectors: one row a query.
            sparse: one a query.
            k: how many chunks to return for each.
            candidates: how many of each ranking take part, at least `k`.
            filters: what the chunks' metadata must pass.
            weights: of the dense and of the sparse ranking, each at least 0.
            rrf_k: how little the first ranks count more than the next ones.
        """
        ...


class Database(Protocol):
    """Where collections are: a folder, a file or a server, named by its address.

    It connects when something is asked of it, and disconnects when the last collection that was
    opened from it is closed.
    """

    @property
    def address(self) -> str:
        """The address without a password, as messages show it."""
        ...

    def collections(self) -> list[str]:
        """The names of the collections that ragbench made there, sorted."""
        ...

    def create(
        self,
        name: str,
        *,
        dimension: int,
        identity: Mapping[str, Any] | None = None,
        sparse: bool = False,
    ) -> VectorStore:
        """Makes an empty collection, not marked complete, and opens it.

        Raises:
            StoreError: the name is taken or unfit, or the store cannot do it.
        """
        ...

    def open(self, name: str) -> VectorStore:
        """Opens a collection.

        Raises:
            StoreError: there is none of this name; the message lists those there are.
        """
        ...

    def drop(self, name: str) -> None:
        """Removes a collection with all that is in it; no error when there is none."""
        ...

    def close(self) -> None:
        """Ends the use of the database and of what was opened from it; again does nothing."""
        ...
