"""What one writes with each engine's own client for the same data and the same query.

Text and metadata are kept in the client's natural form, with the indexes that its documentation
names for filters, and come back with each hit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ragbench import Chunk

K = 10
SOURCE = "s3.pdf"
YEARS = (2010, 2020)


class Client(Protocol):
    """A collection that is made, filled and asked without ragbench."""

    def add(self, chunks: list[Chunk], rows: Any) -> None:
        """Adds a batch."""
        ...

    def finish(self) -> None:
        """Called when all is added."""
        ...

    def search(self, query: Any, filtered: bool) -> Any:
        """The ten nearest, with their texts and metadata."""
        ...


class NumpyClient:
    def __init__(self, folder: Path, dimension: int) -> None:
        self._parts: list[Any] = []
        self._rows: Any = None
        self._chunks: list[Chunk] = []

    def add(self, chunks: list[Chunk], rows: Any) -> None:
        self._parts.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        self._chunks += chunks

    def finish(self) -> None:
        self._rows = np.concatenate(self._parts)
        sources = np.array([chunk.metadata["source"] for chunk in self._chunks])
        years = np.array([chunk.metadata["year"] for chunk in self._chunks])
        self._mask = (sources == SOURCE) & (years >= YEARS[0]) & (years < YEARS[1])

    def search(self, query: Any, filtered: bool) -> Any:
        scores = self._rows @ query
        if filtered:
            scores = np.where(self._mask, scores, -2)
        best = np.argpartition(scores, -K)[-K:]
        best = best[np.argsort(-scores[best])]
        return [(float(scores[place]), self._chunks[place]) for place in best]


class QdrantClient:
    def __init__(self, folder: Path, dimension: int) -> None:
        import qdrant_edge as qdrant

        folder.mkdir()
        self._qdrant = qdrant
        vectors = qdrant.EdgeVectorParams(size=dimension, distance=qdrant.Distance.Cosine)
        config = qdrant.EdgeConfig(vectors={"dense": vectors})
        self._shard = qdrant.EdgeShard.create(str(folder), config)
        for field, kind in (
            ("source", qdrant.PayloadSchemaType.Keyword),
            ("year", qdrant.PayloadSchemaType.Integer),
        ):
            self._shard.update(qdrant.UpdateOperation.create_field_index(field, kind))
        self._filter = qdrant.Filter(
            must=[
                qdrant.FieldCondition(key="source", match=qdrant.MatchValue(SOURCE)),
                qdrant.FieldCondition(
                    key="year", range=qdrant.RangeFloat(gte=YEARS[0], lt=YEARS[1])
                ),
            ]
        )

    def add(self, chunks: list[Chunk], rows: Any) -> None:
        points = [
            self._qdrant.Point(int(chunk.metadata["page"]), {"dense": row}, plain(chunk))
            for chunk, row in zip(chunks, rows, strict=True)
        ]
        self._shard.update(self._qdrant.UpdateOperation.upsert_points(points))

    def finish(self) -> None:
        pass

    def search(self, query: Any, filtered: bool) -> Any:
        found = self._shard.query(
            self._qdrant.QueryRequest(
                limit=K,
                query=self._qdrant.Query.Nearest(query, using="dense"),
                filter=self._filter if filtered else None,
                with_payload=True,
            )
        )
        # A payload becomes a dictionary when it is looked at.
        return [(point.id, point.score, point.payload) for point in found]


class PgvectorClient:
    def __init__(self, address: str, dimension: int) -> None:
        import psycopg
        from pgvector.psycopg import register_vector

        self._connection: Any = psycopg.connect(address, autocommit=True)
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        register_vector(self._connection)
        self._connection.execute(
            "CREATE TABLE bare (id text PRIMARY KEY, text text, document text, source text, "
            f"year int, page int, embedding vector({dimension}))"
        )
        self._connection.execute("CREATE INDEX ON bare (source, year)")

    def add(self, chunks: list[Chunk], rows: Any) -> None:
        with (
            self._connection.cursor() as cursor,
            cursor.copy("COPY bare FROM STDIN WITH (FORMAT BINARY)") as copy,
        ):
            copy.set_types(["text", "text", "text", "text", "int4", "int4", "vector"])
            for chunk, row in zip(chunks, rows, strict=True):
                copy.write_row([*plain(chunk).values(), row])

    def finish(self) -> None:
        self._connection.execute("ANALYZE bare")

    def search(self, query: Any, filtered: bool) -> Any:
        where = "WHERE source = %s AND year >= %s AND year < %s" if filtered else ""
        values = (SOURCE, *YEARS) if filtered else ()
        return self._connection.execute(
            "SELECT embedding <=> %s AS distance, id, text, document, source, year, page "
            f"FROM bare {where} ORDER BY distance LIMIT %s",
            (query, *values, K),
            binary=True,
        ).fetchall()


CLIENTS: dict[str, Callable[[Path, int], Client]] = {
    "memory": NumpyClient,
    "qdrant": QdrantClient,
}


def plain(chunk: Chunk) -> dict[str, Any]:
    """A chunk as one writes it down without ragbench."""
    return {"id": chunk.id, "text": chunk.text, "document": chunk.document_id, **chunk.metadata}
