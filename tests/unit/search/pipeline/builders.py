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
    given = list(chunks)
    opened = MemoryDatabase()
    known: Any = {"embedder": EMBEDDER.identity, "embedder_name": "hashing:512", "digest": "0"}
    scale = (calibration or CosineScale()).to_json()
    identity = IndexIdentity(**known, calibration=scale).to_json()
    store = opened.create("kb", dimension=512, identity=identity)
    store.upsert(given, EMBEDDER.embed_passages([each.text for each in given]))
    store.mark(complete=True)
    return opened


def saved(text: str) -> Path:
    path = Path("rag.yaml")
    path.write_text(text, "utf-8")
    return path


def fill_qdrant(
    embedded: Sequence[str], payloads: Sequence[Any], *, dimension: int, distance: str = "Cosine"
) -> None:
    """The collection ``docs`` in the folder ``mine`` as a program of the user's fills it."""
    from qdrant_client import QdrantClient, models

    size = models.VectorParams(size=dimension, distance=models.Distance(distance))
    vectors = HashingEmbedder(dimension=dimension).embed_passages(embedded).tolist()
    rows = enumerate(zip(vectors, payloads, strict=True))
    points = [models.PointStruct(id=at, vector=row, payload=held) for at, (row, held) in rows]
    client = QdrantClient(path="mine")
    client.create_collection("docs", vectors_config=size)
    client.upsert("docs", points)
    client.close()


class Forgetful:
    is_exact = False
    has_documents = True
    dimension = 256

    def __init__(
        self, chunks: Sequence[Chunk], missed: str, vectors: Vectors | None = None
    ) -> None:
        embedder = HashingEmbedder(dimension=256)
        if vectors is None:
            vectors = embedder.embed_passages([one.text for one in chunks])
        self.store = MemoryDatabase().create("c", dimension=vectors.shape[1])
        self.store.upsert(chunks, vectors)
        self.missed = missed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def search(
        self, vectors: Vectors, *, k: int, filters: Filter | None = None, effort: Effort = NORMAL
    ) -> list[list[Chunk]]:
        found = self.store.search(vectors, k=k + 1, filters=filters)
        missed = None if effort.exact else self.missed
        return [[one for one in ranking if one.id != missed][:k] for ranking in found]
