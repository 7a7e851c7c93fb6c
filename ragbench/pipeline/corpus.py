"""The documents that a RAG searches: as chunks of one document each, and as a digest."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from ragbench.errors import DataError, Problem
from ragbench.records.corpus import Chunk, Document

__all__ = ["chunks_digest", "whole_documents"]


def whole_documents(documents: Iterable[Document]) -> list[Chunk]:
    """Each document as one chunk of the same id; its title goes into the metadata.

    Raises:
        DataError: several documents have the same id.
    """
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
