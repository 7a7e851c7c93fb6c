"""A small collection in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ragbench import Chunk
from ragbench.core.filters import Filter
from ragbench.search.embedders.embedder import CosineScale
from ragbench.search.embedders.local import HashingEmbedder
from ragbench.search.stores.base import NORMAL, Effort, IndexIdentity, Vectors
from ragbench.search.stores.memory import MemoryDatabase

EMBEDDER = HashingEmbedder(dimension=512)


def chunk(id_: str, text: str, **metadata: object) -> Chunk:
    return Chunk(id=id_, text=text, metadata=metadata)


def database(chunks: Iterable[Chunk], calibration: CosineScale | None = None) -> MemoryDatabase:
    """A database whose collection ``kb`` holds the chunks, as `ragbench index` leaves it."""
    chunks = list(chunks)
    identity = IndexIdentity(
        embedder=EMBEDDER.identity,
        embedder_name="hashing:512",
        digest="0",
        calibration=(calibration or CosineScale()).to_json(),
    )
    database = MemoryDatabase()
    store = database.create("kb", dimension=512, identity=identity.to_json())
    store.upsert(chunks, EMBEDDER.embed_passages([chunk.text for chunk in chunks]))
    store.mark(complete=True)
    return database


def saved(text: str) -> Path:
    """A pipeline file in the current folder."""
    path = Path("rag.yaml")
    path.write_text(text, "utf-8")
    return path


def fill_qdrant(
    embedded: Sequence[str], payloads: Sequence[Any], *, dimension: int, distance: str = "Cosine"
) -> None:
    """The collection ``docs`` in the folder ``mine`` as a program of the user's fills it."""
    from qdrant_client import QdrantClient, models

    vectors = HashingEmbedder(dimension=dimension).embed_passages(embedded).tolist()
    points: list[Any] = []
    for number, (vector, payload) in enumerate(zip(vectors, payloads, strict=True)):
        points.append(models.PointStruct(id=number, vector=vector, payload=payload))
    config = models.VectorParams(size=dimension, distance=models.Distance(distance))
    client = QdrantClient(path="mine")
    client.create_collection("docs", vectors_config=config)
    client.upsert("docs", points)
    client.close()


class Forgetful:
    """A store whose index misses one chunk, unless a search is exact."""

    is_exact = False
    has_documents = True
    dimension = 256

    def __init__(
        self, chunks: Sequence[Chunk], missed: str, vectors: Vectors | None = None
    ) -> None:
        embedder = HashingEmbedder(dimension=256)
        if vectors is None:
            vectors = embedder.embed_passages([chunk.text for chunk in chunks])
        self.store = MemoryDatabase().create("c", dimension=vectors.shape[1])
        self.store.upsert(chunks, vectors)
        self.missed = missed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def search(
        self, vectors: Vectors, *, k: int, filters: Filter | None = None, effort: Effort = NORMAL
    ) -> list[list[Chunk]]:
        # One more than asked for, in the place of the missed chunk.
        exact_rankings = self.store.search(vectors, k=k + 1, filters=filters)
        missed = None if effort.exact else self.missed
        rankings: list[list[Chunk]] = []
        for ranking in exact_rankings:
            remaining = [chunk for chunk in ranking if chunk.id != missed]
            rankings.append(remaining[:k])
        return rankings
