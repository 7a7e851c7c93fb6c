"""What every store checks before it asks its engine, so that all give the same errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ragbench.core.chunk import Chunk
from ragbench.errors import ConfigError, StoreError
from ragbench.stores.base import Vectors
from ragbench.stores.record import StoredChunk, check_id, encode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_NAME = 200


def check_name(name: object) -> None:
    if not isinstance(name, str) or not name or name.isspace():
        raise StoreError(f"a collection needs a name, found {name!r}")
    if len(name) > _MAX_NAME or not name.isprintable():
        raise StoreError(
            f"the collection's name {name[:60]!r} is not a valid name: give at most {_MAX_NAME} "
            "printable characters"
        )


def check_dimension(dimension: object) -> None:
    """Refuses a length that no vector has."""
    if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
        raise StoreError(f"vectors have a length of at least 1, found {dimension!r}")


def check_identity(identity: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of a collection's identity, as JSON gives it back."""
    try:
        text = json.dumps(dict(identity or {}), allow_nan=False)
        return cast("dict[str, Any]", json.loads(text))
    except (TypeError, ValueError) as error:
        raise StoreError(f"the identity of a collection is JSON: {error}") from error


def check_k(k: object) -> None:
    """Refuses a number of results that asks for none."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ConfigError(f"k, the number of results, is a whole number from 1, found {k!r}")


def check_ids(ids: Sequence[str]) -> list[str]:
    if isinstance(ids, str):
        raise StoreError(f"expected a list of ids, found the text {ids!r}")
    for value in ids:
        check_id(value)
    return list(dict.fromkeys(ids))


def finite_rows(vectors: Vectors, dimension: int, *, what: str = "vector") -> NDArray[np.float32]:
    import numpy as np

    with np.errstate(over="ignore"):
        rows = _rows(vectors, dimension, what).astype(np.float32)
    _check_finite(rows, what)
    return rows


def unit_rows(vectors: Vectors, dimension: int, *, what: str = "vector") -> NDArray[np.float32]:
    """The vectors as float32 at unit length; rows of zeros stay zeros."""
    import numpy as np

    rows = _rows(vectors, dimension, what).astype(np.float64)
    # Divided by the greatest first: the square of a very long or short row would not be finite.
    size = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    _check_finite(size, what)
    scaled = rows / np.where(size == 0, 1.0, size)
    length = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    return (scaled / np.where(length == 0, 1.0, length)).astype(np.float32)


def _rows(vectors: Vectors, dimension: int, what: str) -> NDArray[np.floating[Any]]:
    import numpy as np

    try:
        rows = np.asarray(vectors)
        if rows.dtype != np.float32:
            rows = rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise StoreError(f"expected one row of numbers a {what}: {error}") from error
    if rows.ndim == 1 and rows.size == 0:
        rows = rows.reshape(0, dimension)
    if rows.ndim != 2:
        raise StoreError(f"expected one row of numbers a {what}, found shape {rows.shape}")
    if rows.shape[1] != dimension:
        raise StoreError(
            f"the {what} has {rows.shape[1]} dimensions, the collection {dimension}: was it "
            "indexed with another embedder?"
        )
    return rows


def _check_finite(rows: NDArray[np.floating[Any]], what: str) -> None:
    import numpy as np

    good = np.isfinite(rows).all(axis=1)
    if not good.all():
        raise StoreError(f"{what} {int(np.flatnonzero(~good)[0])} holds NaN or infinity")


def prepared(
    chunks: Sequence[Chunk], vectors: Vectors, dimension: int
) -> tuple[list[StoredChunk], NDArray[np.float32]]:
    """Chunks and vectors, ready to be written: checked, each id once, the last of them."""
    rows = unit_rows(vectors, dimension)
    if len(rows) != len(chunks):
        raise StoreError(f"{len(chunks)} chunks came with {len(rows)} vectors")
    last = {chunk.id: position for position, chunk in enumerate(chunks)}
    kept = list(last.values())
    records = [encode(chunk) for chunk in chunks]
    if len(kept) < len(records):
        return [records[position] for position in kept], rows[kept]
    return records, rows
