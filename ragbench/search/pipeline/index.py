"""Documents to chunks to vectors to a store."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
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
)
from ragbench.search.pipeline.agreement import measured_weight
from ragbench.search.pipeline.documents import Chunker, WordsPlace, document_chunks, make_chunker
from ragbench.search.stores.base import IndexIdentity
from ragbench.search.stores.collection import OwnCollection
from ragbench.search.stores.database import Database, being_written, open_database, sole_writer
from ragbench.search.stores.record import WordsForm, check_words, encode
from ragbench.text.language import guess_language, recognised_language
from ragbench.text.letters import readable_text
from ragbench.workers.engines import check_engine, engine_here, opened_engine
from ragbench.workers.pool import Batch, Map, WorkerPool

Embedding = WorkerPool[Sequence[str], Floats32]
"""Gives the vectors of texts, a batch of them at a time."""
_BATCH = 128
"""Chunks that are embedded and stored together; memory holds a few such batches."""
_MARKED_EVERY = 20.0
"""Seconds after which a collection that is written to is marked again: some stores write to the
disk only then, so an indexing that is killed loses no more than the chunks of so many seconds."""
_SAMPLED = 200
"""Chunks, or documents, whose language is looked at."""
_BEGINNING = 1000
"""Characters of each by which its language is recognised."""


class IndexProgress(Protocol):
    """Called after each batch, such as by a progress bar."""

    def __call__(self, *, documents: int, chunks: int, unchanged: int) -> None:
        """Reports that so many more documents and chunks are done, and how many were unchanged.

        A progress bar adds these numbers up, batch by batch.
        """
        ...


ENGLISH_EMBEDDER = "english"
_ENGLISH_SHARE = 2 / 3
"""Share of English documents from which on their static vectors are taken: of the bundled corpus,
15 % of it Chinese and German, they rank as well as a model of both that takes fifty times as long
(docs/measured/retrieval.md); words find the rest."""


def default_embedder(
    database: Database, collection: str, read: Callable[[], Iterable[Document]]
) -> tuple[str, Mapping[str, Any]]:
    """The name and settings of the embedder for a collection, where the user names none.

    For a collection that is there it is the one that the collection was built with, as vectors of
    two embedders do not compare; for a new collection the documents' language decides: static
    vectors of English words are better there and cost a hundredth.

    Args:
        read: gives the documents; called for a new collection only.
    """
    # Before the documents are read: an existing collection decides by itself.
    if collection in database.collections():
        with database.open(collection) as store:
            identity = store.info().made_by
        return identity.embedder_name, identity.embedder_settings
    sample = [document.text for document in islice(read(), _SAMPLED)]
    if are_english(sample):
        return ENGLISH_EMBEDDER, {}
    return DEFAULT_EMBEDDER, {}


def are_english(texts: Sequence[str]) -> bool:
    """Whether most texts are in English, so that static vectors of English words serve them.

    A few documents in other languages do no harm (`_ENGLISH_SHARE`): words find them.

    Args:
        texts: a sample of the documents; only their beginnings are looked at.
    """
    beginnings = [text[:_BEGINNING] for text in texts if text.strip()]
    if not beginnings:
        return False
    english = sum(recognised_language(text) == "en" for text in beginnings)
    return english >= _ENGLISH_SHARE * len(beginnings)


class IndexResult(Record):
    """The outcome of an indexing, in counts of documents and chunks."""

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
    if isinstance(chunker, str):
        chunker = make_chunker(chunker)
    read: Callable[[], Iterable[Document]]
    if isinstance(source, str | Path):
        read = partial(read_documents, source, format=format, fields=fields, encoding=encoding)
    else:
        documents = source
        # The documents' language or words are looked at first, and then they are indexed: documents
        # that can be iterated over only once are kept in a list.
        is_read_twice = words is not None or embedder is None
        if is_read_twice and not isinstance(source, Sequence):
            documents = list(source)
        read = partial(iter, documents)
    with ExitStack() as stack:
        database = stack.enter_context(closing(open_database(store)))
        if embedder is None and not embedder_settings:
            embedder, embedder_settings = default_embedder(database, collection, read)
        embedder = embedder or DEFAULT_EMBEDDER
        opened = stack.enter_context(closing(open_embedder(embedder, **embedder_settings or {})))
        pool = None
        # An endpoint has one rate limit for all: workers would not make its answers come sooner.
        if check_engine(engine) != "local" and not getattr(opened, "asks_endpoint", False):
            # Workers open the embedder by its name, as a loaded model cannot be sent to them.
            make = partial(_passage_embedding, embedder, embedder_settings)
            workers_engine = stack.enter_context(opened_engine(engine, workers=workers))
            # One item of this pool is all texts of a batch already.
            pool = stack.enter_context(WorkerPool(make, workers_engine, batch=1))
        form = None
        if isinstance(source, str | Path) or words is not None:
            # A file is read twice: once to find every problem and to count, before anything is
            # written, and once to index. Memory holds a document and a batch of chunks.
            reading = _CountedReading(read())
            form = words_of(words, database, collection, reading, chunker)
            # What `words_of` did not read is read as well, to find problems and to count.
            deque(reading, maxlen=0)
            counted(reading.count)
        result = index_documents(
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
        return replace(result, skipped=tuple(skipped_files(source, format=format)))
    return result


class _CountedReading(Iterator[Document]):
    """Documents, and how many were read so far."""

    def __init__(self, documents: Iterable[Document]) -> None:
        """Wraps documents that are to be counted as they are read; none is read yet.

        A file is read once to count, before anything is written.
        """
        self._documents = iter(documents)
        self.count = 0
        """How many documents were read so far."""

    def __next__(self) -> Document:
        """The next document, counted: progress and reports show how many the corpus has.

        Reading goes on one by one, as a corpus may not fit into memory.
        """
        document = next(self._documents)
        self.count += 1
        return document


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
    """Makes a collection hold exactly the chunks of these documents, and returns the counts.

    Unchanged chunks stay as they are and are not embedded again; changed ones are replaced, and
    chunks of no document are removed. From the first write to the last the collection is marked
    incomplete, so that an interrupted indexing is never taken for a whole one; the same call
    continues it.

    Args:
        pool: embeds in worker processes; None embeds here.
        words: how the store is to keep the chunks' words; None where it ranks by none.
        progress: called after each batch.
        patience: seconds to wait while another indexing writes to the same folder.

    Raises:
        ConfigError: no document has text, two share an id, or the collection has another embedder.
        StoreError: the store cannot be used, or another indexing writes to the collection.
    """
    counts = Counter[str]()
    chunks = _counted_chunks(documents, chunker, counts)
    # The first chunks are read now: a new collection is calibrated in their languages.
    sample = list(islice(chunks, _SAMPLED))
    if not sample:
        raise ConfigError("there is nothing to index: the corpus has no document with text")
    identity = IndexIdentity(
        embedder=embedder.identity,
        embedder_name=embedder_name,
        embedder_settings=embedder_settings or {},
        chunker=chunker.identity,
    )
    alone = sole_writer(database.folder, database.address, patience=patience)
    with (
        alone,
        _opened_collection(database, collection, embedder, identity, sample, words) as store,
    ):
        if pool is None:
            pool = WorkerPool(partial(_passage_embedding, embedder), engine_here())
        writing = _Writing(store, embedder, pool, chunker)
        # How many documents progress was called with; more are read ahead.
        reported = 0
        try:
            for batch_chunks, unchanged in writing.write(_chunk_batches(chain(sample, chunks))):
                if progress is not None:
                    new_documents = counts["documents"] - reported
                    progress(documents=new_documents, chunks=batch_chunks, unchanged=unchanged)
                    reported = counts["documents"]
            removed = writing.finish()
        except BaseException:  # an interruption by the user, too
            writing.leave_incomplete()
            raise
    return IndexResult(
        collection=collection,
        documents=counts["documents"],
        empty=counts["empty"],
        chunks=len(writing.seen),
        written=writing.written,
        unchanged=len(writing.seen) - writing.written,
        removed=removed,
        continued=writing.continued,
        store=database.address,
        embedder=embedder_name,
        dense_weight=writing.dense_weight,
    )


def _passage_embedding(
    embedder: Embedder | str, settings: Mapping[str, Any] | None = None
) -> Map[Sequence[str], Floats32]:
    """A function that embeds batches of passages, for a pool of workers.

    A pool calls the function with several batches at once.

    Args:
        embedder: an embedder, or its name: then it is opened in the process that calls this, as a
            loaded model cannot be sent to a worker.
        settings: of an embedder that is named.
    """
    if isinstance(embedder, str):
        embedder = open_embedder(embedder, **settings or {})
    embed = embedder.embed_passages
    return lambda batches: [embed(texts) for texts in batches]


def _counted_chunks(
    documents: Iterable[Document], chunker: Chunker, counts: Counter[str]
) -> Iterator[Chunk]:
    """The chunks of the documents, one after another, while documents and empty ones are counted.

    Progress and the result of an indexing show the numbers.

    Args:
        counts: ``documents`` and ``empty`` grow as documents are read.

    Raises:
        ConfigError: two documents have one id: their chunks would replace one another.
    """
    ids: set[str] = set()
    for document in documents:
        # Noticed while reading, as a corpus is not held in memory: batches may be stored by then.
        if document.id in ids:
            raise ConfigError(f"two documents have the id '{document.id}'")
        ids.add(document.id)
        chunks = document_chunks(document, chunker)
        counts["documents"] += 1
        if not chunks:
            counts["empty"] += 1
        yield from chunks


def _chunk_batches(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """The chunks in lists of `_BATCH`, read only as they are needed: memory holds a few lists.

    A batch is embedded and stored together.
    """
    iterator = iter(chunks)
    while batch := list(islice(iterator, _BATCH)):
        yield batch


def _opened_collection(
    database: Database,
    collection: str,
    embedder: Embedder,
    identity: IndexIdentity,
    sample: Sequence[Chunk],
    words: WordsForm | None,
) -> OwnCollection:
    """The collection that is to be filled.

    The one that is there, if its embedder fits, or a new one. Vectors of two embedders do not
    compare, so a collection never holds both.

    Args:
        identity: of the embedder and the chunker, stored with a new collection.
        sample: chunks in whose languages a new collection is calibrated.
        words: how a new collection keeps words for the store to rank; None for no words.

    Raises:
        ConfigError: the collection was built with another embedder.
        StoreError: another indexing has just made it.
    """
    if collection in database.collections():
        store = database.open(collection)
        info = store.info()
        if dict(info.made_by.embedder) == dict(identity.embedder):
            return store
        store.close()
        raise ConfigError(
            f"the collection '{info.name}' was built with another embedder "
            f"({_embedder_text(info.made_by)}, {info.dimension} dimensions) than "
            f"{_embedder_text(identity)}. Use that one, or index under another name"
        )
    languages = _common_languages(sample, embedder)
    calibration = measure_calibration(embedder, languages).to_json()
    settings: dict[str, Any] = {
        "dimension": embedder.dimension,
        "identity": replace(identity, calibration=calibration).to_json(),
    }
    if words is not None:  # which stores of other packages need not know
        settings["words"] = words
    try:
        return database.create(collection, **settings)
    except StoreError as error:
        # There was no such collection before: another program has made it in between.
        if collection in database.collections():
            raise being_written(database.address) from error
        raise


def _common_languages(sample: Sequence[Chunk], embedder: Embedder) -> list[str]:
    """The languages of a tenth of the chunks or more, among those that the embedder reads.

    The scale of cosines depends on the language, so a new collection is calibrated in these.
    """
    counts = Counter(guess_language(chunk.text[:_BEGINNING]) for chunk in sample)
    # An embedder that names no languages reads any.
    readable = getattr(embedder, "languages", ()) or tuple(counts)
    languages: list[str] = []
    for language in readable:
        if counts[language] * 10 >= len(sample):
            languages.append(language)
    return sorted(languages)


def _embedder_text(identity: IndexIdentity) -> str:
    """The name and settings of a collection's embedder, for an error about two that differ.

    The user opens the first one again by it.
    """
    if not identity.embedder_settings:
        return identity.embedder_name
    settings: list[str] = []
    for name, value in identity.embedder_settings.items():
        settings.append(f"{name}={value}")
    return f"{identity.embedder_name} with {', '.join(settings)}"


class _Writing:
    """Brings a collection to the state of a corpus, batch by batch."""

    def __init__(
        self, store: OwnCollection, embedder: Embedder, pool: Embedding, chunker: Chunker
    ) -> None:
        """Reads the digests of the chunks in the collection.

        Only new and changed ones are embedded. All others stay as they are, since embedding is what
        takes time and money.

        Args:
            store: the collection that is brought to the state of a corpus.
            pool: embeds texts, batches of them at a time.
            chunker: its identity is stored with the collection.
        """
        info = store.info()
        self._store = store
        self._embedder = embedder
        self._pool = pool
        # The identity has no digest until all chunks are stored: by the digest kept BM25 indexes
        # are named.
        self._identity = replace(info.made_by, chunker=chunker.identity, digest="")
        self._stored = store.digests()
        """The digests of the chunks that the collection held before this indexing, by id."""
        # Another chunker may give the very same chunks; its name is written all the same.
        # False from the first write on: then the collection is marked complete at the end.
        self._is_complete = info.complete and info.made_by.chunker == self._identity.chunker
        self._marked_at: float | None = None
        """When the collection was last marked incomplete; None before the first write."""
        self.dense_weight = info.made_by.dense_weight
        """The weight of vectors in hybrid searches: that which the last whole indexing measured,
        until `finish` measures it anew."""
        self.continued = not info.complete and bool(self._stored)
        """Whether an earlier indexing had not come to its end: this one goes on from there."""
        self.seen: dict[str, str] = {}
        """The digests of the corpus's chunks that this indexing has come to so far, by id."""
        self.written = 0
        """How many chunks this indexing has embedded and stored."""

    def write(self, batches: Iterable[Sequence[Chunk]]) -> Iterator[tuple[int, int]]:
        """Stores the new and changed chunks, in order, while the next batches are embedded.

        Gives for each batch how many chunks it has and how many were there, for progress reports.
        """
        waiting: deque[tuple[int, list[Chunk], Batch[Sequence[str], Floats32]]] = deque()
        for chunks in batches:
            new: list[Chunk] = []
            for chunk in chunks:
                digest = encode(chunk).digest
                # What the collection holds and is not seen in the end has left the corpus: see
                # `finish`.
                self.seen[chunk.id] = digest
                if self._stored.get(chunk.id) != digest:
                    new.append(chunk)
            texts = [_embedded_text(chunk) for chunk in new]
            # A batch without new chunks asks the pool for nothing, but keeps its place.
            batch = [texts] if new else []
            embedding = self._pool.begin(batch)
            waiting.append((len(chunks), new, embedding))
            if len(waiting) > self._pool.ahead:  # enough are being embedded: the oldest is stored
                yield self._store_new(*waiting.popleft())
        while waiting:
            yield self._store_new(*waiting.popleft())

    def _store_new(
        self, chunks: int, new: Sequence[Chunk], batch: Batch[Sequence[str], Floats32]
    ) -> tuple[int, int]:
        """Waits for the vectors of a batch's new chunks and stores both.

        Gives how many chunks the batch has, and how many of them were there already.

        Args:
            chunks: the number of the batch's chunks.
            new: those that the collection lacks.
            batch: their vectors, which a pool is making.
        """
        # At most one turn: the vectors of all new chunks, or nothing where none are new.
        for vectors in self._pool.take(batch):
            self._mark_incomplete()
            self._store.upsert(new, vectors)
            self.written += len(new)
        return chunks, chunks - len(new)

    def finish(self) -> int:
        """Removes chunks that left the corpus and marks the collection complete.

        Returns the number of removed chunks. The mark comes last, with the digest of the corpus and
        the measured weight of the vectors: a search takes a collection with the mark for whole.
        Without any change nothing is written.
        """
        stale = [id_ for id_ in self._stored if id_ not in self.seen]
        if stale:
            self._mark_incomplete()
            self._store.delete(stale)
        if self._is_complete:  # nothing was written
            return len(stale)
        self._mark_incomplete()
        self._check_stored()
        # By ids in order, so that the order of documents does not count.
        corpus = blake2b(digest_size=16)
        for id_ in sorted(self.seen):
            # In this form for good: other digests would make kept indexes and stored results stale.
            corpus.update(f"{id_}\0{self.seen[id_]}\n".encode())
        self.dense_weight = measured_weight(self._store, self._embedder)
        identity = replace(
            self._identity, digest=corpus.hexdigest(), dense_weight=self.dense_weight
        )
        self._store.mark(complete=True, identity=identity.to_json())
        return len(stale)

    def _check_stored(self) -> None:
        """Refuses to mark a collection complete that holds other chunks than were written.

        Only a second indexing at the same time, or another program, can be the cause.
        """
        stored = self._store.digests()
        if stored == self.seen:
            return
        # Changed chunks and foreign ones both count: neither were written by this indexing.
        different = sum(self.seen.get(id_) != digest for id_, digest in stored.items())
        missing = len(self.seen.keys() - stored.keys())
        raise StoreError(
            f"the collection '{self._store.name}' differs from the chunks written: "
            f"{missing:,} chunks are missing, {different:,} are other ones. Another program writes "
            "to it; run the same 'ragbench index' again when it is done"
        )

    def _mark_incomplete(self) -> None:
        """Marks the collection incomplete: half of a corpus must never be taken for all of it.

        Comes before each write, as any may be the last before the process is killed. The mark is
        repeated every `_MARKED_EVERY` seconds, since some stores bring earlier writes to the disk
        only with a mark.
        """
        self._is_complete = False
        now = time.monotonic()
        if self._marked_at is None or now - self._marked_at >= _MARKED_EVERY:
            self._store.mark(complete=False, identity=self._identity.to_json())
            # Taken again, as marking itself may take seconds.
            self._marked_at = time.monotonic()

    def leave_incomplete(self) -> None:
        """Marks the collection incomplete after a failed indexing, if anything was written.

        Another program may have marked it complete meanwhile.
        """
        if self._marked_at is not None:
            # The store may be what failed; that error is the one to report.
            with suppress(StoreError):
                self._store.mark(complete=False)


def _embedded_text(chunk: Chunk) -> str:
    """The text of a chunk that is embedded: under its title, which most passages do not repeat.

    A chunk that begins with its title gets it once. Stored vectors are of this text: with another
    one they would no longer fit new ones.
    """
    title = chunk.metadata.get("title")
    if isinstance(title, str) and title.strip() and not chunk.text.startswith(title):
        return readable_text(f"{title}\n{chunk.text}")
    return readable_text(chunk.text)


def words_of(
    place: WordsPlace | None,
    database: Database,
    collection: str,
    documents: Iterable[Document],
    chunker: Chunker,
) -> WordsForm | None:
    """How a collection is to keep words for its store to rank by; None where ragbench ranks.

    BM25 needs the average length of the chunks before the first one is stored: for a new collection
    all documents are cut once to measure it.

    Args:
        place: who ranks by words, as the user wants it; None leaves it as the collection was made.
        documents: those of a new collection; they are read only if their length is needed.

    Raises:
        ConfigError: the store cannot rank by words, or the collection was made for the other
            ranking.
    """
    if place is None:
        return None
    converted(place, WordsPlace, "words")  # only refuses other values
    by_store = place == "store"
    # The form's settings alone are needed here: the average length is measured below.
    form = WordsForm(average=0.0)
    if by_store:
        check_words(database, form)  # refuses a store that cannot rank by words
    if collection in database.collections():
        with database.open(collection) as store:
            stored_form = store.info().words
        if by_store != (stored_form is not None):
            ranked = "by ragbench" if stored_form is None else "by the store"
            raise ConfigError(
                f"the collection '{collection}' was made to be ranked {ranked} by words: leave "
                "--words out, or index the corpus under another name"
            )
        return stored_form
    if not by_store:
        return None
    lengths: list[int] = []
    for document in documents:
        for chunk in document_chunks(document, chunker):
            lengths.append(len(form.tokens(chunk)))
    if not lengths:
        # Nothing to index, which the indexing itself refuses.
        return form
    return replace(form, average=sum(lengths) / len(lengths))
