"""Collections of Milvus that ragbench did not fill."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ragbench.core.filters import And, Exists, Filter, In, Not, Or, Prefix, Range, Scalar
from ragbench.errors import ConfigError, StoreError
from ragbench.stores.attached.engine import Space, Words, chosen_vector, chosen_words, told_metric
from ragbench.stores.attached.mapping import FieldMapping, ForeignRow, MetricName
from ragbench.stores.base import NORMAL, Effort
from ragbench.stores.database import EngineDatabase
from ragbench.stores.milvus import MOST, open_milvus, quiet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_METRICS: dict[str, MetricName] = {"COSINE": "cosine", "IP": "dot", "L2": "euclid"}


class ForeignMilvus:
    """See `ragbench.stores.attached.engine.ForeignEngine`. A row's fields are its entity's."""

    most = MOST

    def __init__(
        self,
        client: Any,
        name: str,
        space: Space,
        *,
        key: str,
        vectors: frozenset[str],
        words: Words | None = None,
        fields: frozenset[str] = frozenset(),
    ) -> None:
        self.space = space
        self.words = words
        self._fields = fields
        self.key = key
        self._client = client
        self._name = name
        self._vectors = vectors

    @classmethod
    def database(cls, address: str) -> EngineDatabase[Any]:
        path = address.removeprefix("milvus:")
        if address.startswith("milvus:") and path and not Path(path).exists():
            raise StoreError(f"{address}: there is no such file")
        return open_milvus(address)

    @classmethod
    def names(cls, connection: Any) -> list[str]:
        with quiet():
            return list(connection.list_collections())

    @classmethod
    def attach(cls, connection: Any, name: str, mapping: FieldMapping) -> Self | None:
        with quiet():
            if not connection.has_collection(name):
                return None
            # What another process has filled is on the disk only, until it is loaded.
            connection.load_collection(name)
            told = connection.describe_collection(name)
            fields = told["fields"]
            kinds = {one["name"]: one["type"].name for one in fields}
            dense = [at for at, kind in kinds.items() if kind == "FLOAT_VECTOR"]
            vector = chosen_vector(name, mapping.vector, dense)
            found = _metric(connection, name, vector)
        functions = told.get("functions") or ()
        outputs = [
            at
            for one in functions
            if one["type"].name == "BM25"
            for at in one["output_field_names"]
        ]
        sparse = chosen_words(name, mapping.words, outputs)
        chosen = next(one for one in fields if one["name"] == vector)
        return cls(
            connection,
            name,
            Space(
                vector=vector,
                dimension=int(chosen["params"]["dim"]),
                metric=told_metric(name, mapping.metric, found),
            ),
            key=next(one["name"] for one in fields if one.get("is_primary")),
            vectors=frozenset(at for at, kind in kinds.items() if kind.endswith("VECTOR")),
            words=None if sparse is None else Words(field=sparse, how="BM25 of Milvus"),
            fields=frozenset(kinds),
        )

    def count(self) -> int:
        with quiet():
            answer = self._client.query(self._name, filter="", output_fields=["count(*)"])
        return int(answer[0]["count(*)"])

    def sample(self, limit: int) -> list[ForeignRow]:
        with quiet():
            rows = self._client.query(self._name, filter="", limit=limit, output_fields=["*"])
        return [self._row(row, 0.0) for row in rows]

    def condition(self, filters: Filter | None, native: object) -> str:
        """See `ForeignEngine`; a native one is an expression."""
        parts = [] if filters is None else [_expression(filters, self._fields)]
        if native is not None:
            if not isinstance(native, str) or not native.strip():
                raise ConfigError(
                    "the native filter of Milvus is an expression, such as 'year >= 2023', found "
                    f"{native!r}"
                )
            parts.append(f"({native})")
        return " and ".join(parts)

    @property
    def is_exact(self) -> bool:
        with quiet():
            indexes = self._client.list_indexes(self._name)
            kinds = [self._client.describe_index(self._name, at) for at in indexes]
        searched = [one for one in kinds if one["field_name"] == self.space.vector]
        return all(one.get("index_type") == "FLAT" for one in searched)

    def nearest(
        self, rows: NDArray[np.float32], limit: int, condition: str, effort: Effort = NORMAL
    ) -> list[list[ForeignRow]]:
        # What pymilvus calls the distance is a similarity but for L2, which is squared.
        sign = -1.0 if self.space.metric == "euclid" else 1.0
        if effort.exact and not self.is_exact:
            raise ConfigError("Milvus searches by its index alone: it has no exact search")
        found = self._ask(list(rows), self.space.vector, limit, condition, effort)
        return [[row._replace(score=sign * row.score) for row in hits] for hits in found]

    def matching(self, texts: Sequence[str], limit: int, condition: str) -> list[list[ForeignRow]]:
        assert self.words is not None
        found = self._ask(list(texts), self.words.field, limit, condition)
        # Milvus Lite gives BM25 as a distance, below 0; a server as it is.
        return [[row._replace(score=abs(row.score)) for row in hits if row.score] for hits in found]

    def _ask(
        self,
        asked: list[Any],
        field: str,
        limit: int,
        condition: str,
        effort: Effort = NORMAL,
    ) -> list[list[ForeignRow]]:
        with quiet():
            answers = self._client.search(
                self._name,
                asked,
                filter=condition,
                anns_field=field,
                limit=limit,
                output_fields=["*"],
                search_params={} if effort.ef is None else {"params": {"ef": effort.ef}},
            )
        return [
            [self._row(hit["entity"], float(hit["distance"])) for hit in hits] for hits in answers
        ]

    def _row(self, entity: Mapping[str, Any], score: float) -> ForeignRow:
        fields = {at: value for at, value in entity.items() if at not in self._vectors}
        return ForeignRow(str(fields[self.key]), fields, score)


_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _expression(filters: Filter, fields: frozenset[str]) -> str:
    if isinstance(filters, And | Or):
        word = " and " if isinstance(filters, And) else " or "
        return f"({word.join(_expression(part, fields) for part in filters.filters)})"
    if isinstance(filters, Not):
        return f"(not {_expression(filters.filter, fields)})"
    name = _field(filters.field, fields)
    if isinstance(filters, Exists):
        return f"({name} is not null)" if name in fields else f"(exists {name})"
    if isinstance(filters, Range):
        if filters.of_dates:
            raise ConfigError(
                f"filter on '{filters.field}': Milvus compares no dates; give its own expression "
                "as the native filter"
            )
        tests = (f"{name} {_SIGNS[word]} {bound!r}" for word, bound in filters.limits().items())
        return f"({' and '.join(tests)})"
    if isinstance(filters, Prefix):
        if re.search(r"[%_\\\\]", filters.prefix):
            raise ConfigError(
                f"filter on '{filters.field}': Milvus takes %, _ and \\ in a prefix for signs; "
                "give its own expression as the native filter"
            )
        return f"({name} like {_literal(filters.prefix + '%')})"
    values = filters.values if isinstance(filters, In) else (filters.value,)
    return f"({' or '.join(f'{name} == {_literal(value)}' for value in values)})"


def _field(path: str, fields: frozenset[str]) -> str:
    """A field of the schema or a dynamic one; dots lead into objects."""
    if path in fields or "." not in path:
        return path
    name, *rest = path.split(".")
    return name + "".join(f"[{json.dumps(one)}]" for one in rest)


def _literal(value: Scalar) -> str:
    return json.dumps(value, ensure_ascii=False)


def _metric(client: Any, name: str, vector: str) -> MetricName:
    for at in client.list_indexes(name):
        index = client.describe_index(name, at)
        if index["field_name"] == vector and index["metric_type"] in _METRICS:
            return _METRICS[index["metric_type"]]
    raise ConfigError(
        f"the collection '{name}' has no index of '{vector}' by {', '.join(_METRICS)}: it cannot "
        "be searched"
    )
