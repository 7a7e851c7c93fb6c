"""Milvus, in the process (Milvus Lite) or on a server: collections that are read, never filled."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ragbench.core.filters import Dialect, Filter, Range, Scalar
from ragbench.errors import ConfigError, StoreError
from ragbench.masking import mask_url
from ragbench.plugins import require, silenced
from ragbench.search.stores.base import (
    NORMAL,
    Effort,
    MetricName,
    Row,
    Rows,
    Space,
    Words,
    checked_native,
)
from ragbench.search.stores.database import ReadableDatabase, server_url
from ragbench.search.stores.mapping import FieldMapping

_METRICS: dict[str, MetricName] = {"COSINE": "cosine", "IP": "dot", "L2": "euclid"}
"""How vectors are compared, by Milvus' names."""
_NATIVE = "an expression, such as 'year >= 2023'"
"""What a native filter is, for the error of one that is none."""
_TIMEOUT = 60.0
"""Seconds that a request may take."""
_MAX_ROWS = 16384
"""The most hits that Milvus gives for one query."""


# Both packages log each failure with its whole traceback; it is raised all the same.
quiet = partial(silenced, "pymilvus", "milvus_lite")


def open_milvus(address: str) -> MilvusDatabase:
    """The Milvus database of an address; a server or file is opened at its first use only.

    Wrong addresses are so refused before a server is reached.

    Args:
        address: ``milvus:PATH.db``, or ``milvus+http://HOST:19530`` (or ``https``), with user
            and password where the server needs them.

    Raises:
        ConfigError: the address is none of Milvus.
        StoreError: there is no such file.
    """
    path = address.removeprefix("milvus:")
    if address.startswith("milvus:") and path:
        # pymilvus would take any other path for the address of a server.
        if not path.endswith(".db"):
            raise ConfigError(f"'{address}': the path of Milvus Lite ends with .db")
        if not Path(path).exists():
            raise StoreError(f"{address}: there is no such file")
        return MilvusDatabase(address, lambda: _lite_client(path, address))
    forms = "milvus:PATH.db or milvus+http://HOST:19530"
    uri, user, password = server_url(address, "Milvus", forms)
    return MilvusDatabase(mask_url(address), lambda: _server_client(uri, user, password))


def _server_client(uri: str, user: str, password: str) -> Any:
    """Milvus' client of a server, made when the database is first used.

    The import is slow, and the package is optional.
    """
    pymilvus = require("pymilvus", extra="milvus")
    return pymilvus.MilvusClient(uri, user=user, password=password, timeout=_TIMEOUT)


class MilvusDatabase(ReadableDatabase):
    """A server, or a database of Milvus Lite in this process; its logs are silenced."""

    def load(self) -> tuple[type[Exception], ...]:
        """The exceptions of Milvus' client, and the plain ones that it and Milvus Lite raise.

        `connected` turns these into errors of one line.
        """
        exceptions = require("pymilvus.exceptions", extra="milvus")
        return (exceptions.MilvusException, OSError, RuntimeError, ValueError)

    @quiet()
    def connect(self) -> Any:
        """The client of Milvus, without the log lines of its attempts.

        The error itself is raised all the same, and the log would repeat it at length.
        """
        return super().connect()

    @quiet()
    def listed(self, connection: Any) -> list[str]:
        """The names of all collections of the Milvus database, for choices and errors.

        A user who names no collection, or a wrong one, sees them.
        """
        return list(connection.list_collections())

    @quiet()
    def read(self, connection: Any, name: str, mapping: FieldMapping) -> Milvus | None:
        """A collection of Milvus for reading, loaded, with its vector and its words.

        None where there is none. Rows that another process wrote are found only once it is loaded.

        Raises:
            ConfigError: the user has to choose a vector, or no index says how it is compared.
        """
        if not connection.has_collection(name):
            return None
        # What another process has filled is on the disk only, until it is loaded.
        connection.load_collection(name)
        description = connection.describe_collection(name)
        types: dict[str, str] = {}
        dimensions: dict[str, int] = {}
        key = ""
        for field in description["fields"]:
            field_name = field["name"]
            types[field_name] = field["type"].name
            if types[field_name] == "FLOAT_VECTOR":
                dimensions[field_name] = int(field["params"]["dim"])
            if field.get("is_primary"):
                key = field_name

        vector = mapping.chosen_vector(name, list(dimensions))
        metric = mapping.checked_metric(name, _metric_of_index(connection, name, vector))

        # A search by words asks for what a BM25 function has made of a text, not for the text.
        bm25_fields: list[str] = []
        for function in description.get("functions") or ():
            if function["type"].name == "BM25":
                bm25_fields += function["output_field_names"]
        words_field = mapping.chosen_words(name, bm25_fields)
        words = None
        if words_field is not None:
            words = Words(field=words_field, ranking="BM25 of Milvus")

        space = Space(vector=vector, dimension=dimensions[vector], metric=metric)
        return Milvus(client=connection, name=name, space=space, key=key, words=words, types=types)


@dataclass(frozen=True, kw_only=True, slots=True)
class Milvus:
    """A collection that is read; see `ragbench.search.stores.base.Reader`.

    A row's fields are its entity's.
    """

    row_limit = _MAX_ROWS
    client: Any
    name: str
    space: Space
    words: Words | None
    key: str
    """The primary field, which is a row's id."""
    types: Mapping[str, str]
    """The fields of the schema with their types."""

    @quiet()
    def count(self) -> int:
        """How many entities (rows) the collection has; Milvus counts them by a query.

        Reports show the number, and stored results of a search depend on it.
        """
        answer = self.client.query(self.name, filter="", output_fields=["count(*)"])
        return int(answer[0]["count(*)"])

    @quiet()
    def sample(self, limit: int) -> list[Row]:
        """Any entities of the collection, at most `limit`.

        The meaning of fields is guessed from them. The scores of these rows mean nothing.
        """
        rows = self.client.query(self.name, filter="", limit=limit, output_fields=["*"])
        return [self._row_of_entity(row, 0.0) for row in rows]

    def condition(self, filters: Filter | None, native: object) -> str:
        """The filters, and a native expression, as one expression of Milvus; empty without any.

        A search translates its filters once, and passes the result to `nearest` or `matching`.
        """
        parts: list[str] = []
        if filters is not None:
            parts.append(_expression(filters, self.types))
        if native is not None:
            expression = checked_native(native, str, "Milvus", _NATIVE)
            parts.append(f"({expression})")
        return " and ".join(parts)

    @property
    @quiet()
    def is_exact(self) -> bool:
        """Whether a search of the collection compares every vector.

        That is so where its vectors have an index of the type FLAT, or no index. Reports measure by
        exact searches how many chunks an approximate index misses.
        """
        for index_name in self.client.list_indexes(self.name):
            index = self.client.describe_index(self.name, index_name)
            is_of_vector = index["field_name"] == self.space.vector
            # Milvus chooses what an AUTOINDEX is: it may be approximate, so it counts as that.
            if is_of_vector and index.get("index_type") != "FLAT":
                return False
        return True

    def nearest(self, rows: Rows, limit: int, condition: str, effort: Effort) -> list[list[Row]]:
        """The entities nearest to each query vector, in one request; distances become scores.

        A score is higher for a nearer row, as in every store.

        Raises:
            ConfigError: an exact search is wanted, and the collection has an approximate index.
        """
        if effort.exact and not self.is_exact:
            raise ConfigError("Milvus searches by its index alone: it has no exact search")
        results = self._found_rows(list(rows), self.space.vector, limit, condition, effort)
        if self.space.metric != "euclid":  # what pymilvus calls the distance is a similarity
            return results
        negated: list[list[Row]] = []
        for hits in results:
            negated.append([row._replace(score=-row.score) for row in hits])
        return negated

    def matching(self, texts: Sequence[str], limit: int, condition: str) -> list[list[Row]]:
        """The entities that share words with each question, by Milvus' own BM25.

        Entities with score 0 share none and are left out.
        """
        assert self.words is not None
        results: list[list[Row]] = []
        for hits in self._found_rows(list(texts), self.words.field, limit, condition, NORMAL):
            # Milvus Lite gives BM25 as a distance, below 0; a server as it is.
            results.append([row._replace(score=abs(row.score)) for row in hits if row.score])
        return results

    @quiet()
    def _found_rows(
        self, queries: list[Any], field: str, limit: int, condition: str, effort: Effort
    ) -> list[list[Row]]:
        """The entities that each query finds, best first.

        Their scores are what Milvus calls distances.

        Args:
            queries: vectors, or texts for a field that a BM25 function fills.
            field: the field that is searched.
            limit: the most entities of one query.
            condition: an expression of Milvus; empty for none.
        """
        # Left empty, the index is searched with its own settings.
        search_params: dict[str, Any] = {}
        if effort.ef is not None:
            search_params["params"] = {"ef": effort.ef}
        answers = self.client.search(
            self.name,
            queries,
            filter=condition,
            anns_field=field,
            limit=limit,
            output_fields=["*"],
            search_params=search_params,
        )
        results: list[list[Row]] = []
        for hits in answers:
            results.append([self._row_of_entity(hit["entity"], hit["distance"]) for hit in hits])
        return results

    def _row_of_entity(self, entity: Mapping[str, Any], score: float) -> Row:
        """An entity of Milvus as a row, without its vectors, which chunks do not show.

        The primary field becomes the row's id.
        """
        fields: dict[str, Any] = {}
        for name, value in entity.items():
            if not self.types.get(name, "").endswith("VECTOR"):
                fields[name] = value
        return Row(str(fields[self.key]), fields, float(score))


_quoted = partial(json.dumps, ensure_ascii=False)
"""A value as Milvus' expressions write it, which is as in JSON."""
_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
"""Signs of comparison, by the words of a filter's range."""


def _expression(filters: Filter, fields: Mapping[str, str]) -> str:
    """A folded filter as an expression of Milvus.

    The `Dialect` walks the filter's parts, and gets a text for each kind of test.

    Args:
        fields: those of the collection's schema with their types; all others are dynamic.
    """
    dialect = Dialect(
        both=lambda parts: f"({' and '.join(parts)})",
        either=lambda parts: f"({' or '.join(parts)})",
        denied=lambda part: f"(not {part})",
        equal=lambda field, values: _equality_test(_written_field(field, fields), values),
        within=lambda range_: _range_test(_written_field(range_.field, fields), range_),
        exists=lambda field: _existence_test(field, fields),
        prefix=lambda field, prefix: _prefix_test(_written_field(field, fields), field, prefix),
    )
    return dialect(filters)


def _written_field(path: str, fields: Mapping[str, str]) -> str:
    """A field's name in an expression of Milvus: dots lead into objects, as in ``meta["year"]``.

    A field of the schema keeps its name, even with a dot in it.
    """
    if path in fields or "." not in path:
        return path
    name, *keys = path.split(".")
    for key in keys:
        name += f"[{json.dumps(key)}]"
    return name


def _existence_test(field: str, fields: Mapping[str, str]) -> str:
    """A test of Milvus that a field has a value.

    A field of the schema is always there and may be null; a dynamic one may be missing.
    """
    name = _written_field(field, fields)
    if name in fields:
        return f"({name} is not null)"
    return f"(exists {name})"


def _equality_test(name: str, values: Sequence[Scalar]) -> str:
    """A test of Milvus that the field with this written name equals one of the values.

    Values are written as JSON, which Milvus reads.
    """
    tests = [f"{name} == {_quoted(value)}" for value in values]
    return f"({' or '.join(tests)})"


def _range_test(name: str, range_: Range) -> str:
    """A test of Milvus that a field's number is in a range.

    Both bounds are in one test, in parentheses, as others are joined to it.

    Raises:
        ConfigError: the range is one of dates, which Milvus does not compare.
    """
    if range_.of_dates:
        raise ConfigError(
            f"filter on '{range_.field}': Milvus compares no dates; give its own expression as "
            "the native filter"
        )
    tests: list[str] = []
    # `repr` keeps all digits of a float.
    for word, limit in range_.limits().items():
        tests.append(f"{name} {_SIGNS[word]} {limit!r}")
    return f"({' and '.join(tests)})"


def _prefix_test(name: str, field: str, prefix: str) -> str:
    """A test of Milvus that a text begins with a prefix, by LIKE.

    A prefix with one of LIKE's signs is refused: it would match other texts without an error.

    Args:
        name: the field as expressions write it.
        field: the field as the filter names it, for the error.

    Raises:
        ConfigError: the prefix holds a character that LIKE takes for a sign.
    """
    if re.search(r"[%_\\]", prefix):
        raise ConfigError(
            f"filter on '{field}': Milvus takes %, _ and \\ in a prefix for signs; give its own "
            "expression as the native filter"
        )
    return f"({name} like {_quoted(prefix + '%')})"


def _metric_of_index(client: Any, name: str, vector: str) -> MetricName:
    """The metric of a collection's vectors, which in Milvus only the index over them knows.

    An index by another metric is an error: its scores could not be read.
    """
    for index_name in client.list_indexes(name):
        index = client.describe_index(name, index_name)
        metric = index["metric_type"]
        # Fields of words have indexes, too, by metrics of their own.
        if index["field_name"] == vector and metric in _METRICS:
            return _METRICS[metric]
    raise ConfigError(
        f"the collection '{name}' has no index of '{vector}' by {', '.join(_METRICS)}: it cannot "
        "be searched"
    )


def _lite_client(path: str, address: str) -> Any:
    """Milvus' client of a Milvus Lite database in this process, made at its first use.

    The client's own error does not say the cause: the error that is raised here names the likely
    causes.

    Args:
        path: of the database.
        address: for errors.

    Raises:
        StoreError: it is of an earlier version, or cannot be opened.
    """
    require("milvus_lite", extra="milvus")  # pymilvus imports it: a missing one is named here
    if Path(path).is_file():
        raise StoreError(f"{address}: is a file; Milvus Lite 3 keeps a folder: name another path")
    exceptions = require("pymilvus.exceptions", extra="milvus")
    try:
        return require("pymilvus", extra="milvus").MilvusClient(path)
    except exceptions.ConnectionConfigException as error:  # it does not say why
        raise StoreError(
            f"{address}: Milvus Lite cannot open it: is it in use by another process, may it be "
            "written, and did Milvus Lite 3 make it?"
        ) from error
