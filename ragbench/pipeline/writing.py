"""A collection brought to the state of a corpus."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from ragbench.core.chunk import Chunk
from ragbench.embedders.embedder import readable_text
from ragbench.errors import StoreError
from ragbench.pipeline.chunking import Chunker
from ragbench.pipeline.stored_words import AverageLength
from ragbench.stores.base import IndexIdentity
from ragbench.stores.collection import OwnCollection
from ragbench.stores.record import chunk_digest
from ragbench.stores.writers import Lease
from ragbench.workers.pool import Batch, WorkerPool

if TYPE_CHECKING:
    from ragbench.embedders.embedder import Vectors

Embedding = WorkerPool[Sequence[str], "Vectors"]
"""Gives the vectors of texts, a batch of them at a time."""


class Writing:
    """Brings a collection to a state, batch by batch."""

    def __init__(
        self,
        *,
        store: OwnCollection,
        pool: Embedding,
        chunker: Chunker,
        unread: Callable[[Sequence[str]], int],
    ) -> None:
        info = store.info()
        self._store = store
        self._pool = pool
        known = IndexIdentity.from_json(info.identity, collection=info.name)
        self._identity = replace(known, chunker=chunker.identity, digest="")
        self.lease = Lease(store)
        self.lease.check_free()
        self._known = store.digests()
        self._whole = info.complete and known.chunker == self._identity.chunker
        self._begun = False
        self.continued = not info.complete and bool(self._known)
        """Whether an earlier indexing had not come to its end."""
        # Of a new collection the average has just been measured.
        fixed = info.words if self._known else None
        self._length = None if fixed is None else AverageLength(fixed)
        self.seen: dict[str, str] = {}
        """The ids of the corpus's chunks so far, with their digests."""
        self.written = 0
        """How many were embedded and stored."""
        self.cut_short = 0
        """Of those, how many the embedder reads the beginning of."""
        self._unread = unread

    def write(self, batches: Iterable[Sequence[Chunk]]) -> Iterator[tuple[int, int]]:
        """Stores what is not there yet, in order, while the next batches are embedded."""
        begun: deque[tuple[int, list[Chunk], Batch[Sequence[str], Vectors]]] = deque()
        for chunks in batches:
            new = self._new(chunks)
            texts = [_embedded_text(chunk) for chunk in new]
            self.cut_short += self._unread(texts)
            begun.append((len(chunks), new, self._pool.begin([texts] if new else [])))
            if len(begun) > self._pool.ahead:
                yield self._store_new(*begun.popleft())
        while begun:
            yield self._store_new(*begun.popleft())

    def _new(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        if self._length is not None:
            self._length.see(chunks)
        digests = [chunk_digest(chunk) for chunk in chunks]
        self.seen.update({chunk.id: digest for chunk, digest in zip(chunks, digests, strict=True)})
        return [
            chunk
            for chunk, digest in zip(chunks, digests, strict=True)
            if self._known.get(chunk.id) != digest
        ]

    def _store_new(
        self, chunks: int, new: Sequence[Chunk], batch: Batch[Sequence[str], Vectors]
    ) -> tuple[int, int]:
        for vectors in self._pool.take(batch):
            self._begin()
            self._store.upsert(new, vectors)
            self.written += len(new)
        return chunks, chunks - len(new)

    def finish(self) -> int:
        """Removes what is no part of the corpus, and marks the rest complete; says how many."""
        stale = [id_ for id_ in self._known if id_ not in self.seen]
        if stale:
            self._begin()
            self._store.delete(stale)
        if not self._whole:
            whole = blake2b(digest_size=16)
            for id_ in sorted(self.seen):
                whole.update(f"{id_}\0{self.seen[id_]}\n".encode("utf-8", "surrogatepass"))
            self._check_whole()
            done = replace(self._identity, digest=whole.hexdigest())
            self._store.mark(complete=True, identity=done.to_json())
        if self._length is not None:
            self._length.warn_of_drift()
        return len(stale)

    def _begin(self) -> None:
        """Before each write: from the first on the collection is not complete, and is ours.

        That is marked again now and then, also for stores that write to the disk only then.
        """
        if self._begun:
            self.lease.check_ours()
        else:
            self.lease.take(self._identity.to_json())
            self._begun, self._whole = True, False

    def _check_whole(self) -> None:
        self._begin()
        held = self._store.digests()
        if held != self.seen:
            other = sum(self.seen.get(id_) != digest for id_, digest in held.items())
            missing = len(self.seen.keys() - held.keys())
            raise StoreError(
                f"the collection '{self._store.info().name}' does not hold what was written: "
                f"{missing:,} chunks are missing, {other:,} are other ones. Another program writes "
                "to it; run the same 'ragbench index' again when it is done"
            )


def _embedded_text(chunk: Chunk) -> str:
    """What the embedder reads: the title says what a passage from the middle is about."""
    title = chunk.metadata.get("title")
    if not isinstance(title, str) or not title.strip() or chunk.text.startswith(title):
        return readable_text(chunk.text)
    return readable_text(f"{title}\n{chunk.text}")
