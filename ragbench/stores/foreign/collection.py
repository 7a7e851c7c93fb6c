"""A collection that ragbench did not fill, opened for reading."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from ragbench.errors import ConfigError, StoreError
from ragbench.records.corpus import Chunk
from ragbench.records.filters import Filter
from ragbench.stores.base import Vectors
from ragbench.stores.checks import check_k, finite_rows
from ragbench.stores.engine import engine_failures
from ragbench.stores.engine_database import EngineDatabase
from ragbench.stores.foreign.engine import ForeignEngine, ForeignRow, Space
from ragbench.stores.foreign.guess import complete_mapping
from ragbench.stores.foreign.mapping import FieldMapping
from ragbench.stores.foreign.rows import RowReader, counted
from ragbench.stores.ranking import top_k

__all__ = ["ForeignCollection"]

_SAMPLE = 64
"""Rows that a mapping is guessed from."""


class ForeignCollection:
    """Searches, and never writes.

    A score is what the engine says, turned so that higher is better: cosine and inner product as
    they are, a distance as its negative. Nothing is known of how such scores compare between
    collections or with those of ragbench's own. What holds for every
    `ragbench.stores.base.VectorStore` holds for the order: by score, then by the engine's id.
    """

    def __init__(
        self,
        name: str,
        mapping: FieldMapping,
        *,
        engine: ForeignEngine,
        database: EngineDatabase[Any],
    ) -> None:
        """Looks at some rows; `ragbench.stores.foreign.registry.open_foreign` connects.

        Args:
            name: the collection's.
            mapping: what the user says of its fields.
            engine: the collection.
            database: where it is; closed with the collection.

        Raises:
            ConfigError: the mapping does not fit, or the text is not found.
            StoreError: there is no row.
        """
        self.name = name
        self.address = database.address
        self._database: EngineDatabase[Any] | None = database
        self._failures = (*database.failures, RecursionError)
        self._engine = engine
        with self._working():
            rows = engine.sample(_SAMPLE)
            if not rows:
                raise StoreError(f"{self.address}: the collection '{name}' is empty")
            known = mapping if mapping.id else replace(mapping, id=engine.key)
            completed = complete_mapping(name, known, rows)
        self.mapping = completed.mapping
        self.guessed = completed.guessed
        self._absent = completed.absent
        self._reader = RowReader(self.mapping)
        self._without_score: dict[str, None] = {}

    @property
    def space(self) -> Space:
        """Which vectors are searched, and how they are compared."""
        return self._engine.space

    @property
    def dimension(self) -> int:
        """Length of its vectors.

        Raises:
            StoreError: no row has one.
        """
        if self.space.dimension is None:
            raise StoreError(f"{self.address}: no row of the collection '{self.name}' has a vector")
        return self.space.dimension

    def count(self) -> int:
        """How many rows there are now."""
        with self._working() as engine:
            return engine.count()

    def search(
        self, vectors: Vectors, *, k: int, filters: Filter | None = None
    ) -> list[list[Chunk]]:
        """The rows nearest to each query; a query of zeros finds nothing.

        Args:
            vectors: one row a query, as the embedder gives it.
            k: how many chunks to return for each, at least 1; fewer where there are no more.
            filters: must be None.

        Returns:
            For each query its chunks with their ``score``, best first.

        Raises:
            StoreError: a vector has another length than the collection's or is not finite, or
                the store fails.
            ConfigError: `k` is below 1, or there are filters.
        """
        check_k(k)
        if filters is not None:
            raise ConfigError(
                "filters are executed only in collections that ragbench has filled, where it keeps "
                f"what they need: search '{self.name}' without, or index the documents"
            )
        queries = finite_rows(vectors, self.dimension, what="query vector")
        asked = [at for at, row in enumerate(queries) if row.any()]
        found: list[list[Chunk]] = [[] for _ in queries]
        if not asked:
            return found
        with self._working() as engine:

            def fetch(which: Sequence[int], limit: int) -> list[list[ForeignRow]]:
                rows = queries[[asked[at] for at in which]]
                return [self._scored(hits) for hits in engine.nearest(rows, limit)]

            ranked = top_k(fetch, len(asked), k, most=engine.most)
        for at, rows in zip(asked, ranked, strict=True):
            found[at] = self._reader.chunks(rows)
        return found

    def described(self) -> str:
        """How it is read, in one line."""
        metric = self.space.metric if self.space.metric_told else f"{self.space.metric}, assumed"
        vector = f"  vector={self.space.vector}" if self.space.vector else ""
        fields = replace(self.mapping, vector=None, metric=None).described()
        return f"{fields}{vector}  ({metric}, {self.dimension} dimensions)"

    def guesses(self) -> list[str]:
        """What nobody told, and what seems not to be there, a line each."""
        found = [
            f"(--map {named}: no row that was looked at has such a field)" for named in self._absent
        ]
        if self.guessed:
            names = ", ".join(self.guessed)
            found.append(f"(guessed: {names}; correct it with --map {self.guessed[0]}=FIELD)")
        if not self.space.metric_told:
            found.append(
                f"(no index says how vectors are compared: {self.space.metric} is assumed; correct "
                "it with --map metric=dot, euclid or manhattan)"
            )
        return found

    def warnings(self) -> list[str]:
        """What was wrong with how many of the rows that were found so far, a line each."""
        found = self._reader.warnings()
        if self._without_score:
            found.append(counted(self._without_score, "a score that is no number: left out"))
        return found

    def close(self) -> None:
        """Ends the connection. Calling it again does nothing."""
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def __enter__(self) -> Self:
        """The collection itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes it."""
        self.close()

    def _scored(self, rows: list[ForeignRow]) -> list[ForeignRow]:
        """The rows whose score is one, to the seven digits that single precision carries."""
        found: list[ForeignRow] = []
        for row in rows:
            if math.isfinite(row.score):
                found.append(row._replace(score=float(f"{row.score:.7g}") + 0.0))
            else:
                self._without_score[row.id] = None
        return found

    @contextmanager
    def _working(self) -> Generator[ForeignEngine]:
        """The engine, while what it raises becomes a `StoreError`."""
        if self._database is None:
            raise StoreError(f"{self.address}: the collection '{self.name}' is closed")
        with engine_failures(self.address, self._failures):
            yield self._engine
