"""Open collections: what every one does with what its engine finds; those of ragbench's own."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
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
        """The database's address for messages, without a password.

        Every error of a collection begins with it.
        """
        ...

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """The exceptions of the database's engine: each becomes a `StoreError` of one line.

        A collection looks out for them in every call of its engine.
        """
        ...


class OpenCollection(ABC, Generic[_EngineT]):
    """What is the same of every engine: checks, folded filters, ties cut by id, errors."""

    native_filter: object = None
    """What every search keeps to, in the engine's own syntax; None for nothing."""

    def __init__(
        self, engine: _EngineT, name: str, database: Database, on_close: Callable[[], None]
    ) -> None:
        """An open collection of an engine: a searchable set of chunks with their vectors.

        A filter nested too deeply for Python counts as a failure of the engine, too.

        Args:
            engine: searches the collection in its vendor's language, and checks nothing.
            name: of the collection, for messages.
            database: its address, and its engine's exceptions.
            on_close: called once, when the use of the collection ends.
        """
        self.name = name
        self.address = database.address
        self._engine = engine
        # A filter that is nested too deeply for Python is an error of one line, too.
        self._failures = (*database.failures, RecursionError)
        self._on_close: Callable[[], None] | None = on_close

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Length of the vectors that the collection is searched by.

        Queries of another one are refused. Only an embedder of this dimension can have filled the
        collection.
        """

    @property
    @abstractmethod
    def metric(self) -> MetricName:
        """How vectors are compared; a score is higher for a nearer chunk, whatever the metric.

        Reports name the scores by it.
        """

    @abstractmethod
    def _queries(self, vectors: Vectors) -> tuple[Rows, Sequence[int]]:
        """Query vectors as the engine takes them, and the positions of those to be searched.

        A collection checks them first, so that a wrong length or NaN is an error and not a poor
        result.
        """

    def _condition(self, filters: Filter | None) -> Any:
        """A search's filters and the collection's native filter as one condition.

        The condition is made once for a search, for all of its queries.
        """
        return self._engine.condition(filters, self.native_filter)

    @abstractmethod
    def _scored(self, row: Row) -> Row | None:
        """A row with its score in the form in which results show it.

        None for a row that is skipped.
        """

    @abstractmethod
    def _chunks(self, rows: Sequence[Row]) -> list[Chunk]:
        """The chunks of a result's rows, in their order.

        Each kind of collection reads the fields of its rows in its own way. Searches call it for
        the rows of the result alone, since to read metadata takes time.
        """

    def count(self) -> int:
        """How many chunks the collection has.

        Reports show the number.
        """
        with self.working() as engine:
            return engine.count()

    @property
    def is_exact(self) -> bool:
        """Whether a search of the collection compares every vector.

        An exact search misses no chunk. An approximate index may: reports measure how many.
        """
        with self.working() as engine:
            return engine.is_exact

    def search(
        self, vectors: Vectors, *, k: int, filters: Filter | None = None, effort: Effort = NORMAL
    ) -> list[list[Chunk]]:
        """The `k` chunks nearest to each query vector, best first, by the collection's metric.

        Of equal scores the lower id comes first, whichever engine searches.

        Args:
            vectors: one row a query.
            k: chunks of each query, at least 1.
            filters: only chunks that pass are found.
            effort: how many vectors an approximate index looks at.
        """
        queries, positions = self._queries(vectors)
        ask = partial(self._nearest_rows, queries, effort)
        # Engines of ragbench's own collections need no such attribute: they have no limit.
        max_tied = getattr(self._engine, "row_limit", None)
        return self._ranked(ask, positions, len(queries), k=k, filters=filters, max_tied=max_tied)

    def _nearest_rows(
        self, queries: Rows, effort: Effort, batch: Sequence[int], limit: int, condition: Any
    ) -> Rankings:
        """The engine's rows nearest to some of a search's query vectors, at most `limit` a query.

        `top_k` wants more rows again for queries whose last scores tie: so it names positions.

        Args:
            queries: all vectors of the search.
            effort: how many vectors an approximate index looks at.
            batch: the positions of the queries that are wanted.
            condition: the filters in the engine's language.
        """
        rows = queries
        if len(batch) < len(queries):  # else the rows would be copied for nothing
            rows = queries[list(batch)]
        return self._engine.nearest(rows, limit, condition, effort)

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
        """The first `k` chunks of each query, by score, then id; by vectors or by words.

        Filters are folded, ties are cut by id, and engines' failures become errors of ragbench's
        here, so that all stores behave alike.

        Args:
            ask: asks the engine for the rows of some queries.
            positions: of the queries that ask the engine; the others find nothing.
            queries: the number of all queries.
            k: chunks of each query.
            filters: only chunks that pass are found.
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
            fetch = partial(self._scored_rankings, ask, positions, condition)
            rankings = top_k(fetch, len(positions), k, max_tied)
        for position, rows in zip(positions, rankings, strict=True):
            results[position] = self._chunks(rows)
        return results

    def _scored_rankings(
        self, ask: Ask, positions: Sequence[int], condition: Any, batch: Sequence[int], limit: int
    ) -> Rankings:
        """The engine's rows for some of a search's queries, with the scores that results show.

        Ties are seen and cut by these scores, so they are made before the cut.

        Args:
            ask: asks the engine for the rows of queries, by vectors or by words.
            positions: of the queries that are searched, among all of the search.
            condition: the filters in the engine's language.
            batch: numbers among the `positions`.
            limit: the most rows of one query.
        """
        query_positions = [positions[number] for number in batch]
        rankings = ask(query_positions, limit, condition)
        return [self._scored_rows(rows) for rows in rankings]

    def _scored_rows(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with the scores that results show, without those that are skipped.

        Ties are seen and cut by these scores, so they are made before the cut.
        """
        scored: list[Row] = []
        for row in rows:
            scored_row = self._scored(row)
            if scored_row is not None:
                scored.append(scored_row)
        return scored

    def close(self) -> None:
        """Ends the use of the collection, and so perhaps of its connection.

        The connection ends with the last open collection. A second call does nothing.
        """
        on_close = self._on_close
        if on_close is not None:
            self._on_close = None  # before the call, which may fail
            on_close()

    def __enter__(self) -> Self:
        """The collection itself, for ``with``, which closes it at the end.

        Nothing is opened here.
        """
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the collection at the end of a ``with``, also after an error in it.

        A connection that is left open would keep embedded stores locked.
        """
        self.close()

    @contextmanager
    def working(self) -> Generator[_EngineT]:
        """A context that gives the engine; what it raises there becomes a `StoreError`.

        Every call of an engine is made in it: errors then name the store, without its password.

        Raises:
            StoreError: the engine failed, or the collection is closed.
        """
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
        """Opens a collection of ragbench's own; the arguments are those of `OpenCollection`.

        Two things that no later write changes are read here, once: the length of its vectors and
        how the words of its chunks are kept.
        """
        super().__init__(engine, name, database, on_close)
        info = engine.read_info()
        self._dimension = info.dimension
        self.words = info.words
        """How the collection's store ranks by words; None where ragbench ranks by words itself."""

    @property
    def dimension(self) -> int:
        """Length of the collection's vectors, as it was made: no later write changes it.

        Vectors and queries of another length are refused.
        """
        return self._dimension

    @property
    def metric(self) -> MetricName:
        """The cosine, in every collection that ragbench fills.

        Its vectors are stored at length 1. Scores of all own collections compare for that reason.
        """
        return "cosine"

    def unfiltered(self) -> OwnCollection:
        """The collection itself: only another program's has a native filter that could be left out.

        A caller that compares searches with and without that filter can so treat both kinds alike.
        """
        return self

    def warnings(self) -> list[str]:
        """No lines: each chunk of ragbench's own was checked when it was written.

        Other programs' collections have warnings about unreadable rows; reports ask both kinds.
        """
        return []

    def info(self) -> CollectionInfo:
        """The collection's record of itself now, such as whether it is complete.

        The record is read anew each time: another process may be indexing into the collection.
        """
        with self.working() as engine:
            return engine.read_info()

    def mark(self, *, complete: bool, identity: Mapping[str, Any] | None = None) -> None:
        """Marks the collection as complete or not, at once, and may replace its identity.

        An indexing marks it incomplete first and complete at its end, so that a search can refuse a
        half-written corpus. What was written before is on the disk before the mark is.

        Args:
            complete: whether an indexing has come to its end.
            identity: what the vectors are made by and of, as JSON; None leaves the stored one.
        """
        with self.working() as engine:
            # The record is read anew: another process may have changed it, and all but the mark and
            # the identity stays so.
            info = replace(engine.read_info(), complete=complete)
            if identity is not None:
                info = replace(info, identity=check_identity(identity))
            engine.write_info(info)

    def upsert(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        """Adds chunks with their vectors; a chunk whose id is stored replaces the old one.

        Of an id that comes twice the last counts. Every chunk is checked before any is written.

        Args:
            vectors: one row a chunk, in any length: they are stored at length 1.

        Raises:
            StoreError: a chunk or a vector cannot be stored, or there are more of one than of the
                other.
        """
        rows = unit_rows(vectors, self._dimension)
        if len(rows) != len(chunks):
            chunk_count = counted(len(chunks), "chunk")
            raise StoreError(f"{chunk_count} came with {counted(len(rows), 'vector')}")
        encoded = [encode(chunk) for chunk in chunks]  # all, so that each is checked
        # By id: the position of the last chunk with this id; the ids are in the order of their
        # first chunks.
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
        """Removes the chunks of these ids, such as those that the corpus no longer has.

        A search would still find the old passages.
        """
        checked = check_ids(ids)
        if checked:
            with self.working() as engine:
                engine.remove(checked)

    def get(self, ids: Sequence[str]) -> dict[str, Chunk]:
        """The stored chunks of these ids, by id and in the ids' order; unknown ids are left out.

        A search by words reads its results so, after ranking ids alone.
        """
        checked = check_ids(ids)
        if not checked:
            return {}
        with self.working() as engine:
            chunks = [engine.read(fields, None) for fields in engine.stored(checked)]
        # In the order of the ids: engines answer in any.
        by_id = {chunk.id: chunk for chunk in chunks}
        return {id_: by_id[id_] for id_ in checked if id_ in by_id}

    def rows(self, limit: int) -> list[Chunk]:
        """The first chunks by id, at most `limit`: two looks at a collection show the same.

        `ragbench why` tries other settings on a collection's texts, which it reads so.
        """
        first_ids = sorted(self.digests())[:limit]
        return list(self.get(first_ids).values())

    def vectors(self, ids: Sequence[str]) -> dict[str, Rows]:
        """The stored vectors of these ids, by id, at length 1; unknown ids are left out.

        Measurements of an index and rerankers by embeddings read them: no text is embedded twice.
        """
        checked = check_ids(ids)
        if not checked:
            return {}
        with self.working() as engine:
            by_id = engine.rows(checked)
        return {id_: by_id[id_] for id_ in checked if id_ in by_id}

    def digests(self) -> dict[str, str]:
        """The digest of every stored chunk, by id (see `ragbench.search.stores.record.encode`).

        An indexing embeds only the chunks whose digest is another one.
        """
        with self.working() as engine:
            return engine.digests()

    def _queries(self, vectors: Vectors) -> tuple[Rows, Sequence[int]]:
        """All query vectors at length 1, and the positions of all of them.

        At length 1 the engine's inner product is the cosine, as all own collections score.
        """
        rows = unit_rows(vectors, self._dimension, what="query vector")
        return rows, range(len(rows))

    def _scored(self, row: Row) -> Row:
        """A row with its score rounded alike for every engine: the same chunks tie in each.

        Which of several equally good chunks make the cut follows from it.
        """
        return row._replace(score=similarity(row.score))

    def _chunks(self, rows: Sequence[Row]) -> list[Chunk]:
        """The chunks of a result's rows, read from the fields that the engine keeps.

        Only the chunks in the result are made, since reading their metadata takes time.
        """
        return [self._engine.read(row.fields, row.score) for row in rows]

    def search_words(
        self, queries: Sequence[WordVector], *, k: int, filters: Filter | None = None
    ) -> list[list[Chunk]]:
        """The chunks that share words with each query, by the sum of products, best first.

        Only stores that rank by words themselves can do this (`base.WordWriter`).

        Args:
            queries: weights of words by their numbers, scaled so that no score leaves [-1, 1],
                where it would be cut off.
            k: chunks of each query, at least 1.
            filters: only chunks that pass are found.
        """
        ask = partial(self._best_sums, queries)
        count = len(queries)
        # Many chunks may tie by words: of a question of one word, all of equal length.
        # More than `k` in any case, or no tie could be seen.
        max_tied = max(_MAX_TIED, k + 1)
        return self._ranked(ask, range(count), count, k=k, filters=filters, max_tied=max_tied)

    def _best_sums(
        self, queries: Sequence[WordVector], batch: Sequence[int], limit: int, condition: Any
    ) -> Rankings:
        """The chunks of the greatest sums for some of a search's queries, up to `limit` each.

        `top_k` wants more chunks again for queries whose last scores tie: so it names positions.

        Args:
            queries: all of the search, as weights of words by their numbers.
            batch: the positions of the queries that are wanted.
            condition: the filters in the engine's language.
        """
        batch_queries = [queries[position] for position in batch]
        # This method is called only for collections with `words`, whose engines rank by words.
        return cast("WordWriter", self._engine).best_sums(batch_queries, limit, condition)

    def word_weights(self, numbers: Sequence[int]) -> list[float | None]:
        """The weights of words (inverse document frequencies), as the store counts them.

        None where no chunk has the word. A search scales its queries by them.
        """
        if not numbers:
            return []
        with self.working() as engine:
            return cast("WordWriter", engine).weights(numbers)


# --- what is checked before an engine is asked, so that all give the same errors


def check_identity(identity: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of a collection's identity (what made its vectors), as JSON gives it back.

    So the identity of a new collection equals one that was read from a store: tuples are lists in
    both.
    """
    try:
        text = json.dumps(dict(identity or {}), allow_nan=False)
        return cast("dict[str, Any]", json.loads(text))
    except (TypeError, ValueError) as error:
        raise StoreError(f"the identity of a collection is JSON: {error}") from error


def check_k(k: object) -> None:
    """Refuses a number of results that is not a whole number from 1.

    True, a 1 to Python, is none. Each engine would raise an error of its own.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ConfigError(f"k, the number of results, is a whole number from 1, found {k!r}")


def check_ids(ids: Sequence[str]) -> list[str]:
    """The ids of chunks, each once and checked.

    A single text is refused: its letters would be taken for ids.
    """
    if isinstance(ids, str):
        raise StoreError(f"expected a list of ids, found the text {ids!r}")
    for value in ids:
        check_id(value)
    return list(dict.fromkeys(ids))


def finite_rows(vectors: Vectors, dimension: int, *, what: str = "vector") -> Rows:
    """Vectors as an array of one row each, checked: of the collection's length, and all finite.

    Engines would store or compare others without an error, or with one of their own.

    Args:
        vectors: rows of numbers.
        dimension: the length of the collection's vectors.
        what: the word for a vector in errors.
    """
    try:
        rows = np.asarray(vectors)
        # What is float32 already is checked without a copy.
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
    """Vectors as float32 at length 1, so that inner products are cosines; rows of zeros stay zeros.

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
