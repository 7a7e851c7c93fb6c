"""Documents to chunks to vectors to a store."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ragbench.core.chunk import Chunk, Document
from ragbench.embedders.cosine_scale import measure_calibration
from ragbench.embedders.embedder import (
    DEFAULT_EMBEDDER,
    Embedder,
    Windowed,
    open_embedder,
    too_long,
)
from ragbench.errors import ConfigError, warn
from ragbench.io.read import read_documents, skipped_files
from ragbench.pipeline.documents import Chunker, WordsPlace, document_chunks, make_chunker
from ragbench.pipeline.writing import Embedding, Writing, words_of
from ragbench.stores.base import IndexIdentity
from ragbench.stores.collection import OwnCollection
from ragbench.stores.database import Database
from ragbench.stores.registry import open_database
from ragbench.stores.words import WordsForm
from ragbench.stores.writers import sole_writer
from ragbench.text.language import guess_language
from ragbench.workers.engines import check_engine, opened_engine, thread_engine
from ragbench.workers.pool import Map, WorkerPool

if TYPE_CHECKING:
    from ragbench.embedders.embedder import Vectors

_BATCH = 128
_SAMPLED = 200
"""Chunks whose language is looked at."""


class IndexProgress(Protocol):
    """Called as an indexing proceeds."""

    def __call__(self, *, documents: int, chunks: int, unchanged: int) -> None:
        """So many more documents and chunks are through, of which so many were there before."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexResult:
    """What an indexing did."""

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
    skipped: tuple[str, ...] = ()
    """Files of a folder that are not read, for what they hold is not known."""
    cut_short: int = 0
    """Of the chunks written, those whose ends the embedder does not read, as far as is known."""


def index(
    source: str | Path | Iterable[Document],
    store: str,
    collection: str,
    *,
    embedder: str = DEFAULT_EMBEDDER,
    embedder_settings: Mapping[str, Any] | None = None,
    chunker: str | Chunker = "auto",
    format: str | None = None,
    encoding: str | None = None,
    fields: Mapping[str, str] | None = None,
    engine: str = "local",
    workers: int | None = None,
    words: WordsPlace | None = None,
    progress: IndexProgress | None = None,
    counted: Callable[[int], None] | None = None,
) -> IndexResult:
    """Cuts documents into chunks and stores them with their vectors, as ``ragbench index`` does.

    See `index_documents` for what is written when the collection is there already.

    Example:
        >>> index("docs/", "memory:reports/index", "handbook").chunks  # doctest: +SKIP
        128

    Args:
        source: a file or folder in any corpus format (see `ragbench.io.read.read_documents`), or
            documents; the whole corpus, each id once.
        store: address of the store, such as ``"memory:FOLDER"``; see `ragbench.stores.registry`.
        collection: its name; made where there is none.
        embedder: name of what makes the vectors; see `ragbench.embedders.embedder.open_embedder`.
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
    cutting = make_chunker(chunker) if isinstance(chunker, str) else chunker
    with ExitStack() as stack:
        opened = open_embedder(embedder, **(embedder_settings or {}))
        stack.callback(opened.close)
        database = open_database(store)
        stack.callback(database.close)
        pool = None
        if check_engine(engine) != "local" and not getattr(opened, "asks_endpoint", False):
            make = partial(_opened_passages, embedder, dict(embedder_settings or {}))
            where = stack.enter_context(opened_engine(engine, workers=workers))
            pool = stack.enter_context(WorkerPool(make, where, batch=1))
        if isinstance(source, str | Path):
            read = partial(read_documents, source, format=format, fields=fields, encoding=encoding)
        else:
            given = source if words is None or isinstance(source, Sequence) else list(source)
            read = partial(iter, given)
        form = None
        if isinstance(source, str | Path) or words is not None:
            # A file is read twice: once to find every problem and to count, before anything is
            # written, and once to index. Memory holds a document and a batch of chunks.
            counts = count()
            first = (document for document, _ in zip(read(), counts, strict=False))
            form = words_of(words, database, collection, first, cutting)
            deque(first, maxlen=0)  # what is not measured is looked through all the same
            if counted is not None and isinstance(source, str | Path):
                counted(next(counts))
        done = index_documents(
            read(),
            database,
            collection,
            embedder=opened,
            embedder_name=embedder,
            embedder_settings=embedder_settings,
            chunker=cutting,
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
    cut = _Cutting(documents, chunker)
    stream = iter(cut)
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
        unread = partial(too_long, embedder)
        writing = Writing(store=store, pool=pool or here, chunker=chunker, unread=unread)
        reported, every = 0, chain(head, stream)
        batches = iter(lambda: list(islice(every, _BATCH)), [])
        try:
            for chunks, unchanged in writing.write(batches):
                if progress is not None:
                    progress(documents=cut.documents - reported, chunks=chunks, unchanged=unchanged)
                    reported = cut.documents
            removed = writing.finish()
        except BaseException:
            writing.lease.give_back()
            raise
    _warn_of_cut(writing, embedder, embedder_name)
    return IndexResult(
        collection=collection,
        documents=cut.documents,
        empty=cut.empty,
        chunks=len(writing.seen),
        written=writing.written,
        unchanged=len(writing.seen) - writing.written,
        removed=removed,
        continued=writing.continued,
        store=database.address,
        cut_short=writing.cut_short,
    )


def _warn_of_cut(writing: Writing, embedder: Embedder, name: str) -> None:
    """Says that vectors are of the beginnings of chunks."""
    if not writing.cut_short or not isinstance(embedder, Windowed):
        return
    warn(
        f"{writing.cut_short:,} of the {writing.written:,} chunks that were embedded are longer "
        f"than the {embedder.window:,} tokens that {name} reads: their ends are in no vector. Cut "
        "smaller chunks (--chunk-size), or search by words as well (hybrid): those read all of it"
    )


def _passages(embedder: Embedder) -> Map[Sequence[str], Vectors]:
    return lambda batches: [embedder.embed_passages(texts) for texts in batches]


def _opened_passages(name: str, settings: Mapping[str, Any]) -> Map[Sequence[str], Vectors]:
    return _passages(open_embedder(name, **settings))


class _Cutting:
    """The chunks of documents, one after another, and what was noticed on the way."""

    def __init__(self, documents: Iterable[Document], chunker: Chunker) -> None:
        self._source = documents
        self._chunker = chunker
        self._ids: set[str] = set()
        self.empty = 0

    @property
    def documents(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Chunk]:
        for document in self._source:
            if document.id in self._ids:
                raise ConfigError(f"two documents have the id '{document.id}'")
            self._ids.add(document.id)
            chunks = document_chunks(document, self._chunker)
            self.empty += not chunks
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
        try:
            _check_fit(store, identity)
        except BaseException:
            store.close()
            raise
        return store
    calibration = measure_calibration(embedder, _languages(head))
    made = replace(identity, calibration=calibration.to_json())
    settings: dict[str, Any] = {"dimension": embedder.dimension, "identity": made.to_json()}
    if words is not None:  # which stores of other packages need not know
        settings["words"] = words
    return database.create(collection, **settings)


def _check_fit(store: OwnCollection, identity: IndexIdentity) -> None:
    info = store.info()
    known = IndexIdentity.from_json(info.identity, collection=info.name)
    if dict(known.embedder) != dict(identity.embedder):
        raise ConfigError(
            f"the collection '{info.name}' was built with another embedder "
            f"({_named(known)}, {info.dimension} dimensions) than {_named(identity)}. Use that "
            "one, or index under another name"
        )


def _named(identity: IndexIdentity) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in identity.embedder_settings.items())
    return f"{identity.embedder_name} with {settings}" if settings else identity.embedder_name


def _languages(chunks: Sequence[Chunk]) -> list[str]:
    counts = Counter(guess_language(chunk.text[:1000]) for chunk in chunks)
    return sorted(language for language, count in counts.items() if count * 10 >= len(chunks))
