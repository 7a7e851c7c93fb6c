"""A corpus on disk into a collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ragbench.data.read import read_documents
from ragbench.embedders.base import Embedder
from ragbench.indexing.index import IndexProgress, IndexResult, index_documents
from ragbench.indexing.pieces import Chunker
from ragbench.stores.base import Database

__all__ = ["index_corpus"]


def index_corpus(
    source: str | Path,
    database: Database,
    collection: str,
    *,
    embedder: Embedder,
    embedder_name: str,
    embedder_settings: Mapping[str, Any] | None = None,
    chunker: Chunker,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    progress: IndexProgress | None = None,
    counted: Callable[[int], None] | None = None,
) -> IndexResult:
    """Indexes a file or folder in any corpus format that ragbench reads.

    It is read twice: once to find every problem and to count, before anything is written, and once
    to index. Memory holds a document and a batch of chunks, and an id and a digest of every chunk.

    Args:
        source: see `ragbench.data.read.read_documents`; no standard input.
        database: see `index_documents`.
        collection: see `index_documents`.
        embedder: see `index_documents`.
        embedder_name: see `index_documents`.
        embedder_settings: see `index_documents`.
        chunker: see `index_documents`.
        format: name of the corpus's format; recognised when not given.
        fields: field of a document to field of the source.
        progress: see `index_documents`.
        counted: is told how many documents there are, once that is known.

    Raises:
        DataError: the corpus has problems; nothing was written.
        ConfigError: as for `index_documents`.
        StoreError: the store cannot be used.
        LLMError: the embedder's endpoint gives no vectors.
    """
    total = sum(1 for _ in read_documents(source, format=format, fields=fields))
    if counted is not None:
        counted(total)
    return index_documents(
        read_documents(source, format=format, fields=fields),
        database,
        collection,
        embedder=embedder,
        embedder_name=embedder_name,
        embedder_settings=embedder_settings,
        chunker=chunker,
        progress=progress,
    )
