"""What a collection says of itself, and how hard a search looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

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


MetricName: TypeAlias = Literal["cosine", "dot", "euclid", "manhattan"]
"""How two vectors are compared."""


class Row(NamedTuple):
    """One row as its engine keeps it, without its vectors."""

    id: str
    """The engine's own id; empty where it has none."""
    fields: Any
    """All that is kept of the row: for whom it is foreign, by the names of its fields."""
    score: float = 0.0
    """How near it is to a query, turned so that higher is better."""
