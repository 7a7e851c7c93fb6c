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
_NATIVE = "an expression, such as 'year >= 2023'"
_TIMEOUT = 60.0
_MOST = 16384
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
        return require("pymilvus", extra="milvus").MilvusClient(
            uri, user=user, password=password, timeout=_TIMEOUT
        )

    return MilvusDatabase(mask_url(address), open_client)


class MilvusDatabase(ReadableDatabase):
    def load(self) -> tuple[type[Exception], ...]:
        exceptions = require("pymilvus.exceptions", extra="milvus")
        return (exceptions.MilvusException, OSError, RuntimeError, ValueError)

    @quiet()
    def connect(self) -> Any:
        return super().connect()

    @quiet()
    def listed(self, connection: Any) -> list[str]:
        return list(connection.list_collections())

    @quiet()
    def read(self, connection: Any, name: str, mapping: FieldMapping) -> Milvus | None:
        if not connection.has_collection(name):
            return None
        # What another process has filled is on the disk only, until it is loaded.
        connection.load_collection(name)
        description = connection.describe_collection(name)
        fields = description["fields"]
        kinds = {one["name"]: one["type"].name for one in fields}
        dense = [at for at, kind in kinds.items() if kind == "FLOAT_VECTOR"]
        vector = mapping.chosen_vector(name, dense)
        found = _metric(connection, name, vector)
        functions = description.get("functions") or ()
        bm25 = [one["output_field_names"] for one in functions if one["type"].name == "BM25"]
        sparse = mapping.chosen_words(name, [at for outputs in bm25 for at in outputs])
        chosen = next(one for one in fields if one["name"] == vector)
        metric, dimension = mapping.checked_metric(name, found), int(chosen["params"]["dim"])
        return Milvus(
            client=connection,
            name=name,
            space=Space(vector=vector, dimension=dimension, metric=metric),
            key=next(one["name"] for one in fields if one.get("is_primary")),
            words=None if sparse is None else Words(field=sparse, how="BM25 of Milvus"),
            kinds=kinds,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Milvus:
    """See `ragbench.search.stores.base.Reader`. A row's fields are its entity's."""

    most = _MOST
    client: Any
    name: str
    space: Space
    words: Words | None
    key: str
    kinds: Mapping[str, str]
    """The fields of the schema with their types."""

    @quiet()
    def count(self) -> int:
        answer = self.client.query(self.name, filter="", output_fields=["count(*)"])
        return int(answer[0]["count(*)"])

    @quiet()
    def sample(self, limit: int) -> list[Row]:
        rows = self.client.query(self.name, filter="", limit=limit, output_fields=["*"])
        return [self._row(row, 0.0) for row in rows]

    def condition(self, filters: Filter | None, native: object) -> str:
        """See `Reader`; a native one is an expression."""
        parts = [] if filters is None else [_expression(filters, self.kinds)]
        if native is not None:
            parts.append(f"({checked_native(native, str, 'Milvus', _NATIVE)})")
        return " and ".join(parts)

    @property
    @quiet()
    def is_exact(self) -> bool:
        indexes = self.client.list_indexes(self.name)
        kinds = [self.client.describe_index(self.name, at) for at in indexes]
        searched = [one for one in kinds if one["field_name"] == self.space.vector]
        return all(one.get("index_type") == "FLAT" for one in searched)

    def nearest(self, rows: Rows, limit: int, condition: str, effort: Effort) -> list[list[Row]]:
        # What pymilvus calls the distance is a similarity but for L2, which is squared.
        sign = -1.0 if self.space.metric == "euclid" else 1.0
        if effort.exact and not self.is_exact:
            raise ConfigError("Milvus searches by its index alone: it has no exact search")
        found = self._ask(list(rows), self.space.vector, limit, condition, effort)
        return [[row._replace(score=sign * row.score) for row in hits] for hits in found]

    def matching(self, texts: Sequence[str], limit: int, condition: str) -> list[list[Row]]:
        assert self.words is not None
        found = self._ask(list(texts), self.words.field, limit, condition, NORMAL)
        # Milvus Lite gives BM25 as a distance, below 0; a server as it is.
        return [[row._replace(score=abs(row.score)) for row in hits if row.score] for hits in found]

    @quiet()
    def _ask(
        self, asked: list[Any], field: str, limit: int, condition: str, effort: Effort
    ) -> list[list[Row]]:
        answers = self.client.search(
            self.name,
            asked,
            filter=condition,
            anns_field=field,
            limit=limit,
            output_fields=["*"],
            search_params={} if effort.ef is None else {"params": {"ef": effort.ef}},
        )
        return [[self._row(hit["entity"], hit["distance"]) for hit in hits] for hits in answers]

    def _row(self, entity: Mapping[str, Any], score: float) -> Row:
        vectors = {at for at, kind in self.kinds.items() if kind.endswith("VECTOR")}
        fields = {at: value for at, value in entity.items() if at not in vectors}
        return Row(str(fields[self.key]), fields, float(score))


_quoted = partial(json.dumps, ensure_ascii=False)
_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _expression(filters: Filter, fields: Mapping[str, str]) -> str:
    def at(path: str) -> str:
        """A field of the schema or a dynamic one; dots lead into objects."""
        if path in fields or "." not in path:
            return path
        name, *rest = path.split(".")
        return name + "".join(f"[{json.dumps(one)}]" for one in rest)

    def exists(field: str) -> str:
        name = at(field)
        return f"({name} is not null)" if name in fields else f"(exists {name})"

    def equal(field: str, values: Sequence[Scalar]) -> str:
        return f"({' or '.join(f'{at(field)} == {_quoted(value)}' for value in values)})"

    return Dialect(
        both=lambda parts: f"({' and '.join(parts)})",
        either=lambda parts: f"({' or '.join(parts)})",
        denied=lambda part: f"(not {part})",
        equal=equal,
        within=lambda wanted: _within(at(wanted.field), wanted),
        exists=exists,
        prefix=lambda field, prefix: _prefix(at(field), field, prefix),
    )(filters)


def _within(name: str, wanted: Range) -> str:
    if wanted.of_dates:
        raise ConfigError(
            f"filter on '{wanted.field}': Milvus compares no dates; give its own expression as "
            "the native filter"
        )
    tests = (f"{name} {_SIGNS[word]} {bound!r}" for word, bound in wanted.limits().items())
    return f"({' and '.join(tests)})"


def _prefix(name: str, field: str, prefix: str) -> str:
    if re.search(r"[%_\\]", prefix):
        raise ConfigError(
            f"filter on '{field}': Milvus takes %, _ and \\ in a prefix for signs; give its own "
            "expression as the native filter"
        )
    return f"({name} like {_quoted(prefix + '%')})"


def _metric(client: Any, name: str, vector: str) -> MetricName:
    for at in client.list_indexes(name):
        index = client.describe_index(name, at)
        if index["field_name"] == vector and index["metric_type"] in _METRICS:
            return _METRICS[index["metric_type"]]
    raise ConfigError(
        f"the collection '{name}' has no index of '{vector}' by {', '.join(_METRICS)}: it cannot "
        "be searched"
    )


def _lite(path: str, address: str) -> Any:
    require("milvus_lite", extra="milvus")
    if Path(path).is_file():
        raise StoreError(f"{address}: is a file; Milvus Lite 3 keeps a folder: name another path")
    failed = require("pymilvus.exceptions", extra="milvus").ConnectionConfigException
    try:
        return require("pymilvus", extra="milvus").MilvusClient(path)
    except failed as error:  # it keeps its reason to itself
        raise StoreError(
            f"{address}: Milvus Lite cannot open it: is it in use by another process, may it be "
            "written, and did Milvus Lite 3 make it?"
        ) from error
