"""What differs from engine to engine, and what does not.

An `Engine` speaks its own language and checks nothing. `EngineStore` makes it a
`ragbench.stores.base.VectorStore`: it checks, encodes, orders, and gives the engine's failures as
`ragbench.errors.StoreError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar

from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter, folded, matches
from ragbench.errors import RagbenchError, StoreError
from ragbench.masking import mask_text
from ragbench.stores.base import NORMAL, CollectionInfo, Effort, Vectors
from ragbench.stores.checks import check_identity, check_ids, check_k, prepared, unit_rows
from ragbench.stores.record import (
    StoredChunk,
    read_chunk,
    searched_fields,
    similarity,
    top_k,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kept: TypeAlias = Mapping[str, Any]
"""What an engine keeps of a chunk, as `ragbench.stores.record.read_chunk` takes it."""
Hit: TypeAlias = tuple[float, Any]
"""What an engine found: the inner product, or whatever else it ranks by, and what `Engine.read`
makes a `Kept` of."""

_READ = 2000
"""Vectors that are read at once."""
_UNREACHABLE = re.compile(
    r"refused|unavailable|timed? ?out|not connect|fail connecting|not known|resolve|unreachable",
    re.IGNORECASE,
)


class Engine(Protocol):
    """One collection in the words of its engine. Vectors have unit length, or are zeros."""

    address: str
    """The database's, without a password."""
    failures: tuple[type[Exception], ...]
    """What the engine raises."""

    @property
    def most(self) -> int | None:
        """The most hits that it gives for one query; None where there is no limit."""
        ...

    def read_info(self) -> CollectionInfo:
        """What is kept with the collection."""
        ...

    def write_info(self, info: CollectionInfo) -> None:
        """Keeps it."""
        ...

    def write(self, chunks: Sequence[StoredChunk], rows: NDArray[np.float32]) -> None:
        """Adds or replaces chunks; each id is there once."""
        ...

    def remove(self, ids: Sequence[str]) -> None:
        """Removes those that are there."""
        ...

    def kept(self, ids: Sequence[str]) -> list[Kept]:
        """What is kept of those that are there, in any order."""
        ...

    def rows(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors of those that are there."""
        ...

    def digests(self) -> dict[str, str]:
        """All ids with their digests."""
        ...

    def count(self) -> int:
        """How many chunks there are."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether `nearest` compares every vector, whatever the effort."""
        ...

    def nearest(
        self,
        rows: NDArray[np.float32],
        limit: int,
        filters: Filter | None,
        effort: Effort = NORMAL,
    ) -> list[list[Hit]]:
        """The chunks of the greatest inner products; the filter is a folded one."""
        ...

    def read(self, found: Any) -> Kept:
        """What is kept of a hit's chunk."""
        ...


def exhaustive(
    engine: Engine, rows: NDArray[np.float32], limit: int, filters: Filter | None
) -> list[list[Hit]]:
    """`Engine.nearest` by reading every vector, for engines that search by their index alone."""
    import numpy as np

    ids = sorted(engine.digests())
    best: list[list[tuple[float, str]]] = [[] for _ in rows]
    for first in range(0, len(ids), _READ):
        part = ids[first : first + _READ]
        if filters is not None:
            chunks = map(read_chunk, engine.kept(part))
            part = [one.id for one in chunks if matches(filters, searched_fields(one))]
        stored = engine.rows(part)
        if not stored:
            continue
        products = rows @ np.stack([stored[id_] for id_ in stored]).T
        for ranking, scores in zip(best, products.tolist(), strict=True):
            ranking += zip(scores, stored, strict=True)
            ranking.sort(key=lambda hit: (-hit[0], hit[1]))
            del ranking[limit:]
    wanted = sorted({id_ for ranking in best for _, id_ in ranking})
    found = {values["chunk_id"]: values for values in engine.kept(wanted)} if wanted else {}
    return [[(score, found[id_]) for score, id_ in ranking] for ranking in best]


_MadeT = TypeVar("_MadeT")


class Translated(Generic[_MadeT]):
    """What was made of a filter, for as long as the same one is asked for."""

    def __init__(self, make: Callable[[Filter], _MadeT]) -> None:
        self._make = make
        self._last: tuple[Filter, _MadeT] | None = None

    def __call__(self, filters: Filter) -> _MadeT:
        last = self._last
        # The same, not an equal one: to Python 1 and True are equal.
        if last is None or last[0] is not filters:
            last = self._last = (filters, self._make(filters))
        return last[1]


@contextmanager
def engine_failures(address: str, failures: tuple[type[Exception], ...]) -> Generator[None]:
    try:
        yield
    except RagbenchError:
        raise
    except failures as error:
        raise _failure(address, error) from error


def _failure(address: str, error: Exception) -> StoreError:
    said = mask_text(" ".join(str(error).split()))[:300] or type(error).__name__
    if _UNREACHABLE.search(said):
        said = f"cannot be reached: is it running, and is the address right? ({said})"
    return StoreError(f"{address}: {said}")


class EngineStore:
    """A collection of any engine."""

    def __init__(
        self, engine: Engine, info: CollectionInfo, *, on_close: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._dimension = info.dimension
        self._name = info.name
        self._words = info.words
        self._on_close: Callable[[], None] | None = on_close
        self._folded = Translated(folded)

    def info(self) -> CollectionInfo:
        """See `ragbench.stores.base.VectorStore`."""
        with self.working() as engine:
            return engine.read_info()

    def mark(
        self, *, complete: bool, identity: Mapping[str, Any] | None = None, lease: str = ""
    ) -> None:
        """See `ragbench.stores.base.VectorStore`."""
        given = None if identity is None else check_identity(identity)
        with self.working() as engine:
            info = engine.read_info()
            kept = info.identity if given is None else given
            engine.write_info(replace(info, complete=complete, identity=kept, lease=lease))

    def upsert(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        records, rows = prepared(chunks, vectors, self._dimension)
        if records:
            with self.working() as engine:
                engine.write(records, rows)

    def delete(self, ids: Sequence[str]) -> None:
        """See `ragbench.stores.base.VectorStore`."""
        gone = check_ids(ids)
        if gone:
            with self.working() as engine:
                engine.remove(gone)

    def get(self, ids: Sequence[str]) -> dict[str, Chunk]:
        """See `ragbench.stores.base.VectorStore`."""
        wanted = check_ids(ids)
        if not wanted:
            return {}
        with self.working() as engine:
            chunks = [read_chunk(values) for values in engine.kept(wanted)]
        found = {chunk.id: chunk for chunk in chunks}
        return {value: found[value] for value in wanted if value in found}

    def vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        wanted = check_ids(ids)
        if not wanted:
            return {}
        with self.working() as engine:
            found = engine.rows(wanted)
        return {value: found[value] for value in wanted if value in found}

    def digests(self) -> dict[str, str]:
        """See `ragbench.stores.base.VectorStore`."""
        with self.working() as engine:
            return engine.digests()

    def count(self) -> int:
        """See `ragbench.stores.base.VectorStore`."""
        with self.working() as engine:
            return engine.count()

    @property
    def is_exact(self) -> bool:
        """See `ragbench.stores.base.VectorStore`."""
        return self._engine.is_exact

    def search(
        self,
        vectors: Vectors,
        *,
        k: int,
        filters: Filter | None = None,
        effort: Effort = NORMAL,
    ) -> list[list[Chunk]]:
        check_k(k)
        queries = unit_rows(vectors, self._dimension, what="query vector")
        simple = True if filters is None else self._folded(filters)
        if simple is False or not len(queries):
            return [[] for _ in queries]
        condition = None if simple is True else simple
        engine = self._opened()

        def nearest(asked: Sequence[int], limit: int) -> list[list[Hit]]:
            rows = queries if len(asked) == len(queries) else queries[list(asked)]
            return engine.nearest(rows, limit, condition, effort)

        return self._ranked(nearest, len(queries), k, most=engine.most)

    def _ranked(
        self,
        ask: Callable[[Sequence[int], int], list[list[Hit]]],
        queries: int,
        k: int,
        *,
        most: int | None,
    ) -> list[list[Chunk]]:
        """The first `k` chunks of each query, by what asks the engine for so many hits of some."""
        engine = self._opened()

        def fetch(asked: Sequence[int], limit: int) -> list[list[Chunk]]:
            return [_chunks(engine, hits, k) for hits in ask(asked, limit)]

        # A context is entered and left in the time that two hits are read in.
        try:
            return top_k(fetch, queries, k, most=most)
        except RagbenchError:
            raise
        except engine.failures as error:
            raise _failure(engine.address, error) from error

    def close(self) -> None:
        """See `ragbench.stores.base.VectorStore`."""
        if self._on_close is not None:
            on_close, self._on_close = self._on_close, None
            on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def working(self) -> Generator[Engine]:
        """The engine, while what it raises becomes a `StoreError`."""
        engine = self._opened()
        with engine_failures(engine.address, engine.failures):
            yield engine

    def _opened(self) -> Engine:
        if self._on_close is None:
            raise StoreError(f"{self._engine.address}: the collection '{self._name}' is closed")
        return self._engine


def _chunks(engine: Engine, hits: Sequence[Hit], k: int) -> list[Chunk]:
    """The chunks of one query's hits; of `k` and one more only what no tie needs is left unread."""
    scores = [similarity(score) for score, _ in hits]
    if len(hits) == k + 1 and scores[k] < min(scores[:k]):
        hits = hits[:k]
    read = engine.read
    return [read_chunk(read(found), score) for (_, found), score in zip(hits, scores, strict=False)]
