"""What a pipeline searches: documents, and how they are indexed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

from ragbench.core.chunk import Chunk, Document
from ragbench.embedders.embedder import Embedder
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.pipeline.chunking import Chunker
from ragbench.stores.mapping import FieldMapping

WordsPlace: TypeAlias = Literal["here", "store"]
"""Who ranks by words: ragbench, from an index that it builds of all chunks; or the store."""


def whole_documents(documents: Iterable[Document]) -> list[Chunk]:
    """Each document as one chunk of the same id; its title goes into the metadata."""
    chunks = [_to_chunk(document) for document in documents]
    counts = Counter(chunk.id for chunk in chunks)
    problems = [
        Problem(message=f"{count} documents have the id '{id_}'; give each its own", field="id")
        for id_, count in counts.items()
        if count > 1
    ]
    if problems:
        raise DataError(problems)
    return chunks


def with_origin(chunk: Chunk) -> Chunk:
    """The chunk with its document's id and its offsets there in the metadata, where they are known.

    So an evaluation compares it with the gold, however documents were cut. What the metadata say
    themselves under these names stays.
    """
    known = {"document_id": chunk.document_id, "start": chunk.start, "end": chunk.end}
    origin = {name: value for name, value in known.items() if value is not None}
    return replace(chunk, metadata={**origin, **chunk.metadata})


def chunks_digest(chunks: Sequence[Chunk]) -> str:
    """SHA-256 over chunks in their order: ids, texts and metadata."""
    digest = hashlib.sha256()
    for chunk in chunks:
        fields = [chunk.id, chunk.text, dict(chunk.metadata)]
        digest.update(
            orjson.dumps(
                fields,
                default=repr,
                option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS,
            )
        )
    return digest.hexdigest()


def _to_chunk(document: Document) -> Chunk:
    metadata: dict[str, Any] = dict(document.metadata)
    if document.title is not None:
        metadata["title"] = document.title
    return Chunk(
        id=document.id,
        text=document.text,
        document_id=document.id,
        start=0,
        end=len(document.text),
        metadata=metadata,
    )


@dataclass(slots=True)
class Documents:
    """The documents of a corpus, or of a dataset that a command was given."""

    source: Path | None = None
    """A file or folder in any of the formats that ragbench reads."""
    given: Callable[[], Iterable[Document]] | None = None
    """Where they come from when no source is named."""
    _read: Sequence[Document] | None = field(default=None, init=False)

    @property
    def known(self) -> Sequence[Document] | None:
        """All documents, if they were read already; None if nobody needed them."""
        return self._read

    def read(self) -> Sequence[Document]:
        if self._read is None:
            if self.source is not None:
                from ragbench.io.read import read_documents

                self._read = list(read_documents(self.source))
            elif self.given is not None:
                self._read = list(self.given())
            else:
                raise ConfigError(
                    "the pipeline has no documents: name them under indexing, 'corpus: PATH'"
                )
        return self._read


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexingSettings:
    """The settings as they stand in the file; see docs/pipeline.md."""

    corpus: str | None = None
    """A file or folder with documents, relative to the pipeline's file. None takes those of the
    dataset that is evaluated."""
    chunker: str | Mapping[str, Any] | None = None
    """How documents are cut: a name, or ``name`` with ``tokens``, ``overlap``, ``counter``."""
    embedder: str | Mapping[str, Any] | None = "multilingual"
    """What makes vectors: a name, or ``name`` with the embedder's settings. For sparse retrieval
    from a store in memory nothing does unless one is named; from another store where it is null."""
    store: str = "memory:"
    """Address of the store; in memory by default, and gone with the process."""
    collection: str | None = None
    """Name of the collection in the store; that of the corpus by default."""
    words: WordsPlace | None = None
    """Who ranks a new collection by words: ``here`` ragbench, from an index that it builds of all
    chunks, the default; ``store`` the store (Qdrant), for very large ones."""
    map: FieldMapping | None = None
    """What is where in the rows of a collection that ragbench did not fill and only reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexing:
    """Which documents are searched, how they are cut and embedded, and where chunks are kept."""

    corpus: str | None = None
    chunker: Chunker | None = None
    """None leaves it to the retrieval."""
    embedder: Embedder | None = None
    embedder_name: str = ""
    """What opens the embedder again."""
    embedder_settings: Mapping[str, Any] | None = None
    store: str = "memory:"
    collection: str | None = None
    words: WordsPlace | None = None
    mapping: FieldMapping | None = None
    """Of a collection that ragbench did not fill; None for its own."""

    @property
    def is_in_memory(self) -> bool:
        """Whether the store is this process's own, and gone with it."""
        return self.store == "memory:"
