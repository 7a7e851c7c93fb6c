"""A small collection in memory."""

from __future__ import annotations

from collections.abc import Iterable

from ragbench import Chunk
from ragbench.embedders.cosine_scale import CosineScale
from ragbench.embedders.local import HashingEmbedder
from ragbench.stores.base import IndexIdentity
from ragbench.stores.memory import MemoryDatabase

EMBEDDER = HashingEmbedder(dimension=512)


def chunk(id_: str, text: str, **metadata: object) -> Chunk:
    return Chunk(id=id_, text=text, metadata=metadata)


def database(chunks: Iterable[Chunk], calibration: CosineScale | None = None) -> MemoryDatabase:
    """A database whose collection ``kb`` holds the chunks, as `ragbench index` leaves it."""
    given = list(chunks)
    opened = MemoryDatabase()
    identity = IndexIdentity(
        embedder=EMBEDDER.identity,
        embedder_name="hashing:512",
        calibration=(calibration or CosineScale()).to_json(),
        digest="0",
    ).to_json()
    store = opened.create("kb", dimension=512, identity=identity)
    store.upsert(given, EMBEDDER.embed_passages([each.text for each in given]))
    store.mark(complete=True)
    return opened
