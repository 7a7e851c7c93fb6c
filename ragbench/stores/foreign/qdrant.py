"""Collections of Qdrant that ragbench did not fill: on a server, or in a folder of its client."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from ragbench.errors import StoreError
from ragbench.extras import require
from ragbench.stores.engine_database import EngineDatabase
from ragbench.stores.foreign.engine import ForeignRow, Space, chosen_vector, told_metric
from ragbench.stores.foreign.mapping import FieldMapping, MetricName
from ragbench.stores.qdrant import open_qdrant
from ragbench.stores.qdrant_server import QdrantServerDatabase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ForeignQdrant"]

_METRICS: dict[str, MetricName] = {
    "Cosine": "cosine",
    "Dot": "dot",
    "Euclid": "euclid",
    "Manhattan": "manhattan",
}
_MARK = "meta.json"
"""A file that Qdrant's client writes into its folder, and makes anew where it is not there."""
_DISTANCES = ("euclid", "manhattan")


class ForeignQdrant:
    """See `ragbench.stores.foreign.engine.ForeignEngine`. A row's fields are its payload."""

    most = None
    key = None

    def __init__(self, client: Any, name: str, space: Space) -> None:
        """Takes what is open."""
        self.space = space
        self._client = client
        self._name = name

    @classmethod
    def database(cls, address: str) -> EngineDatabase[Any]:
        """A server, or a folder that Qdrant's Python client has written in its local mode."""
        path = Path(address.removeprefix("qdrant:"))
        if not address.startswith("qdrant:") or path == Path():
            return open_qdrant(address)
        if not (path / _MARK).is_file():
            raise StoreError(
                f"{address}: this is no folder of Qdrant's client (QdrantClient(path=...)): of "
                "embedded collections ragbench reads those and its own"
            )
        return QdrantServerDatabase(address, lambda: _local(address, path), local=True)

    @classmethod
    def names(cls, connection: Any) -> list[str]:
        """See `ForeignEngine`."""
        return [each.name for each in connection.get_collections().collections]

    @classmethod
    def attach(cls, connection: Any, name: str, mapping: FieldMapping) -> Self | None:
        """See `ForeignEngine`."""
        if not connection.collection_exists(name):
            return None
        kept = connection.get_collection(name).config.params.vectors
        named = cast("Mapping[str, Any]", kept if isinstance(kept, Mapping) else {"": kept})
        # A query has one vector: those with many a point compare otherwise.
        dense = {at: one for at, one in named.items() if one and one.multivector_config is None}
        vector = chosen_vector(name, mapping.vector, list(dense))
        metric = told_metric(name, mapping.metric, _METRICS[dense[vector].distance.value])
        dimension = int(dense[vector].size)
        return cls(connection, name, Space(vector=vector, dimension=dimension, metric=metric))

    def count(self) -> int:
        """See `ForeignEngine`."""
        return int(self._client.count(self._name, exact=True).count)

    def sample(self, limit: int) -> list[ForeignRow]:
        """See `ForeignEngine`."""
        points, _ = self._client.scroll(self._name, limit=limit, with_payload=True)
        return [ForeignRow(str(point.id), point.payload or {}) for point in points]

    def nearest(self, rows: NDArray[np.float32], limit: int) -> list[list[ForeignRow]]:
        """See `ForeignEngine`."""
        models = require("qdrant_client.models", extra="qdrant")
        requests = [
            models.QueryRequest(
                query=row.tolist(), using=self.space.vector or None, limit=limit, with_payload=True
            )
            for row in rows
        ]
        sign = -1.0 if self.space.metric in _DISTANCES else 1.0
        return [
            [
                ForeignRow(str(point.id), point.payload or {}, sign * float(point.score))
                for point in answer.points
            ]
            for answer in self._client.query_batch_points(self._name, requests)
        ]


def _local(address: str, path: Path) -> Any:
    client = require("qdrant_client", extra="qdrant").QdrantClient
    try:
        return client(path=str(path))
    except Exception as error:
        raise StoreError(f"{address}: {' '.join(str(error).split())[:300]}") from error
