"""Open collections: what every one does with what its engine finds; those of ragbench's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, cast

from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter, folded
from ragbench.errors import StoreError
from ragbench.stores.base import NORMAL, CollectionInfo, Effort, Row, Vectors
from ragbench.stores.checks import check_identity, check_ids, check_k, prepared, unit_rows
from ragbench.stores.engine import Translated, WordWriter, Writer, engine_failures
from ragbench.stores.record import RankedT, similarity, top_k
from ragbench.stores.words import WordsForm, WordVector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_EngineT = TypeVar("_EngineT")
_TIED = 1000
"""Chunks that are looked at for the lowest ids among equal scores. One word scores alike in all
short chunks of one length, and there may be very many."""

Ask: TypeAlias = Callable[[Sequence[int], int, Any], Sequence[Sequence[Row]]]
"""Asks the engine: for these queries, at most so many rows each, that meet the condition."""


class OpenCollection(ABC, Generic[_EngineT, RankedT]):
    """A collection of any engine, until it is closed."""

    def __init__(
        self,
        engine: _EngineT,
        name: str,
        *,
        address: str,
        failures: tuple[type[Exception], ...],
        on_close: Callable[[], None],
    ) -> None:
        self.name = name
        self.address = address
        self._engine = engine
        self._failures = failures
        self._on_close: Callable[[], None] | None = on_close
        self._folded = Translated(folded)

    @abstractmethod
    def _condition(self, filters: Filter | None) -> Any:
        """A folded filter in the engine's terms."""

    @abstractmethod
    def _ranked(self, rows: Sequence[Row], k: int) -> list[RankedT]:
        """What the engine found, with the scores that decide; `k` are wanted, ties whole."""

    @abstractmethod
    def _chunks(self, ranked: Sequence[RankedT]) -> list[Chunk]: ...

    def _found(
        self,
        ask: Ask,
        asked: Sequence[int],
        queries: int,
        *,
        k: int,
        filters: Filter | None,
        most: int | None,
    ) -> list[list[Chunk]]:
        """The first `k` chunks of each query; only those at the places `asked` ask the engine."""
        check_k(k)
        simple = True if filters is None else self._folded(filters)
        found: list[list[Chunk]] = [[] for _ in range(queries)]
        if not asked or simple is False:
            return found
        with self.working():
            condition = self._condition(None if simple is True else simple)

            def fetch(which: Sequence[int], limit: int) -> list[list[RankedT]]:
                rows = ask([asked[at] for at in which], limit, condition)
                return [self._ranked(hits, k) for hits in rows]

            ranked = top_k(fetch, len(asked), k, most=most)
        for at, one in zip(asked, ranked, strict=True):
            found[at] = self._chunks(one)
        return found

    def close(self) -> None:
        """Ends the use of the collection. Calling it again does nothing."""
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
    def working(self) -> Generator[_EngineT]:
        """The engine, while what it raises becomes a `StoreError`."""
        if self._on_close is None:
            raise StoreError(f"{self.address}: the collection '{self.name}' is closed")
        with engine_failures(self.address, self._failures):
            yield self._engine


class OwnCollection(OpenCollection[Writer, Chunk]):
    """One that ragbench fills; what it promises says `ragbench.stores.record`."""

    def __init__(
        self,
        engine: Writer,
        info: CollectionInfo,
        *,
        address: str,
        failures: tuple[type[Exception], ...],
        on_close: Callable[[], None],
    ) -> None:
        super().__init__(engine, info.name, address=address, failures=failures, on_close=on_close)
        self._dimension = info.dimension
        self._words = info.words

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def native_filter(self) -> object:
        return None

    @property
    def has_documents(self) -> bool:
        """Whether its chunks name their documents."""
        return True

    def unfiltered(self) -> OwnCollection:
        return self

    def warnings(self) -> list[str]:
        return []

    def info(self) -> CollectionInfo:
        with self.working() as engine:
            return engine.read_info()

    def mark(
        self, *, complete: bool, identity: Mapping[str, Any] | None = None, lease: str = ""
    ) -> None:
        """Sets whether it is complete, its lease, and where given its identity; kept at once.

        What was written before is on the disk before the mark is.
        """
        with self.working() as engine:
            info = engine.read_info()
            kept = info.identity if identity is None else check_identity(identity)
            engine.write_info(replace(info, complete=complete, identity=kept, lease=lease))

    def upsert(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        """Adds chunks; one whose id is stored replaces it. Of an id given twice the last counts."""
        records, rows = prepared(chunks, vectors, self._dimension)
        if self._words is not None:  # made here, so that no chunk lacks them
            self._words.check(self.name)
            form = self._words
            records = [replace(one, words=form.vector(one.chunk)) for one in records]
        if records:
            with self.working() as engine:
                engine.write(records, rows)

    def delete(self, ids: Sequence[str]) -> None:
        gone = check_ids(ids)
        if gone:
            with self.working() as engine:
                engine.remove(gone)

    def get(self, ids: Sequence[str]) -> dict[str, Chunk]:
        """The chunks of these ids; those that are not there are left out."""
        wanted = check_ids(ids)
        if not wanted:
            return {}
        with self.working() as engine:
            chunks = [engine.read(kept, None) for kept in engine.kept(wanted)]
        found = {chunk.id: chunk for chunk in chunks}
        return {value: found[value] for value in wanted if value in found}

    def vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors of these ids, at unit length."""
        wanted = check_ids(ids)
        if not wanted:
            return {}
        with self.working() as engine:
            found = engine.rows(wanted)
        return {value: found[value] for value in wanted if value in found}

    def digests(self) -> dict[str, str]:
        """Every id with a digest of its chunk (`ragbench.stores.record.chunk_digest`)."""
        with self.working() as engine:
            return engine.digests()

    def count(self) -> int:
        with self.working() as engine:
            return engine.count()

    @property
    def is_exact(self) -> bool:
        return self._engine.is_exact

    def search(
        self,
        vectors: Vectors,
        *,
        k: int,
        filters: Filter | None = None,
        effort: Effort = NORMAL,
    ) -> list[list[Chunk]]:
        """The chunks most similar to each query, by cosine, best first."""
        queries = unit_rows(vectors, self._dimension, what="query vector")

        def ask(which: Sequence[int], limit: int, condition: Any) -> list[list[Row]]:
            rows = queries if len(which) == len(queries) else queries[list(which)]
            return self._engine.nearest(rows, limit, condition, effort)

        every = range(len(queries))
        return self._found(ask, every, len(queries), k=k, filters=filters, most=None)

    def _condition(self, filters: Filter | None) -> Any:
        return self._engine.condition(filters, None)

    def _ranked(self, rows: Sequence[Row], k: int) -> list[Chunk]:
        scores = [similarity(row.score) for row in rows]
        # Of `k` and one more only what no tie needs is left unread.
        if len(rows) == k + 1 and scores[k] < min(scores[:k]):
            rows = rows[:k]
        read = self._engine.read
        return [read(row.fields, score) for row, score in zip(rows, scores, strict=False)]

    def _chunks(self, ranked: Sequence[Chunk]) -> list[Chunk]:
        return list(ranked)

    @property
    def words(self) -> WordsForm | None:
        """How its store ranks by words; None where ragbench does."""
        return self._words

    def search_words(
        self, queries: Sequence[WordVector], *, k: int, filters: Filter | None = None
    ) -> list[list[Chunk]]:
        """The chunks that share words with each query, by the sum of the products.

        Scores are given within [-1, 1]: queries are to be scaled for that.
        """
        engine = cast("WordWriter", self._engine)

        def ask(which: Sequence[int], limit: int, condition: Any) -> list[list[Row]]:
            return engine.best_sums([queries[at] for at in which], limit, condition)

        most, every = max(_TIED, k + 1), range(len(queries))
        return self._found(ask, every, len(queries), k=k, filters=filters, most=most)

    def word_weights(self, numbers: Sequence[int]) -> list[float | None]:
        """Inverse document frequencies as the store counts them; None where no chunk has a word."""
        if not numbers:
            return []
        with self.working() as engine:
            return cast("WordWriter", engine).weights(numbers)
