"""The documents that an answer cites, by the names that records and systems give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

CITED_SOURCES = "cited_sources"
"""Under which name an answer's metadata holds the documents that a record has it cite. It differs
from ``citations``, which are a system's own: those the metrics of citations check."""
SOURCE_FIELDS = (
    "source", "document_id", "doc_id", "document", "file", "file_name", "filename", "file_path",
    "path", "url", "title",
)  # fmt: skip
"""Fields of a chunk's metadata, or of a citation, that name its document."""


def as_citations(value: object) -> tuple[str, ...]:
    """The names of the documents that an answer cites: texts, numbers, or objects with names.

    What has no name is skipped: it names no document that a case could expect.
    """
    names: list[str] = []
    citations: Sequence[object] = [value]
    if isinstance(value, (list, tuple)):
        citations = cast("Sequence[object]", value)
    for citation in citations:
        names += citation_names(citation)
    return tuple(dict.fromkeys(names))


def citation_names(citation: object) -> Iterator[str]:
    """Every name of the document or chunk that a citation has; none for an unknown form."""
    names: list[object] = [citation]
    if isinstance(citation, Mapping):
        fields = cast("Mapping[str, object]", citation)
        names = [fields.get(field) for field in ("id", "chunk_id", "name", *SOURCE_FIELDS)]
    for name in names:
        if type(name) is int or (isinstance(name, str) and name.strip()):
            yield str(name).strip()
