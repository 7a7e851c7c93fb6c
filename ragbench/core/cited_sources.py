"""The documents that an answer cites, by the names that records and systems give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

CITED_SOURCES = "cited_sources"
"""Key in an answer's metadata of the documents that the answer cites, as its record names them.
The key ``citations`` is another: it holds the system's own objects, which the metrics of citations
check."""
SOURCE_FIELDS = (
    "source",
    "document_id",
    "doc_id",
    "document",
    "file",
    "file_name",
    "filename",
    "file_path",
    "path",
    "url",
    "title",
)
"""Fields of a chunk's metadata, or of a citation, that name its document."""


def as_citations(value: object) -> tuple[str, ...]:
    """The names of the documents that an answer cites, each once, in their order.

    Systems write citations as texts, numbers, or objects with names; ``value`` is one or a list of
    them. A citation without a name is skipped: no case can expect it.
    """
    names: list[str] = []
    citations: Sequence[object] = [value]
    if isinstance(value, (list, tuple)):
        citations = cast("Sequence[object]", value)
    for citation in citations:
        names += citation_names(citation)
    return tuple(dict.fromkeys(names))


def citation_names(citation: object) -> Iterator[str]:
    """Every name that a citation gives its document or chunk; none for a citation of unknown form.

    All names are given, since a case may expect the document by any: its id, file or title.
    """
    names: list[object] = [citation]
    if isinstance(citation, Mapping):
        fields = cast("Mapping[str, object]", citation)
        names = [fields.get(field) for field in ("id", "chunk_id", "name", *SOURCE_FIELDS)]
    for name in names:
        is_number = type(name) is int  # and not a bool
        if is_number or (isinstance(name, str) and name.strip()):
            yield str(name).strip()
