"""Chroma, in the process or on a server: collections that are read, and never filled."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragbench.core.filters import And, Equals, Exists, Filter, In, Not, Or, Prefix
from ragbench.errors import ConfigError, StoreError
from ragbench.masking import mask_url
from ragbench.plugins import require
from ragbench.search.stores.base import NORMAL, Effort, MetricName, Row, Rows, Space, checked_native
from ragbench.search.stores.database import ReadableDatabase, server_url
from ragbench.search.stores.mapping import FieldMapping

_METRICS: dict[str, MetricName] = {"cosine": "cosine", "ip": "dot", "l2": "euclid"}
"""How vectors are compared, by Chroma's names."""
_NATIVE = 'a JSON object, such as {"year": {"$gte": 2023}}'
"""What a native filter is, for the error of one that is none."""
_INCLUDED = ("documents", "metadatas")
"""What of a row is asked for."""
_PORT = 8000
"""On which Chroma's server listens unless it is set otherwise."""


def open_chroma(address: str) -> ChromaDatabase:
    """The Chroma database of an address; Chroma is imported and reached at its first use only.

    Wrong settings of a command can so be refused before a server is reached.

    Args:
        address: ``chroma:FOLDER``, or ``chroma+http://HOST:8000`` (or ``https``).
    """
    options: dict[str, Any]
    folder = address.removeprefix("chroma:")
    # Without the prefix the address is unchanged, and may be that of a server.
    if folder and folder != address:
        if not Path(folder).is_dir():
            raise StoreError(f"{address}: there is no such folder")
        kind = "PersistentClient"
        options = {"path": folder}
    else:
        forms = "chroma:FOLDER or chroma+http://HOST:8000"
        bare, user, password = server_url(address, "Chroma", forms)
        url = urlsplit(bare)
        kind = "HttpClient"
        is_encrypted = url.scheme == "https"
        options = {"host": url.hostname, "port": url.port or _PORT, "ssl": is_encrypted}
        if user or password:
            # Chroma's client has no login of its own: this one is that of a proxy before it.
            login = b64encode(f"{user}:{password}".encode()).decode()
            options["headers"] = {"Authorization": f"Basic {login}"}

    return ChromaDatabase(mask_url(address), lambda: _chroma_client(kind, options))


def _chroma_client(kind: str, options: Mapping[str, Any]) -> Any:
    """Chroma's client, made when the database is first used.

    The import is slow, the extra optional.

    Args:
        kind: name of the client's class in the package.
        options: of that class: a folder, or a server's address.
    """
    config = require("chromadb.config", extra="chroma")
    # Chroma reports its use to its makers unless this is set.
    settings = config.Settings(anonymized_telemetry=False)
    make_client = getattr(require("chromadb", extra="chroma"), kind)
    return make_client(settings=settings, **options)


class ChromaDatabase(ReadableDatabase):
    """A folder that Chroma has written, or its server."""

    def load(self) -> tuple[type[Exception], ...]:
        """The exceptions that Chroma's client raises.

        Chroma's own exceptions, and those of Python that the client lets through. `connected` turns
        them into errors of one line.
        """
        errors = require("chromadb.errors", extra="chroma")
        return (errors.ChromaError, ValueError, TypeError, OSError, RuntimeError)

    def listed(self, connection: Any) -> list[str]:
        """The names of all collections of the Chroma database, for choices and errors.

        A user who names no collection, or a wrong one, sees them.
        """
        return [collection.name for collection in connection.list_collections()]

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> Chroma | None:
        """A collection of Chroma's for reading, with its metric and dimension.

        None where there is none. Chroma has a single vector a row, without a name. The collection's
        embedding function is left out: ragbench embeds the queries itself, and Chroma would load a
        model for it.
        """
        not_found = require("chromadb.errors", extra="chroma").NotFoundError
        try:
            collection = connection.get_collection(name, embedding_function=None)
        except not_found:
            return None
        mapping.chosen_vector(name, [""])  # refuses a mapping that names a vector
        # The index is "hnsw", or "spann" on Chroma's own servers; both compare by l2 unless told.
        configuration: Mapping[str, Any] = collection.configuration_json or {}
        index: Mapping[str, Any] = configuration.get("hnsw") or configuration.get("spann") or {}
        space_name = str(index.get("space") or "l2")
        metric = mapping.checked_metric(name, _METRICS[space_name])
        # Only a row tells the length of the vectors.
        row = collection.get(limit=1, include=["embeddings"])
        vectors = row["embeddings"]
        dimension = None
        # Not `if vectors`: NumPy refuses to say whether an array is true.
        if len(vectors):
            dimension = len(vectors[0])
        space = Space(vector="", dimension=dimension, metric=metric)
        return Chroma(collection, space)


class Chroma:
    """A collection that is read (`stores.base.Reader`). A row has ``document`` and ``metadata``."""

    row_limit = None
    key = None
    words = None
    is_exact = False

    def __init__(self, collection: Any, space: Space) -> None:
        """An open collection of Chroma's.

        `ChromaDatabase.read` has looked up both.

        Args:
            collection: the client's object.
            space: the length of its vectors, and the metric.
        """
        self.space = space
        self._collection = collection

    def count(self) -> int:
        """How many rows the collection has, as Chroma counts them.

        Reports show it, and stored results of a search depend on it.
        """
        return int(self._collection.count())

    def sample(self, limit: int) -> list[Row]:
        """The first rows as Chroma lists them, at most `limit`: fields are guessed from them.

        The scores of these rows mean nothing. So a user need not name the fields of another
        program's rows.
        """
        answer = self._collection.get(limit=limit, include=list(_INCLUDED))
        return _rows_of_columns(
            answer["ids"], answer["documents"], answer["metadatas"], repeat(0.0)
        )

    def condition(self, filters: Filter | None, native: object) -> Any:
        """The filters, and a native one in Chroma's own syntax, as one ``where``.

        None without any. A search translates its filters once, and passes the result to `nearest`.
        """
        parts: list[dict[str, Any]] = []
        if filters is not None:
            parts.append(_where(filters))
        if native is not None:
            parts.append(checked_native(native, dict, "Chroma", _NATIVE))
        # None, as Chroma refuses an empty object.
        if not parts:
            return None
        return _joined_tests(parts, "$and")

    def nearest(self, rows: Rows, limit: int, condition: Any, effort: Effort) -> list[list[Row]]:
        """The rows nearest to each query vector, in one request; Chroma's distances become scores.

        A score is higher for a nearer row, as in every store: results are ordered and cut by it.

        Raises:
            ConfigError: an effort other than the normal one: Chroma lets none be set.
        """
        if effort != NORMAL:
            raise ConfigError(
                "a collection of Chroma is searched by its index alone: neither ef nor an exact "
                "search can be asked for"
            )
        answer = self._collection.query(
            query_embeddings=rows,
            n_results=limit,
            where=condition,
            include=[*_INCLUDED, "distances"],
        )
        # Of cosine and inner product Chroma gives one minus the value; "l2" is squared.
        best = 0.0 if self.space.metric == "euclid" else 1.0
        results: list[list[Row]] = []
        for number, distances in enumerate(answer["distances"]):
            scores = [best - float(distance) for distance in distances]
            ids = answer["ids"][number]
            documents = answer["documents"][number]
            metadatas = answer["metadatas"][number]
            results.append(_rows_of_columns(ids, documents, metadatas, scores))
        return results

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> list[list[Row]]:
        """Never called, as `words` is None: Chroma ranks by no words.

        Every collection that is read has this method (`stores.base.Reader`).
        """
        raise NotImplementedError


def _where(filters: Filter, *, denied: bool = False) -> dict[str, Any]:
    """A folded filter as a ``where`` of Chroma's, which cannot deny several tests at once.

    So a denial is carried down to the single tests, each of which has an opposite of its own.

    Args:
        filters: folded (`ragbench.core.filters.folded`).
        denied: whether the filter is to be false.

    Raises:
        ConfigError: Chroma has no test of this kind.
    """
    if isinstance(filters, Not):
        return _where(filters.filter, denied=not denied)
    if isinstance(filters, And | Or):
        # Not all of them: one is denied at least. Not any of them: all are denied.
        is_and = isinstance(filters, And)
        word = "$and" if is_and is not denied else "$or"
        parts = [_where(part, denied=denied) for part in filters.filters]
        return _joined_tests(parts, word)
    # Chroma filters by metadata alone, and names its keys without the object around them.
    key = filters.field.removeprefix("metadata.")
    if isinstance(filters, Equals | In):
        values = filters.values if isinstance(filters, In) else (filters.value,)
        # One of the values, or none of them: different from the first and from the second.
        comparison, word = ("$ne", "$and") if denied else ("$eq", "$or")
        tests = [{key: {comparison: value}} for value in values]
        return _joined_tests(tests, word)
    if isinstance(filters, Exists):
        problem = "cannot say whether a field exists"
    elif isinstance(filters, Prefix):
        problem = "knows no prefixes: name the values, {in: [...]}"
    elif denied:
        problem = "denies no range; leave it out"
    elif filters.of_dates:
        problem = "compares no dates; leave it out"
    else:
        # Each bound is a test of its own, such as {"year": {"$gte": 2023}}.
        bounds: list[dict[str, Any]] = []
        for word, limit in filters.limits().items():
            bounds.append({key: {f"${word}": limit}})
        return _joined_tests(bounds, "$and")
    raise ConfigError(f"filter on '{key}': Chroma {problem}")


def _joined_tests(parts: Sequence[dict[str, Any]], word: str) -> dict[str, Any]:
    """Chroma's tests as one, under ``$and`` or ``$or``; a single test alone, as Chroma demands.

    Every condition of a search in Chroma is put together here.
    """
    if len(parts) == 1:
        return parts[0]
    return {word: list(parts)}


def _rows_of_columns(
    ids: Any, documents: Any, metadatas: Any, scores: Iterable[float]
) -> list[Row]:
    """Rows of the columns in which Chroma answers; a row without metadata gets empty ones.

    The keys ``document`` and ``metadata`` are the fields that a user's mapping and filters name.

    Args:
        scores: one a row, or more: the rest is ignored.
    """
    rows: list[Row] = []
    # Not strict: the scores of a sample repeat without end.
    for id_, document, metadata, score in zip(ids, documents, metadatas, scores, strict=False):
        fields = {"document": document, "metadata": dict(metadata or {})}
        rows.append(Row(id_, fields, score))
    return rows
