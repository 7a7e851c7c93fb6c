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
    """The database of an address.

    Args:
        address: ``milvus:PATH.db``, or ``milvus+http://HOST:19530`` (or ``https``), with user
            and password where the server asks for them.
    """
    path = address.removeprefix("milvus:")
    if address.startswith("milvus:") and path:
        if not path.endswith(".db"):
            raise ConfigError(f"'{address}': the path of Milvus Lite ends with .db")
        if not Path(path).exists():
            raise StoreError(f"{address}: there is no such file")
        return MilvusDatabase(address, lambda: _lite(path, address))
    forms = "milvus:PATH.db or milvus+http://HOST:19530"
    uri, user, password = server_url(address, "Milvus", forms)

    def open_client() -> Any:
        """The client of a server, made when something is first asked of the database."""
        pymilvus = require("pymilvus", extra="milvus")
        return pymilvus.MilvusClient(uri, user=user, password=password, timeout=_TIMEOUT)

    return MilvusDatabase(mask_url(address), open_client)


class MilvusDatabase(ReadableDatabase):
    """A server, or a database of Milvus Lite in this process; its logs are silenced."""

    def load(self) -> tuple[type[Exception], ...]:
        """The client's exceptions, and the plain ones that it and Milvus Lite raise."""
        exceptions = require("pymilvus.exceptions", extra="milvus")
        return (exceptions.MilvusException, OSError, RuntimeError, ValueError)

    @quiet()
    def connect(self) -> Any:
        """The client, without the log of its attempts."""
        return super().connect()

    @quiet()
    def listed(self, connection: Any) -> list[str]:
        """The names of all collections, for messages."""
        return list(connection.list_collections())

    @quiet()
    def read(self, connection: Any, name: str, mapping: FieldMapping) -> Milvus | None:
        """The collection, loaded; which of its vectors, and what is searched by words."""
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
        metric = mapping.checked_metric(name, _metric(connection, name, vector))

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
        """How many entities the collection has: Milvus counts by a query."""
        answer = self.client.query(self.name, filter="", output_fields=["count(*)"])
        return int(answer[0]["count(*)"])

    @quiet()
    def sample(self, limit: int) -> list[Row]:
        """Any entities with all their fields, to see what there is; their scores mean nothing."""
        rows = self.client.query(self.name, filter="", limit=limit, output_fields=["*"])
        return [self._row(row, 0.0) for row in rows]

    def condition(self, filters: Filter | None, native: object) -> str:
        """The filters and a native expression, as one expression of Milvus."""
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
        """Whether every vector is compared: an index of the type FLAT has no graph and no lists."""
        for index_name in self.client.list_indexes(self.name):
            index = self.client.describe_index(self.name, index_name)
            is_of_vector = index["field_name"] == self.space.vector
            if is_of_vector and index.get("index_type") != "FLAT":
                return False
        return True

    def nearest(self, rows: Rows, limit: int, condition: str, effort: Effort) -> list[list[Row]]:
        """The rows of all queries in one request; distances become scores."""
        if effort.exact and not self.is_exact:
            raise ConfigError("Milvus searches by its index alone: it has no exact search")
        results = self._ask(list(rows), self.space.vector, limit, condition, effort)
        if self.space.metric != "euclid":  # what pymilvus calls the distance is a similarity
            return results
        negated: list[list[Row]] = []
        for hits in results:
            negated.append([row._replace(score=-row.score) for row in hits])
        return negated

    def matching(self, texts: Sequence[str], limit: int, condition: str) -> list[list[Row]]:
        """The rows that share words with each question; those that Milvus scores 0 share none."""
        assert self.words is not None
        results: list[list[Row]] = []
        for hits in self._ask(list(texts), self.words.field, limit, condition, NORMAL):
            # Milvus Lite gives BM25 as a distance, below 0; a server as it is.
            results.append([row._replace(score=abs(row.score)) for row in hits if row.score])
        return results

    @quiet()
    def _ask(
        self, queries: list[Any], field: str, limit: int, condition: str, effort: Effort
    ) -> list[list[Row]]:
        """The rows that each query finds, best first; scores are what Milvus calls distances.

        Args:
            queries: vectors, or texts for a field that a BM25 function fills.
        """
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
            results.append([self._row(hit["entity"], hit["distance"]) for hit in hits])
        return results

    def _row(self, entity: Mapping[str, Any], score: float) -> Row:
        """An entity without its vectors, which chunks do not show."""
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
    """A filter as an expression of Milvus.

    Args:
        fields: of the schema; all others are dynamic.
    """

    def name_of(path: str) -> str:
        """A field of the schema or a dynamic one; dots lead into objects."""
        if path in fields or "." not in path:
            return path
        name, *keys = path.split(".")
        for key in keys:
            name += f"[{json.dumps(key)}]"
        return name

    def exists(field: str) -> str:
        """Tests a field of the schema for null, and a dynamic one for being there."""
        name = name_of(field)
        if name in fields:
            return f"({name} is not null)"
        return f"(exists {name})"

    def equal(field: str, values: Sequence[Scalar]) -> str:
        """Tests a field for any of the values."""
        tests = [f"{name_of(field)} == {_quoted(value)}" for value in values]
        return f"({' or '.join(tests)})"

    dialect = Dialect(
        both=lambda parts: f"({' and '.join(parts)})",
        either=lambda parts: f"({' or '.join(parts)})",
        denied=lambda part: f"(not {part})",
        equal=equal,
        within=lambda range_: _within(name_of(range_.field), range_),
        exists=exists,
        prefix=lambda field, prefix: _prefix(name_of(field), field, prefix),
    )
    return dialect(filters)


def _within(name: str, range_: Range) -> str:
    """A range of numbers as an expression; one of dates is refused, as Milvus has none."""
    if range_.of_dates:
        raise ConfigError(
            f"filter on '{range_.field}': Milvus compares no dates; give its own expression as "
            "the native filter"
        )
    tests: list[str] = []
    for word, limit in range_.limits().items():
        tests.append(f"{name} {_SIGNS[word]} {limit!r}")
    return f"({' and '.join(tests)})"


def _prefix(name: str, field: str, prefix: str) -> str:
    """A test of a text's beginning, by LIKE, in which some characters are signs."""
    if re.search(r"[%_\\]", prefix):
        raise ConfigError(
            f"filter on '{field}': Milvus takes %, _ and \\ in a prefix for signs; give its own "
            "expression as the native filter"
        )
    return f"({name} like {_quoted(prefix + '%')})"


def _metric(client: Any, name: str, vector: str) -> MetricName:
    """How a collection's vectors are compared, as the index over them says."""
    for index_name in client.list_indexes(name):
        index = client.describe_index(name, index_name)
        metric = index["metric_type"]
        if index["field_name"] == vector and metric in _METRICS:
            return _METRICS[metric]
    raise ConfigError(
        f"the collection '{name}' has no index of '{vector}' by {', '.join(_METRICS)}: it cannot "
        "be searched"
    )


def _lite(path: str, address: str) -> Any:
    """Opens a database of Milvus Lite in this process.

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
