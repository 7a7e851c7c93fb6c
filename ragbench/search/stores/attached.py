"""A collection that another program filled, by its address: a read-only mapping of its fields."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter, renamed
from ragbench.errors import ConfigError, StoreError
from ragbench.io.dumps.form import getter
from ragbench.safe_text import listed, shortened_line
from ragbench.search.stores.base import MetricName, Rankings, Reader, Row, Rows, Vectors
from ragbench.search.stores.collection import OpenCollection, finite_rows
from ragbench.search.stores.database import FOREIGN_STORES, ReadableDatabase, check_foreign_address
from ragbench.search.stores.mapping import (
    METADATA_NAMES,
    AttachedRows,
    FieldMapping,
    complete_mapping,
)

_NO_RARITY = (
    "(PostgreSQL's ts_rank knows no rarity of words: by words Cranfield gives nDCG@10 .245 there, "
    "BM25 .373 on the same texts; 'ragbench why' estimates what BM25 would bring here)"
)
_SAMPLE = 64
"""Rows that a mapping is guessed from."""


class ForeignCollection(OpenCollection[Reader]):
    """A collection that another program filled: it is searched, never written.

    A score is that of the engine, turned so that higher is better: cosine and inner product as
    they are, a distance as its negative. Nothing is known of how such scores compare between
    collections or with those of ragbench's own. The order is by score, then by the engine's id.
    """

    def __init__(
        self,
        name: str,
        mapping: FieldMapping,
        *,
        engine: Reader,
        database: ReadableDatabase,
        native: object = None,
    ) -> None:
        """Opens another program's collection and guesses from some rows what their fields mean.

        Users call `attach`, which connects.

        Args:
            name: of the collection.
            mapping: which fields the user has named.
            engine: reads the collection in its vendor's language.
            database: its connection, which closes with the collection.
            native: a filter in the engine's own syntax that every search keeps to.

        Raises:
            StoreError: the collection is empty.
            ConfigError: the mapping or the native filter does not fit.
        """
        super().__init__(engine, name, database, database.close)
        with self.working():
            rows = engine.sample(_SAMPLE)
            if not rows:
                raise StoreError(f"{self.address}: the collection '{name}' is empty")
            # Before fields are guessed, so that the id is not taken for a document's id, too.
            if not mapping.id:
                mapping = replace(mapping, id=engine.key)
            self.mapping, self.guessed, self._absent = complete_mapping(name, mapping, rows)
        self.space = engine.space
        """The field of the vectors that are searched, and the metric that compares them."""
        self.words = engine.words
        """The field that the store searches by words; None where it has none."""
        self._reader = AttachedRows(self.mapping)
        """Makes chunks of rows, and counts what is wrong with them for `warnings`."""
        self._sample = rows
        """The rows that fields were guessed from; paths of filters are looked for in them, too."""
        self.native_filter = native
        self._unknown: dict[str, None] = {}
        """Fields of filters that no sampled row has."""
        engine.condition(None, native)  # refuses a native filter that the engine cannot read

    @property
    def dimension(self) -> int:
        """The length of the collection's vectors, as the engine or one of its rows shows it.

        A query vector of another length is refused: it comes from an embedder that did not fill it.
        """
        if self.space.dimension is None:
            raise StoreError(f"{self.address}: no row of the collection '{self.name}' has a vector")
        return self.space.dimension

    @property
    def metric(self) -> MetricName:
        """How the store compares vectors.

        Where neither the store nor the user says so, ragbench assumes a metric. Reports print it
        with the scores, which mean nothing without it.
        """
        return self.space.metric

    def unfiltered(self, *, is_reported: bool = True) -> ForeignCollection:
        """The same collection without its native filter (one in the engine's own syntax).

        Searches with and without it can so be compared. The view closes with this collection.

        Args:
            is_reported: whether what is wrong with the rows that it finds is among `warnings` of
                this one.
        """
        # A shallow copy: engine, reader and sample are shared unless they are replaced below.
        view = copy(self)
        view.native_filter = None
        if not is_reported:
            view._reader = AttachedRows(self.mapping)
            view._unknown = {}
        return view

    def sampled(self) -> list[Chunk]:
        """The rows that were read at opening to learn the fields, as chunks.

        The scores of these chunks mean nothing.
        """
        return self._reader.chunks(self._sample)

    def rows(self, limit: int) -> list[Chunk]:
        """The collection's first rows in the store's order, at most `limit`, as chunks.

        `ragbench why` tries other settings on a collection's texts, which it reads so.
        """
        with self.working() as engine:
            return self._reader.chunks(engine.sample(limit))

    def _queries(self, vectors: Vectors) -> tuple[Rows, Sequence[int]]:
        """Query vectors as float32, and the positions of those that are searched.

        Vectors of zeros have no direction: they find nothing and are left out.
        """
        queries = finite_rows(vectors, self.dimension, what="query vector").astype("float32")
        return queries, [position for position, row in enumerate(queries) if row.any()]

    def search_words(
        self, texts: Sequence[str], *, k: int, filters: Filter | None = None
    ) -> list[list[Chunk]]:
        """The rows that the store itself ranks by words for each text; a blank text finds nothing.

        So the words are cut and weighed as the program that filled the collection meant them to be.

        Raises:
            ConfigError: the collection keeps nothing that the store can rank by words.
        """
        if self.words is None:
            raise ConfigError(
                f"the collection '{self.name}' cannot be searched by words (sparse, hybrid): it "
                "has no full-text column, sparse vector or BM25 function, or several; name one "
                "with --field words=FIELD"
            )
        # Blank texts have no words: they find nothing, in every store alike.
        positions = [position for position, text in enumerate(texts) if text.strip()]
        ask = partial(self._matching_rows, texts)
        max_tied = self._engine.row_limit
        return self._ranked(ask, positions, len(texts), k=k, filters=filters, max_tied=max_tied)

    def _matching_rows(
        self, texts: Sequence[str], batch: Sequence[int], limit: int, condition: Any
    ) -> Rankings:
        """The rows that the store ranks by words for some of a search's texts, up to `limit` each.

        `top_k` wants more rows again for texts whose last scores tie: so it names positions.

        Args:
            texts: all of the search.
            batch: the positions of the texts that are wanted.
            condition: the filters in the engine's language.
        """
        batch_texts = [texts[number] for number in batch]
        return self._engine.matching(batch_texts, limit, condition)

    def _condition(self, filters: Filter | None) -> Any:
        """The filters and the native one as one condition, by the rows' own field names.

        A filter names fields as ragbench does, such as ``document_id``; the rows call them
        otherwise.
        """
        if filters is not None:
            filters = renamed(filters, self._path_of_field)
        return super()._condition(filters)

    def _scored(self, row: Row) -> Row | None:
        """A row with its score at the seven digits that single precision carries.

        Further digits are noise, by which equal scores would not tie. None where the score is not a
        number: the row is skipped, and counted for `warnings`.
        """
        if not math.isfinite(row.score):
            self._reader.note("score", row.id)
            return None
        rounded = float(f"{row.score:.7g}")
        return row._replace(score=rounded + 0.0)  # which makes 0.0 of -0.0

    def _chunks(self, rows: Sequence[Row]) -> list[Chunk]:
        """The rows of a result as chunks, by the mapping of fields.

        What is wrong with a row is counted for `warnings`; no row is refused. Only rows that are in
        the result come here, so only those are counted.
        """
        return self._reader.chunks(rows)

    def _path_of_field(self, name: str) -> str:
        """The path in the rows of a field that a filter names.

        A field of the chunk (``document_id``, ``title``, ``id``) is where the mapping of fields
        leads; any other in the row, or in the objects with metadata. A field that no sampled row
        has keeps its name, and is noted for `warnings`: filters on it find nothing.
        """
        places = self.mapping.places()
        # Filters test metadata, not the passage: ``text`` is a metadata field of that name.
        if name in places and name not in ("metadata", "text"):
            return places[name][0]
        objects: list[str] = []
        for object_name in METADATA_NAMES:
            if any(object_name in row.fields for row in self._sample):
                objects.append(object_name)
        for path in places.get("metadata", ()):
            if path not in objects:
                objects.append(path)
        # First a field of the row itself, then those in its objects.
        paths = [name]
        for object_path in objects:
            paths.append(f"{object_path}.{name}")
        for path in paths:
            read = getter(path)
            if any(read(row.fields) is not None for row in self._sample):
                return path
        self._unknown[name] = None
        return name

    def described(self) -> str:
        """The mapping, metric and words of the collection in one line, for reports.

        Identities of searches hold this line: with another wording, stored results no longer count
        as of the same search.
        """
        fields = replace(
            # Metric, words and language follow behind, as the engine has them.
            self.mapping,
            vector=self.space.vector or None,
            metric=None,
            words=None,
            language=None,
        )
        metric: str = self.space.metric
        if not self.space.metric_known:
            metric = f"{metric}, assumed"
        line = f"{fields.described()}  ({metric}, {self.dimension} dimensions)"
        if self.words is not None:
            line = f"{line}  words={self.words.field} ({self.words.ranking})"
        return line

    @property
    def has_documents(self) -> bool:
        """Whether the collection's rows name the documents that they were cut from.

        Only then can gold, the right passages of a question, be looked up by document.
        """
        return "document_id" in self.mapping.places()

    def notes(self, *, by_words: bool) -> list[str]:
        """How the collection is read, what was guessed and what is missing, a line each.

        A user sees by these lines, before a run, whether ragbench reads another program's rows
        rightly.

        Args:
            by_words: whether it is searched by words, too.
        """
        lines = [f"read as: {self.described()}"]
        for field in self._absent:
            lines.append(f"(--field {field}: no row that was looked at has such a field)")
        if self.guessed:
            names = ", ".join(self.guessed)
            lines.append(f"(guessed: {names}; correct it with --field {self.guessed[0]}=FIELD)")
        if not self.space.metric_known:
            lines.append(
                f"(no index says how vectors are compared: {self.space.metric} is assumed; correct "
                "it with --field metric=dot, euclid or manhattan)"
            )
        # PostgreSQL's `ts_rank` weighs rare and common words alike: a reader of the figures has to
        # know that.
        if by_words and self.words and self.words.ranking.startswith("ts_rank"):
            lines.append(_NO_RARITY)
        return lines

    def warnings(self) -> list[str]:
        """Problems of the rows and filters so far, each with its count, a line each.

        Bad rows end no search, so a report prints these lines; else nothing would show them.
        """
        lines = self._reader.warnings()
        for name in self._unknown:
            field = shortened_line(name)
            lines.append(f"filter: no row that was looked at has a field '{field}'")
        return lines


def attach(
    address: str,
    collection: str | None = None,
    mapping: FieldMapping | Mapping[str, str] | None = None,
    *,
    native_filter: object = None,
) -> ForeignCollection:
    """Opens a collection that another program has filled. Nothing is ever written there.

    Example:
        >>> mapping = {"text": "body", "vector": "dense"}
        >>> with attach("qdrant+http://localhost:6333", "docs", mapping) as docs:
        ...     found = docs.search(vectors, k=5)  # doctest: +SKIP

    Args:
        address: such as ``"qdrant+http://localhost:6333"``; see `ragbench.search.stores.database`.
        collection: its name; in PostgreSQL the table's. None takes the only one that there is.
        mapping: which field means what, by the names of `FieldMapping`; what it does not name is
            guessed.
        native_filter: what every search keeps to, in the engine's own syntax: for Qdrant and
            Chroma the filter's JSON object, for PostgreSQL an SQL condition, for Milvus an
            expression, for Elasticsearch and OpenSearch an object of their query language.

    Raises:
        ConfigError: no engine has such addresses, the mapping or the filter does not fit, or
            ragbench has filled the collection.
        MissingExtraError: the engine's package is not installed.
        StoreError: the store cannot be reached, or there is no such collection, or it is empty.
    """
    if isinstance(mapping, Mapping):
        mapping = FieldMapping.of(mapping, where="the mapping")
    scheme = check_foreign_address(address)
    open_database = FOREIGN_STORES.load(scheme)
    database: ReadableDatabase = open_database(address)
    return read_foreign(database, collection, mapping, native_filter=native_filter)


def read_foreign(
    database: ReadableDatabase,
    collection: str | None = None,
    mapping: FieldMapping | None = None,
    *,
    native_filter: object = None,
) -> ForeignCollection:
    """Opens another program's collection in a database at hand, as `attach` does by address.

    The database is closed with the collection, or here where the collection cannot be opened.
    """
    if mapping is None:
        mapping = FieldMapping()
    try:
        with database.connected() as connection:
            name = collection or _only_collection(database, connection)
            engine = database.read(connection, name, mapping)
            # Before the test for None: an own collection may lie under another name, which `read`
            # misses.
            if database.is_own(connection, name):
                raise ConfigError(
                    f"{database.address}: ragbench itself has filled the collection '{name}': it "
                    "is searched without a mapping (--field)"
                )
            if engine is None:
                names = sorted(database.listed(connection))
                present = "it holds none"
                if names:
                    present = f"there are: {listed(names)}"
                raise StoreError(f"{database.address}: there is no collection '{name}'; {present}")
        return ForeignCollection(
            name, mapping, engine=engine, database=database, native=native_filter
        )
    # After an interruption, too: an embedded store would stay locked.
    except BaseException:
        database.close()
        raise


def _only_collection(database: ReadableDatabase, connection: Any) -> str:
    """The single collection of a database, where the user names none.

    Raises:
        ConfigError: there is none, or several: the wrong one would be searched without an error.
    """
    names = sorted(database.listed(connection))
    if len(names) == 1:
        return names[0]
    content = f"has {listed(names)}" if names else "holds none"
    raise ConfigError(f"choose one with --collection: {database.address} {content}")
