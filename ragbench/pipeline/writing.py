"""A collection brought to the state of a corpus."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, get_args

from ragbench.core.chunk import Chunk, Document
from ragbench.embedders.embedder import readable_text
from ragbench.errors import ConfigError, StoreError, warn
from ragbench.pipeline.documents import Chunker, WordsPlace, document_chunks
from ragbench.stores.base import IndexIdentity
from ragbench.stores.collection import OwnCollection
from ragbench.stores.database import Database
from ragbench.stores.record import encode
from ragbench.stores.words import WordsForm, check_words
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
        digests = [encode(chunk).digest for chunk in chunks]
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


_DRIFT = 0.1
"""From such a share on a warning says that chunks have become longer or shorter."""


class AverageLength:
    """Tokens of a chunk, on average over those that were seen."""

    def __init__(self, form: WordsForm) -> None:
        self._form = form
        self._tokens = 0
        self._chunks = 0

    def see(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            self._tokens += len(self._form.tokens(chunk))
            self._chunks += 1

    @property
    def value(self) -> float:
        return self._tokens / self._chunks if self._chunks else 0.0

    def warn_of_drift(self) -> None:
        """Says that chunks are no longer as long as those that the words were weighed by."""
        was = self._form.average
        if not was or abs(self.value - was) <= _DRIFT * was:
            return
        warn(
            f"the chunks have {self.value:,.1f} words on average now; BM25 in the store holds long "
            f"ones down by {was:,.1f}, the average when the collection was made. To renew it, "
            "remove the collection with 'ragbench index --drop NAME' and index the corpus again"
        )


def words_of(
    place: WordsPlace | None,
    database: Database,
    collection: str,
    documents: Iterable[Document],
    chunker: Chunker,
) -> WordsForm | None:
    """How a collection keeps words; of a new one the average length is measured.

    None where the store is not to rank by words.
    """
    if place is None:
        return None
    if place not in get_args(WordsPlace):
        raise ConfigError(f"words must be one of {', '.join(get_args(WordsPlace))}, not '{place}'")
    measured = WordsForm(average=0.0)
    check_words(database, measured if place == "store" else None)
    if collection in database.collections():
        with database.open(collection) as store:
            kept = store.info().words
        if (place == "store") != (kept is not None):
            made = "by ragbench" if kept is None else "by the store"
            raise ConfigError(
                f"the collection '{collection}' was made to be ranked {made} by words: leave "
                "--words out, or index the corpus under another name"
            )
        return kept
    if place == "here":
        return None
    length = AverageLength(measured)
    for document in documents:
        length.see(document_chunks(document, chunker))
    return replace(measured, average=length.value)
