"""What a pipeline searches: documents, how they are cut into chunks, and where these are kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, cast

from ragbench.core.chunk import Chunk, Document, origin_of
from ragbench.core.record import Record, field
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.settings import FilePath
from ragbench.plugins import Registry
from ragbench.search.embedders.embedder import Embedder
from ragbench.search.stores.mapping import FieldMapping
from ragbench.text.token_counter import APPROXIMATE, TokenCounter


class Piece(Record):
    """A stretch of a document's text that becomes a chunk."""

    start: int
    """Offset of its first character."""
    end: int
    """Offset behind its last character."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the chunk's metadata get besides the document's, such as the headings above it."""


class Chunker(Protocol):
    """Cuts texts into pieces that are worth finding by themselves."""

    @property
    def identity(self) -> Mapping[str, object]:
        """All that the chunker's cuts depend on, as JSON.

        An indexing compares this identity with the one that the collection holds: where they
        differ, the collection's chunks are out of date.
        """
        ...

    def pieces(self, document: Document) -> Sequence[Piece]:
        """The pieces of a document in reading order, each to become a chunk.

        Each begins and ends with a character that is not white space; together they hold every such
        character of the text. Neighbours overlap only where the chunker's settings ask for it.
        """
        ...


def document_chunks(document: Document, chunker: Chunker) -> list[Chunk]:
    """The chunks of a document, each an exact slice of its text, with the document's metadata.

    An id is made of the document's id, the number of the piece and a digest of its text: the same
    document always gives the same ids, and a changed passage gets a new one. A document that stays
    whole keeps its own id. Stored collections and labels hold the ids: another form would lose
    them. The title becomes ``metadata["title"]``.
    """
    pieces = chunker.pieces(document)
    shared = dict(document.metadata)
    if document.title:
        # A title among the user's own metadata comes before that of the document.
        shared.setdefault("title", document.title)
    chunks: list[Chunk] = []
    for number, piece in enumerate(pieces):
        text = document.text[piece.start : piece.end]
        id_ = document.id  # of a document that stays whole
        if len(pieces) > 1:
            id_ = f"{document.id}#{number}-{_short_digest(text)}"
        chunk = Chunk(
            id=id_,
            text=text,
            document_id=document.id,
            start=piece.start,
            end=piece.end,
            metadata={**shared, **piece.metadata},
        )
        chunks.append(chunk)
    return chunks


def _short_digest(text: str) -> str:
    """Ten hex digits of a digest of a chunk's text.

    A part of its id, so that a changed text gets another. The ids are stored with chunks and
    labels, so the digits cannot change.
    """
    # Few digits suffice: the number in the id tells the pieces of a document apart.
    data = text.encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=5).hexdigest()


_LEAST = 8
"""Tokens of a chunk: with fewer, a chunk says nothing by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkSize:
    """How long chunks may be, in tokens, and what counts these."""

    tokens: int = 256
    """The most tokens that a chunk has, at least 8."""
    overlap: int = 0
    """About how many tokens a chunk repeats from the one before it; less than half of `tokens`."""
    counter: TokenCounter = APPROXIMATE
    """What counts tokens."""

    def __post_init__(self) -> None:
        """Refuses limits by which a text cannot be cut: too few tokens, or too great an overlap.

        An overlap of half a chunk or more would hardly move on in the text.
        """
        if self.tokens < _LEAST:
            raise ConfigError(f"a chunk has at least {_LEAST} tokens, not {self.tokens}")
        # Strictly below half: at half, each chunk would repeat as much as it adds.
        if not 0 <= self.overlap * 2 < self.tokens:
            raise ConfigError(
                f"the overlap must be at least 0 and less than half of {self.tokens} tokens, "
                f"not {self.overlap}"
            )

    @property
    def identity(self) -> dict[str, object]:
        """The limits of a chunker as a part of its identity, by which stale indexes are known.

        Other limits cut other chunks.
        """
        return {"tokens": self.tokens, "overlap": self.overlap, "counter": self.counter.name}

    def less(self, tokens: int) -> ChunkSize:
        """The same limits with room for fewer tokens, which a heading before the text takes.

        The overlap shrinks where it must, to stay below half of the room. The joined chunk then
        stays within the limit.

        Args:
            tokens: those that the heading takes.
        """
        room = max(self.tokens - tokens, _LEAST)
        # Below half of the room, not at it: `ChunkSize` refuses a half.
        largest_overlap = (room - 1) // 2
        return replace(self, tokens=room, overlap=min(self.overlap, largest_overlap))


CHUNKERS = Registry(kind="chunkers")
"""The chunkers by name; other packages add theirs by entry points."""


def make_chunker(name: str = "auto", size: ChunkSize | None = None) -> Chunker:
    """The chunker of a registered name, such as ``auto``; ``whole`` takes no size.

    Commands and pipeline files name chunkers so; other packages register theirs by entry points.

    Args:
        size: the limits of a chunk; None for the usual ones.
    """
    make = CHUNKERS.load(name)
    # The only one without a limit, and so without the argument.
    if name == "whole":
        return cast("Chunker", make())
    if size is None:
        size = ChunkSize()
    return cast("Chunker", make(size=size))


WordsPlace: TypeAlias = Literal["here", "store"]
"""Who ranks by words: ragbench, from an index that it builds of all chunks; or the store."""


def whole_documents(documents: Iterable[Document]) -> list[Chunk]:
    """Each document as one chunk of the same id; its title goes into the metadata.

    For searches of whole documents, where no chunker is named.

    Raises:
        DataError: two documents have one id: a result could not say which one it means.
    """
    chunks: dict[str, Chunk] = {}
    for document in documents:
        if document.id in chunks:
            problem = f"two documents have the id '{document.id}'; give each its own"
            raise DataError([Problem(message=problem, field="id")])
        metadata = dict(document.metadata)
        # The document's own title comes before one among its metadata.
        if document.title is not None:
            metadata["title"] = document.title
        chunks[document.id] = Chunk(
            id=document.id,
            text=document.text,
            document_id=document.id,
            start=0,
            end=len(document.text),
            metadata=metadata,
        )
    return list(chunks.values())


def with_origin(chunk: Chunk) -> Chunk:
    """The chunk with its document's id and its offsets there in the metadata, where they are known.

    Results carry metadata only, and an evaluation compares the chunk with the gold by them, however
    documents were cut. Values that the metadata already hold under these names stay.
    """
    return replace(chunk, metadata={**origin_of(chunk), **chunk.metadata})


@dataclass(slots=True)
class Documents:
    """The documents of a corpus, or of a dataset that a command was given."""

    source: Path | None = None
    """A file or folder in any of the formats that ragbench reads."""
    load: Callable[[], Iterable[Document]] | None = None
    """Reads them when no source is named."""
    loaded: Sequence[Document] | None = dataclasses.field(default=None, init=False)
    """All documents, once they are read; None as long as no stage needs them."""

    def read(self) -> Sequence[Document]:
        """All documents; the corpus is read once, by the first stage that needs it.

        The file's corpus takes precedence over the documents of the dataset.

        Raises:
            DataError: the corpus has problems.
            ConfigError: neither names documents.
        """
        # Only where a corpus is read: the readers of all formats take time to import.
        from ragbench.io.read import read_documents

        if self.loaded is not None:
            return self.loaded
        if self.source is not None:
            self.loaded = list(read_documents(self.source))
        elif self.load is not None:
            self.loaded = list(self.load())
        else:
            raise ConfigError("no documents: name them under indexing, 'corpus: PATH'")
        return self.loaded


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexingSettings:
    """The settings as they stand in the file; see docs/pipeline.md."""

    corpus: FilePath | None = None
    """A file or folder with documents, relative to the pipeline's file. None takes those of the
    dataset that is evaluated."""
    chunker: str | Mapping[str, Any] | None = None
    """How documents are cut: a name, or ``name`` with ``tokens``, ``overlap``, ``counter``."""
    embedder: str | Mapping[str, Any] | None = "multilingual"
    """What makes vectors: a name, or ``name`` with the embedder's settings. When it is left out,
    that of the collection; of a new one ``english`` where the documents are in English. For sparse
    retrieval from a store in memory nothing does unless one is named; from another store where it
    is null."""
    store: str = "memory:"
    """Address of the store; in memory by default, and gone with the process."""
    collection: str | None = None
    """Name of the collection in the store; that of the corpus by default."""
    words: WordsPlace | None = None
    """Who ranks a new collection by words: ``here`` ragbench, from an index that it builds of all
    chunks, the default; ``store`` the store (Qdrant), for very large ones."""
    map: FieldMapping | None = None
    """What is where in the rows of a collection that ragbench did not fill and only reads."""


class Indexing(Record):
    """Which documents are searched, how they are cut and embedded, and where chunks are kept."""

    settings: IndexingSettings = IndexingSettings()
    """As the file has them."""
    chunker: Chunker | None = None
    """None leaves it to the retrieval."""
    embedder: Embedder | None = None
    embedder_name: str = ""
    """What opens the embedder again."""
    names_embedder: bool = True
    """False leaves it to the collection, or the language of the documents."""
    embedder_settings: Mapping[str, Any] | None = None
