"""Open collections: what every one does with what its engine finds; those of ragbench's own."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar, cast

from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter, folded
from ragbench.core.record import replace
from ragbench.errors import ConfigError, StoreError
from ragbench.plugins import np
from ragbench.safe_text import counted
from ragbench.search.stores.base import (
    NORMAL,
    CollectionInfo,
    Effort,
    Engine,
    MetricName,
    Rankings,
    Row,
    Rows,
    Vectors,
    WordWriter,
    Writer,
    engine_failures,
    top_k,
)
from ragbench.search.stores.record import WordVector, check_id, encode, similarity

_EngineT = TypeVar("_EngineT", bound=Engine)
_MAX_TIED = 1000
"""Chunks that are looked at for the lowest ids among equal scores. One word scores alike in all
short chunks of one length, and there may be very many."""

Ask: TypeAlias = Callable[[Sequence[int], int, Any], Rankings]
"""Asks the engine: for these queries, at most so many rows each, that meet the condition."""


class Database(Protocol):
    """Where a collection is."""

    @property
    def address(self) -> str:
        """Its address for messages, without a password."""
        ...

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What its engine raises: each becomes a `StoreError` of one line."""
        ...


class OpenCollection(ABC, Generic[_EngineT]):
    """What is the same of every engine: checks, folded filters, ties cut by id, errors."""

    native_filter: object = None
    """What every search keeps to, in the engine's own syntax; None for nothing."""

    def __init__(
        self, engine: _EngineT, name: str, database: Database, on_close: Callable[[], None]
    ) -> None:
        """An open collection; ``on_close`` is called once, when its use ends."""
        self.name = name
        self.address = database.address
        self._engine = engine
        # A filter that is nested too deeply for Python is an error of one line, too.
        self._failures = (*database.failures, RecursionError)
        self._on_close: Callable[[], None] | None = on_close

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Length of the vectors that are searched."""

    @property
    @abstractmethod
    def metric(self) -> MetricName:
        """How vectors are compared; a score is higher for what is nearer, whatever the metric."""

    @abstractmethod
    def _queries(self, vectors: Vectors) -> tuple[Rows, Sequence[int]]:
        """Query vectors as the engine takes them, and the positions of those that ask it."""

    def _condition(self, filters: Filter | None) -> Any:
        """A search's filters and the collection's native one, as the engine takes them."""
        return self._engine.condition(filters, self.native_filter)

    @abstractmethod
    def _scored(self, row: Row) -> Row | None:
        """A row with its score as it is given out; None for one that is skipped."""

    @abstractmethod
    def _chunks(self, rows: Sequence[Row]) -> list[Chunk]:
        """The chunks of a result's rows, in their order, made once the cut is certain."""

    def count(self) -> int:
        """How many chunks the collection has."""
        with self.working() as engine:
            return engine.count()

    @property
    def is_exact(self) -> bool:
        """Whether a search compares every vector: there is no index that could miss one."""
        with self.working() as engine:
            return engine.is_exact

    def search(
        self, vectors: Vectors, *, k: int, filters: Filter | None = None, effort: Effort = NORMAL
    ) -> list[list[Chunk]]:
        """The chunks nearest to each query, best first; those of ragbench's own by cosine."""
        queries, positions = self._queries(vectors)

        def ask(batch: Sequence[int], limit: int, condition: Any) -> Rankings:
            """Asks the engine for the rows nearest to some of the queries."""
            rows = queries
            if len(batch) < len(queries):  # else the rows would be copied for nothing
                rows = queries[list(batch)]
            return self._engine.nearest(rows, limit, condition, effort)

        max_tied = getattr(self._engine, "row_limit", None)
        return self._ranked(ask, positions, len(queries), k=k, filters=filters, max_tied=max_tied)

    def _ranked(
        self,
        ask: Ask,
        positions: Sequence[int],
        queries: int,
        *,
        k: int,
        filters: Filter | None,
        max_tied: int | None,
    ) -> list[list[Chunk]]:
        """The first `k` chunks of each query; only those at the `positions` ask the engine.

        Args:
            ask: asks the engine for the rows of some of the queries.
            queries: how many there are; those that do not ask the engine find nothing.
            max_tied: rows that are fetched at most to see which are as good as the last.
        """
        check_k(k)
        results: list[list[Chunk]] = [[] for _ in range(queries)]
        # Folded, a filter may turn out to let all pass (True) or nothing (False).
        folded_filter = True if filters is None else folded(filters)
        if not positions or folded_filter is False:
            return results
        engine_filter = None if folded_filter is True else folded_filter
        with self.working():
            condition = self._condition(engine_filter)

            def fetch(batch: Sequence[int], limit: int) -> Rankings:
                """The rows of some of the queries, with the scores that are given out."""
                query_positions = [positions[number] for number in batch]
                rankings = ask(query_positions, limit, condition)
                return [self._scored_rows(rows) for rows in rankings]

            rankings = top_k(fetch, len(positions), k, max_tied)
        for position, rows in zip(positions, rankings, strict=True):
            results[position] = self._chunks(rows)
        return results

    def _scored_rows(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with the scores that are given out: by those, ties are seen and cut."""
        scored: list[Row] = []
        for row in rows:
            scored_row = self._scored(row)
            if scored_row is not None:
                scored.append(scored_row)
        return scored

    def close(self) -> None:
        """Ends the use of the collection. Calling it again does nothing."""
        on_close = self._on_close
        if on_close is not None:
            self._on_close = None  # before the call, which may fail
            on_close()

    def __enter__(self) -> Self:
        """Nothing is opened here: it is for ``with``, which closes the collection."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def working(self) -> Generator[_EngineT]:
        """The engine, while what it raises becomes a `StoreError`."""
        if self._on_close is None:
            raise StoreError(f"{self.address}: the collection '{self.name}' is closed")
        with engine_failures(self.address, self._failures):
            yield self._engine


class OwnCollection(OpenCollection[Writer]):
    """A collection that ragbench fills, as `ragbench.search.stores.record` describes it."""

    has_documents = True
    """Whether its chunks name their documents."""

    def __init__(
        self, engine: Writer, name: str, database: Database, on_close: Callable[[], None]
    ) -> None:
        """Reads what does not change while it is open: the vectors' length, how words are kept."""
        super().__init__(engine, name, database, on_close)
        info = engine.read_info()
        self._dimension = info.dimension
        self.words = info.words
        """How its store ranks by words; None where ragbench does."""

    @property
    def dimension(self) -> int:
        """As it was made: no later write changes it."""
        return self._dimension

    @property
    def metric(self) -> MetricName:
        """The cosine: all vectors are stored at length 1."""
        return "cosine"

    def unfiltered(self) -> OwnCollection:
        """Itself: searches of ragbench's own collections keep to no native filter."""
        return self

    def warnings(self) -> list[str]:
        """None: each chunk was checked when it was written."""
        return []

    def info(self) -> CollectionInfo:
        """What it says of itself now: another process may be indexing into it."""
        with self.working() as engine:
            return engine.read_info()

    def mark(self, *, complete: bool, identity: Mapping[str, Any] | None = None) -> None:
        """Sets whether it is complete, and where given its identity; kept at once.

        What was written before is on the disk before the mark is.
        """
        with self.working() as engine:
            info = replace(engine.read_info(), complete=complete)
            if identity is not None:
                info = replace(info, identity=check_identity(identity))
            engine.write_info(info)

    def upsert(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        """Adds chunks; one whose id is stored replaces it. Of an id given twice the last counts."""
        rows = unit_rows(vectors, self._dimension)
        if len(rows) != len(chunks):
            chunk_count = counted(len(chunks), "chunk")
            raise StoreError(f"{chunk_count} came with {counted(len(rows), 'vector')}")
        encoded = [encode(chunk) for chunk in chunks]  # all, so that each is checked
        last_positions: dict[str, int] = {}
        for position, chunk in enumerate(chunks):
            last_positions[chunk.id] = position
        positions = list(last_positions.values())
        records = [encoded[position] for position in positions]
        words = self.words
        if words is not None:  # made here, so that no chunk lacks them
            words.check(self.name)
            records = [replace(record, words=words.vector(record.chunk)) for record in records]
        if records:
            with self.working() as engine:
                engine.write(records, rows[positions])

    def delete(self, ids: Sequence[str]) -> None:
        """Removes chunks, as an indexing does with those that the corpus no longer has."""
        checked = check_ids(ids)
        if checked:
            with self.working() as engine:
                engine.remove(checked)

    def get(self, ids: Sequence[str]) -> dict[str, Chunk]:
        """The chunks of these ids; those that are not there are left out."""
        checked = check_ids(ids)
        if not checked:
            return {}
        with self.working() as engine:
            chunks = [engine.read(fields, None) for fields in engine.stored(checked)]
        # In the order of the ids: engines answer in any.
        by_id = {chunk.id: chunk for chunk in chunks}
        return {id_: by_id[id_] for id_ in checked if id_ in by_id}

    def rows(self, limit: int) -> list[Chunk]:
        """The first chunks by id, so that two looks at a collection show the same."""
        first_ids = sorted(self.digests())[:limit]
        return list(self.get(first_ids).values())

    def vectors(self, ids: Sequence[str]) -> dict[str, Rows]:
        """The vectors of these chunks, as they were stored: at unit length."""
        checked = check_ids(ids)
        if not checked:
            return {}
        with self.working() as engine:
            by_id = engine.rows(checked)
        return {id_: by_id[id_] for id_ in checked if id_ in by_id}

    def digests(self) -> dict[str, str]:
        """Every id with a digest of its chunk (`ragbench.search.stores.record.encode`)."""
        with self.working() as engine:
            return engine.digests()

    def _queries(self, vectors: Vectors) -> tuple[Rows, Sequence[int]]:
        """All queries, at unit length, so that the engine's inner product is the cosine."""
        rows = unit_rows(vectors, self._dimension, what="query vector")
        return rows, range(len(rows))

    def _scored(self, row: Row) -> Row:
        """Rounded alike for every engine, so that the same chunks tie in each."""
        return row._replace(score=similarity(row.score))

    def _chunks(self, rows: Sequence[Row]) -> list[Chunk]:
        """Read as the engine stores them."""
        return [self._engine.read(row.fields, row.score) for row in rows]

    def search_words(
        self, queries: Sequence[WordVector], *, k: int, filters: Filter | None = None
    ) -> list[list[Chunk]]:
        """The chunks that share words with each query, by the sum of the products.

        Scores are given within [-1, 1]: queries are to be scaled for that.
        """
        engine = cast("WordWriter", self._engine)

        def ask(batch: Sequence[int], limit: int, condition: Any) -> Rankings:
            """Asks the store for the rankings of some of the queries."""
            batch_queries = [queries[position] for position in batch]
            return engine.best_sums(batch_queries, limit, condition)

        count = len(queries)
        # Many chunks may tie by words: of a question of one word, all of equal length.
        max_tied = max(_MAX_TIED, k + 1)
        return self._ranked(ask, range(count), count, k=k, filters=filters, max_tied=max_tied)

    def word_weights(self, numbers: Sequence[int]) -> list[float | None]:
        """Inverse document frequencies as the store counts them; None where no chunk has a word."""
        if not numbers:
            return []
        with self.working() as engine:
            return cast("WordWriter", engine).weights(numbers)


# --- what is checked before an engine is asked, so that all give the same errors


def check_identity(identity: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of a collection's identity, as JSON gives it back.

    So the identity of a new collection equals that of one that was read from a store.
    """
    try:
        text = json.dumps(dict(identity or {}), allow_nan=False)
        return cast("dict[str, Any]", json.loads(text))
    except (TypeError, ValueError) as error:
        raise StoreError(f"the identity of a collection is JSON: {error}") from error


def check_k(k: object) -> None:
    """Refuses a number of results that is none; a flag is an ``int`` to Python."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ConfigError(f"k, the number of results, is a whole number from 1, found {k!r}")


def check_ids(ids: Sequence[str]) -> list[str]:
    """The ids, each once; a single text is refused, whose letters would be taken for ids."""
    if isinstance(ids, str):
        raise StoreError(f"expected a list of ids, found the text {ids!r}")
    for value in ids:
        check_id(value)
    return list(dict.fromkeys(ids))


def finite_rows(vectors: Vectors, dimension: int, *, what: str = "vector") -> Rows:
    """The vectors as an array, checked: one row each, of the collection's length, all finite.

    Args:
        what: how the message calls them.
    """
    try:
        rows = np.asarray(vectors)
        if rows.dtype != np.float32:
            rows = rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise StoreError(f"expected one row of numbers a {what}: {error}") from error
    if rows.ndim == 1 and rows.size == 0:  # an empty list, which has no second dimension
        rows = rows.reshape(0, dimension)
    if rows.ndim != 2:
        raise StoreError(f"expected one row of numbers a {what}, found shape {rows.shape}")
    if rows.shape[1] != dimension:
        raise StoreError(
            f"the {what} has {rows.shape[1]} dimensions, the collection {dimension}: was it "
            "indexed with another embedder?"
        )
    are_finite = np.isfinite(rows).all(axis=1)
    if not are_finite.all():
        first_bad = int(np.flatnonzero(~are_finite)[0])
        raise StoreError(f"{what} {first_bad} holds NaN or infinity")
    return rows


def unit_rows(vectors: Vectors, dimension: int, *, what: str = "vector") -> Rows:
    """The vectors as float32 at unit length; rows of zeros stay zeros.

    Lengths are computed in float64: in float32 the sum of many squares would be rounded too far.
    """
    rows = finite_rows(vectors, dimension, what=what).astype(np.float64)
    # Divided by the greatest first: the square of a very long or short row would not be finite.
    size = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    size[size == 0] = 1.0  # of a row of zeros
    scaled = rows / size
    length = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    length[length == 0] = 1.0
    unit: Rows = (scaled / length).astype(np.float32)
    return unit
