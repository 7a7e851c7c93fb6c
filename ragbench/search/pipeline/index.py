"""Documents to chunks to vectors to a store."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from hashlib import blake2b
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, Protocol

from ragbench.core.chunk import Chunk, Document
from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError, StoreError
from ragbench.io.read import read_documents, skipped_files
from ragbench.io.settings import converted
from ragbench.plugins import Floats32
from ragbench.search.embedders.embedder import (
    DEFAULT_EMBEDDER,
    Embedder,
    measure_calibration,
    open_embedder,
    readable_text,
)
from ragbench.search.pipeline.agreement import measured_weight
from ragbench.search.pipeline.documents import Chunker, WordsPlace, document_chunks, make_chunker
from ragbench.search.stores.base import IndexIdentity
from ragbench.search.stores.collection import OwnCollection
from ragbench.search.stores.database import Database, being_written, open_database, sole_writer
from ragbench.search.stores.record import WordsForm, check_words, encode
from ragbench.text.language import guess_language, recognised_language
from ragbench.workers.engines import check_engine, opened_engine, thread_engine
from ragbench.workers.pool import Batch, Map, WorkerPool

Embedding = WorkerPool[Sequence[str], Floats32]
"""Gives the vectors of texts, a batch of them at a time."""
_BATCH = 128
_MARKED = 20.0
"""Seconds after which a collection that is written to is marked again, for stores that write to
the disk only then."""
_SAMPLED = 200
"""Chunks whose language is looked at."""


class IndexProgress(Protocol):
    def __call__(self, *, documents: int, chunks: int, unchanged: int) -> None:
        """So many more documents and chunks are through, of which so many were there before."""
        ...


ENGLISH_EMBEDDER = "english"
_MOST = 2 / 3
"""Share of English documents from which on their static vectors are taken: of the bundled corpus,
15 % of it Chinese and German, they rank as well as a model of both that takes fifty times as long
(docs/measured/retrieval.md); words find the rest."""


def default_embedder(
    database: Database, collection: str, read: Callable[[], Iterable[Document]]
) -> tuple[str, Mapping[str, Any]]:
    """The embedder, with its settings, where none is named.

    It is the one that the collection was built with; of a new one it depends on the language of the
    documents: words of English have static vectors, which are better there and cost a hundredth.
    """
    if collection in database.collections():
        with database.open(collection) as store:
            made = store.info().made_by
        return made.embedder_name, made.embedder_settings
    read_first = [one.text for one in islice(read(), _SAMPLED)]
    return ENGLISH_EMBEDDER if are_english(read_first) else DEFAULT_EMBEDDER, {}


def are_english(texts: Sequence[str]) -> bool:
    """Whether most texts are, so that static vectors of English words serve them."""
    said = [text[:1000] for text in texts if text.strip()]
    english = sum(recognised_language(text) == "en" for text in said)
    return bool(said) and english >= _MOST * len(said)


class IndexResult(Record):
    collection: str
    documents: int
    """How many were read."""
    empty: int
    """How many of them hold nothing but white space, and so gave no chunk."""
    chunks: int
    """How many the collection holds now."""
    written: int
    """Chunks that were embedded and stored: new ones and changed ones."""
    unchanged: int
    """Chunks that were there already, just so."""
    removed: int
    """Chunks that were there and are not part of the corpus any more."""
    continued: bool
    """Whether an earlier indexing of this collection had not come to its end."""
    store: str
    """The address of the store, without a password."""
    embedder: str
    """What made the vectors."""
    dense_weight: float | None = None
    """How much they count in hybrid searches, where words count 1; see
    `ragbench.search.pipeline.agreement`. None where the embedder's own weight holds."""
    skipped: tuple[str, ...] = ()
    """Files of a folder that are not read, for what they hold is not known."""


def index(
    source: str | Path | Iterable[Document],
    store: str,
    collection: str,
    *,
    embedder: str | None = None,
    embedder_settings: Mapping[str, Any] | None = None,
    chunker: str | Chunker = "auto",
    format: str | None = None,
    encoding: str | None = None,
    fields: Mapping[str, str] | None = None,
    engine: str = "local",
    workers: int | None = None,
    words: WordsPlace | None = None,
    progress: IndexProgress | None = None,
    counted: Callable[[int], object] = lambda _: None,
) -> IndexResult:
    """Cuts documents into chunks and stores them with their vectors, as ``ragbench index`` does.

    See `index_documents` for what is written when the collection is there already.

    Example:
        >>> index("docs/", "memory:reports/index", "handbook").chunks  # doctest: +SKIP
        128

    Args:
        source: a file or folder in any corpus format (see `ragbench.io.read.read_documents`), or
            documents; the whole corpus, each id once.
        store: address of the store, such as ``"memory:FOLDER"``; see `stores.database`.
        collection: its name; made where there is none.
        embedder: name of what makes the vectors; see `embedders.embedder.open_embedder`.
            When not given, that of the collection, or one by the language of the documents.
        embedder_settings: its settings; they are stored, so no credentials.
        chunker: a chunker, or the name of one.
        format: name of the corpus's format; recognised when not given.
        encoding: of its text files; UTF-8, or UTF-16 with a byte order mark, when not given.
        fields: field of a document to field of the source.
        engine: where texts are embedded; see `ragbench.workers.engines.opened_engine`. What waits
            for an endpoint does so in this process.
        workers: how many embed; one per processor of the machine or cluster when not given.
        words: who ranks by words: ``"here"`` ragbench, from an index of all chunks that a search
            builds; ``"store"`` the store itself, for which it keeps the words of each chunk. As
            the collection was made, and ``"here"`` for a new one, when not given.
        progress: called with what is through.
        counted: called with how many documents a file or folder has, once that is known.

    Raises:
        DataError: the corpus has problems; nothing was written.
        ConfigError: there is no document with text, two documents have one id, a name is unknown,
            the store does not rank by words, or the collection was built otherwise.
        MissingExtraError: a package is not installed.
        StoreError: the store cannot be used.
        LLMError: the embedder's endpoint gives no vectors.
    """
    chunker = make_chunker(chunker) if isinstance(chunker, str) else chunker
    again = words is not None or embedder is None
    read = _reader(source, again=again, format=format, fields=fields, encoding=encoding)
    with ExitStack() as stack:
        database = stack.enter_context(closing(open_database(store)))
        if embedder is None and not embedder_settings:
            embedder, embedder_settings = default_embedder(database, collection, read)
        embedder = embedder or DEFAULT_EMBEDDER
        opened = stack.enter_context(closing(open_embedder(embedder, **embedder_settings or {})))
        pool = None
        if check_engine(engine) != "local" and not getattr(opened, "asks_endpoint", False):
            make = partial(_passages, embedder, embedder_settings)
            where = stack.enter_context(opened_engine(engine, workers=workers))
            pool = stack.enter_context(WorkerPool(make, where, batch=1))
        form = None
        if isinstance(source, str | Path) or words is not None:
            # A file is read twice: once to find every problem and to count, before anything is
            # written, and once to index. Memory holds a document and a batch of chunks.
            counts = count()
            first = (document for document, _ in zip(read(), counts, strict=False))
            form = words_of(words, database, collection, first, chunker)
            deque(first, maxlen=0)  # what is not measured is looked through all the same
            counted(next(counts))
        done = index_documents(
            read(),
            database,
            collection,
            embedder=opened,
            embedder_name=embedder,
            embedder_settings=embedder_settings,
            chunker=chunker,
            pool=pool,
            words=form,
            progress=progress,
        )
    if isinstance(source, str | Path):
        return replace(done, skipped=tuple(skipped_files(source, format=format)))
    return done


def index_documents(
    documents: Iterable[Document],
    database: Database,
    collection: str,
    *,
    embedder: Embedder,
    embedder_name: str,
    embedder_settings: Mapping[str, Any] | None = None,
    chunker: Chunker,
    pool: Embedding | None = None,
    words: WordsForm | None = None,
    progress: IndexProgress | None = None,
    patience: float = 0.0,
) -> IndexResult:
    """Makes a collection hold exactly the chunks of these documents.

    What the collection holds already stays as it is and is not embedded again; changed chunks are
    replaced, and chunks of no document are removed. From the first write to the last the collection
    is marked incomplete, so that an interrupted indexing is never taken for a whole one; the same
    call continues it.

    Args:
        patience: seconds to wait where another one writes to the same folder.
    """
    cut = Counter[str]()
    stream = _chunks(documents, chunker, cut)
    head = list(islice(stream, _SAMPLED))
    if not head:
        raise ConfigError("there is nothing to index: the corpus has no document with text")
    identity = IndexIdentity(
        embedder=embedder.identity,
        embedder_name=embedder_name,
        embedder_settings=embedder_settings or {},
        chunker=chunker.identity,
    )
    alone = sole_writer(database.folder, database.address, patience=patience)
    with alone, _opened(database, collection, embedder, identity, head, words) as store:
        here: Embedding = WorkerPool(partial(_passages, embedder), thread_engine())
        writing = _Writing(store, embedder, pool or here, chunker)
        reported, every = 0, chain(head, stream)
        batches = iter(lambda: list(islice(every, _BATCH)), [])
        try:
            for chunks, unchanged in writing.write(batches):
                if progress is not None:
                    through, reported = cut["documents"] - reported, cut["documents"]
                    progress(documents=through, chunks=chunks, unchanged=unchanged)
            removed = writing.finish()
        except BaseException:
            writing.leave_incomplete()
            raise
    return IndexResult(
        collection=collection,
        documents=cut["documents"],
        empty=cut["empty"],
        chunks=len(writing.seen),
        written=writing.written,
        unchanged=len(writing.seen) - writing.written,
        removed=removed,
        continued=writing.continued,
        store=database.address,
        embedder=embedder_name,
        dense_weight=writing.dense_weight,
    )


def _reader(
    source: str | Path | Iterable[Document], *, again: bool, **how: Any
) -> Callable[[], Iterable[Document]]:
    if isinstance(source, str | Path):
        return partial(read_documents, source, **how)
    return partial(iter, list(source) if again and not isinstance(source, Sequence) else source)


def _passages(
    embedder: Embedder | str, settings: Mapping[str, Any] | None = None
) -> Map[Sequence[str], Floats32]:
    """What embeds batches of passages; a name is opened where it is to work."""
    opened = open_embedder(embedder, **settings or {}) if isinstance(embedder, str) else embedder
    return lambda batches: [opened.embed_passages(texts) for texts in batches]


def _chunks(documents: Iterable[Document], chunker: Chunker, cut: Counter[str]) -> Iterator[Chunk]:
    """The chunks of documents, one after another; counts documents, and the empty ones."""
    ids: set[str] = set()
    for document in documents:
        if document.id in ids:
            raise ConfigError(f"two documents have the id '{document.id}'")
        ids.add(document.id)
        chunks = document_chunks(document, chunker)
        cut.update(documents=1, empty=not chunks)
        yield from chunks


def _opened(
    database: Database,
    collection: str,
    embedder: Embedder,
    identity: IndexIdentity,
    head: Sequence[Chunk],
    words: WordsForm | None,
) -> OwnCollection:
    """The collection: as it is, where the embedder fits, or a new one."""
    if collection in database.collections():
        store = database.open(collection)
        info = store.info()
        known = info.made_by
        if dict(known.embedder) == dict(identity.embedder):
            return store
        store.close()
        raise ConfigError(
            f"the collection '{info.name}' was built with another embedder ({_named(known)}, "
            f"{info.dimension} dimensions) than {_named(identity)}. Use that one, or index under "
            "another name"
        )
    spoken = Counter(guess_language(chunk.text[:1000]) for chunk in head)
    read = getattr(embedder, "languages", ()) or (*spoken,)
    languages = sorted(one for one in read if spoken[one] * 10 >= len(head))
    made = replace(identity, calibration=measure_calibration(embedder, languages).to_json())
    settings: dict[str, Any] = {"dimension": embedder.dimension, "identity": made.to_json()}
    if words is not None:  # which stores of other packages need not know
        settings["words"] = words
    try:
        return database.create(collection, **settings)
    except StoreError as error:
        if collection in database.collections():  # made since it was looked for
            raise being_written(database.address) from error
        raise


def _named(identity: IndexIdentity) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in identity.embedder_settings.items())
    return f"{identity.embedder_name} with {settings}" if settings else identity.embedder_name


class _Writing:
    """Brings a collection to the state of a corpus, batch by batch."""

    def __init__(
        self, store: OwnCollection, embedder: Embedder, pool: Embedding, chunker: Chunker
    ) -> None:
        info = store.info()
        self._store = store
        self._embedder = embedder
        self._pool = pool
        known = info.made_by
        self._identity = replace(known, chunker=chunker.identity, digest="")
        self.dense_weight = known.dense_weight
        self._known = store.digests()
        self._whole = info.complete and known.chunker == self._identity.chunker
        self._marked: float | None = None
        self.continued = not info.complete and bool(self._known)
        """Whether an earlier indexing had not come to its end."""
        self.seen: dict[str, str] = {}
        """The ids of the corpus's chunks so far, with their digests."""
        self.written = 0
        """How many were embedded and stored."""

    def write(self, batches: Iterable[Sequence[Chunk]]) -> Iterator[tuple[int, int]]:
        """Stores what is not there yet, in order, while the next batches are embedded.

        Gives for each batch its chunks, and how many of them were there.
        """
        begun: deque[tuple[int, list[Chunk], Batch[Sequence[str], Floats32]]] = deque()
        for chunks in batches:
            digests = {chunk.id: encode(chunk).digest for chunk in chunks}
            self.seen |= digests
            new = [chunk for chunk in chunks if self._known.get(chunk.id) != digests[chunk.id]]
            texts = [_embedded_text(chunk) for chunk in new]
            begun.append((len(chunks), new, self._pool.begin([texts] if new else [])))
            if len(begun) > self._pool.ahead:
                yield self._store_new(*begun.popleft())
        while begun:
            yield self._store_new(*begun.popleft())

    def _store_new(
        self, chunks: int, new: Sequence[Chunk], batch: Batch[Sequence[str], Floats32]
    ) -> tuple[int, int]:
        for vectors in self._pool.take(batch):
            self._begin()
            self._store.upsert(new, vectors)
            self.written += len(new)
        return chunks, chunks - len(new)

    def finish(self) -> int:
        """Removes what is no part of the corpus, and marks the rest complete; says how many."""
        if stale := [id_ for id_ in self._known if id_ not in self.seen]:
            self._begin()
            self._store.delete(stale)
        if self._whole:
            return len(stale)
        self._begin()
        held = self._store.digests()
        if held != self.seen:
            other = sum(self.seen.get(id_) != digest for id_, digest in held.items())
            missing = len(self.seen.keys() - held.keys())
            raise StoreError(
                f"the collection '{self._store.name}' differs from the chunks written: "
                f"{missing:,} chunks are missing, {other:,} are other ones. Another program writes "
                "to it; run the same 'ragbench index' again when it is done"
            )
        whole = blake2b(digest_size=16)
        for id_ in sorted(self.seen):
            whole.update(f"{id_}\0{self.seen[id_]}\n".encode())
        self.dense_weight = measured_weight(self._store, self._embedder)
        done = replace(self._identity, digest=whole.hexdigest(), dense_weight=self.dense_weight)
        self._store.mark(complete=True, identity=done.to_json())
        return len(stale)

    def _begin(self) -> None:
        """Before each write: from the first on the collection is not complete."""
        self._whole = False
        if self._marked is None or time.monotonic() - self._marked >= _MARKED:
            self._store.mark(complete=False, identity=self._identity.to_json())
            self._marked = time.monotonic()

    def leave_incomplete(self) -> None:
        """After a failure: what somebody else has marked in the meantime is not whole, either."""
        if self._marked is not None:
            with suppress(StoreError):
                self._store.mark(complete=False)


def _embedded_text(chunk: Chunk) -> str:
    """What the embedder reads: the title says what a passage from the middle is about."""
    title = chunk.metadata.get("title")
    is_told = isinstance(title, str) and title.strip() and not chunk.text.startswith(title)
    return readable_text(f"{title}\n{chunk.text}" if is_told else chunk.text)


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
    converted(place, WordsPlace, "words")
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
    chunks = (chunk for document in documents for chunk in document_chunks(document, chunker))
    lengths = [len(measured.tokens(chunk)) for chunk in chunks]
    return replace(measured, average=sum(lengths) / len(lengths) if lengths else 0.0)
