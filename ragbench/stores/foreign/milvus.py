"""Collections of Milvus that ragbench did not fill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ragbench.errors import ConfigError, StoreError
from ragbench.stores.engine_database import EngineDatabase
from ragbench.stores.foreign.engine import ForeignRow, Space, chosen_vector, told_metric
from ragbench.stores.foreign.mapping import FieldMapping, MetricName
from ragbench.stores.milvus import MOST, open_milvus, quiet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ForeignMilvus"]

_METRICS: dict[str, MetricName] = {"COSINE": "cosine", "IP": "dot", "L2": "euclid"}


class ForeignMilvus:
    """See `ragbench.stores.foreign.engine.ForeignEngine`. A row's fields are its entity's."""

    most = MOST

    def __init__(
        self, client: Any, name: str, space: Space, *, key: str, vectors: frozenset[str]
    ) -> None:
        """Takes what is open.

        Args:
            client: the client.
            name: the collection's.
            space: what is searched.
            key: the primary field.
            vectors: all fields that hold vectors.
        """
        self.space = space
        self.key = key
        self._client = client
        self._name = name
        self._vectors = vectors

    @classmethod
    def database(cls, address: str) -> EngineDatabase[Any]:
        """See `ForeignEngine`."""
        path = address.removeprefix("milvus:")
        if address.startswith("milvus:") and path and not Path(path).exists():
            raise StoreError(f"{address}: there is no such file")
        return open_milvus(address)

    @classmethod
    def names(cls, connection: Any) -> list[str]:
        """See `ForeignEngine`."""
        with quiet():
            return list(connection.list_collections())

    @classmethod
    def attach(cls, connection: Any, name: str, mapping: FieldMapping) -> Self | None:
        """See `ForeignEngine`."""
        with quiet():
            if not connection.has_collection(name):
                return None
            fields = connection.describe_collection(name)["fields"]
            kinds = {one["name"]: one["type"].name for one in fields}
            dense = [at for at, kind in kinds.items() if kind == "FLOAT_VECTOR"]
            vector = chosen_vector(name, mapping.vector, dense)
            found = _metric(connection, name, vector)
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
        )

    def count(self) -> int:
        """See `ForeignEngine`."""
        with quiet():
            answer = self._client.query(self._name, filter="", output_fields=["count(*)"])
        return int(answer[0]["count(*)"])

    def sample(self, limit: int) -> list[ForeignRow]:
        """See `ForeignEngine`."""
        with quiet():
            rows = self._client.query(self._name, filter="", limit=limit, output_fields=["*"])
        return [self._row(row, 0.0) for row in rows]

    def nearest(self, rows: NDArray[np.float32], limit: int) -> list[list[ForeignRow]]:
        """See `ForeignEngine`."""
        with quiet():
            answers = self._client.search(
                self._name,
                list(rows),
                anns_field=self.space.vector,
                limit=limit,
                output_fields=["*"],
            )
        # What pymilvus calls the distance is a similarity but for L2, which is squared.
        sign = -1.0 if self.space.metric == "euclid" else 1.0
        return [
            [self._row(hit["entity"], sign * float(hit["distance"])) for hit in hits]
            for hits in answers
        ]

    def _row(self, entity: Mapping[str, Any], score: float) -> ForeignRow:
        fields = {at: value for at, value in entity.items() if at not in self._vectors}
        return ForeignRow(str(fields[self.key]), fields, score)


def _metric(client: Any, name: str, vector: str) -> MetricName:
    """How the index of a vector compares.

    Raises:
        ConfigError: there is no index, or it compares in a way that is not known here.
    """
    for at in client.list_indexes(name):
        index = client.describe_index(name, at)
        if index["field_name"] == vector and index["metric_type"] in _METRICS:
            return _METRICS[index["metric_type"]]
    raise ConfigError(
        f"the collection '{name}' has no index of '{vector}' by {', '.join(_METRICS)}: it cannot "
        "be searched"
    )
