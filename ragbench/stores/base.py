"""The protocol of a store; what a collection's vectors were made by.

Every implementation agrees on the following, and one contract suite holds them to it.

- A score is the cosine similarity of query and chunk, in [-1, 1], higher is better, rounded to six
  decimals (float32 carries no more). A vector of zeros has similarity 0 to everything.
- Results are ordered by score, then by id (code points); which of several equally good chunks make
  the cut follows from that order, too, and not from the engine.
- An id is any text without NUL characters that is not empty, at most `MAX_ID` bytes of UTF-8 long.
- A chunk comes back as it was given: id, text, document id, offsets and metadata, which may be
  any JSON. Its ``score`` is not stored.
- Filters mean what `ragbench.core.filters.matches` says, and the store executes them.
- A write is visible to the next read, and is kept when the method has returned (the store
  ``memory`` writes its folder in `VectorStore.mark` and `VectorStore.close` only).
- Errors are `ragbench.errors.StoreError`: one line that names the address without its password.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter
from ragbench.errors import ConfigError, StoreError
from ragbench.stores.words import WordsForm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FORMAT = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexIdentity:
    """Written by an indexing, kept by the store, read by a search."""

    embedder: Mapping[str, Any]
    """Identity of the embedder; vectors of another one are never compared with these."""
    embedder_name: str
    """What opens that embedder again, such as ``"onnx:models/bge-small"``."""
    embedder_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The settings that it was opened with; no credentials."""
    calibration: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The embedder's measured scale, as `ragbench.embedders.cosine_scale` writes it."""
    chunker: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How documents were cut."""
    digest: str = ""
    """Of all chunks, once the indexing is complete; empty before."""

    def to_json(self) -> dict[str, Any]:
        return {"ragbench_index": _FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, collection: str) -> IndexIdentity:
        fields = {name: value[name] for name in value if name != "ragbench_index"}
        try:
            if value["ragbench_index"] != _FORMAT:
                raise TypeError
            return cls(**fields)
        except (KeyError, TypeError) as error:
            raise StoreError(
                f"the collection '{collection}' was not made by 'ragbench index', or by another "
                "release of it: index it anew under another name"
            ) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """How hard a store looks in a search by vectors.

    Raises:
        ConfigError: ``ef`` is below 1, or is given for an exact search.
    """

    ef: int | None = None
    """How many candidates an approximate index keeps while it looks (``hnsw.ef_search`` in
    PostgreSQL, ``hnsw_ef`` in Qdrant, ``ef`` in Milvus); None for the store's own setting. A store
    without such an index has no use for it."""
    exact: bool = False
    """Whether every vector is compared, whatever index there is."""

    def __post_init__(self) -> None:
        if self.ef is not None and (self.exact or self.ef < 1):
            problem = "has no meaning for an exact search" if self.exact else "must be at least 1"
            raise ConfigError(f"ef {problem}: {self.ef}")


NORMAL = Effort()
"""As the store is set."""

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
    lease: str = ""
    """Who writes to it now, as `ragbench.stores.writers` says it; empty for nobody."""
    words: WordsForm | None = None
    """How it keeps the words of its chunks for the store to rank; None where it keeps none."""


def other_form(address: str, name: str) -> StoreError:
    """What to raise where another release has written a collection."""
    return StoreError(
        f"{address}: another release of ragbench wrote the collection '{name}', in a form that "
        "this one does not read: remove it with 'ragbench index --drop', then index the corpus "
        "again; or index it under another name"
    )


@runtime_checkable
class VectorStore(Protocol):
    """One open collection."""

    def info(self) -> CollectionInfo:
        """What the collection says of itself, read from the store now."""
        ...

    def mark(
        self, *, complete: bool, identity: Mapping[str, Any] | None = None, lease: str = ""
    ) -> None:
        """Sets `CollectionInfo.complete` and its lease, and where given the identity; kept at once.

        What was written before is on the disk before the mark is.
        """
        ...

    def upsert(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        """Adds chunks; one whose id is stored replaces it. Of an id given twice the last counts."""
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

    @property
    def is_exact(self) -> bool:
        """Whether a search compares every vector: there is no index that could miss one."""
        ...

    def search(
        self,
        vectors: Vectors,
        *,
        k: int,
        filters: Filter | None = None,
        effort: Effort = NORMAL,
    ) -> list[list[Chunk]]:
        """The chunks most similar to each query."""
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


class Database(Protocol):
    """Where collections are: a folder, a file or a server, named by its address.

    It connects when something is asked of it, and disconnects when the last collection that was
    opened from it is closed.
    """

    @property
    def address(self) -> str:
        """The address without a password, as messages show it."""
        ...

    @property
    def folder(self) -> Path | None:
        """Where an engine inside of this process keeps all its collections; None for a server."""
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
        words: WordsForm | None = None,
    ) -> VectorStore:
        """Makes an empty collection, not marked complete, and opens it."""
        ...

    def open(self, name: str) -> VectorStore:
        """Opens a collection."""
        ...

    def drop(self, name: str) -> None:
        """Removes a collection with all that is in it; no error when there is none."""
        ...

    def close(self) -> None:
        """Ends the use of the database and of what was opened from it; again does nothing."""
        ...
