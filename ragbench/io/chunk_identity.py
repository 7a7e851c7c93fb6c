"""Which chunks of several lists are the same one.

A chunk is its id with its text. Many systems log the id of the document in place of a chunk's own:
two chunks of it share an id and are not the same. Where one of two mentions lacks the text or the
id, the part that both have decides.

The searches of a trace and its rerankers are brought together here, so that a chunk has one name
in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

Document = Mapping[str, Any]
"""A chunk as a span records it: ``id``, ``text``, ``score``, ``metadata``, as far as known."""


class DistinctChunks:
    """The chunks of lists that are added one after the other, each chunk once."""

    def __init__(self) -> None:
        self._chunks: list[dict[str, Any]] = []
        self._names: set[str] = set()
        self._by_id: dict[str, list[int]] = {}
        self._by_text: dict[str, list[int]] = {}

    def add(self, documents: Iterable[Document]) -> list[dict[str, Any]]:
        """Adds a list, and returns its chunks, each once, under the names that they go by.

        A score is the list's own: a reranker's differs from that of the search.
        """
        mentions: dict[int, Document] = {}
        for document in documents:
            place = self._find(document)
            if place is None:
                place = self._append(document)
            else:
                self._complete(place, document)
            mentions.setdefault(place, document)
        return [self._named(place, document) for place, document in mentions.items()]

    def _named(self, place: int, document: Document) -> dict[str, Any]:
        chunk = self._chunks[place]
        named = {**chunk, **document}
        if "id" in chunk:
            named["id"] = chunk["id"]
        return named

    def _find(self, document: Document) -> int | None:
        """The place of the chunk that a document mentions; None if it is a new one."""
        text = document.get("text")
        if "id" in document:
            for place in self._by_id.get(str(document["id"]), ()):
                known = self._chunks[place].get("text")
                if known is None or text is None or known == text:
                    return place
        for place in self._by_text.get(text or "", ()):
            if "id" not in document or "id" not in self._chunks[place]:
                return place
        return None

    def _append(self, document: Document) -> int:
        place = len(self._chunks)
        chunk = dict(document)
        self._chunks.append(chunk)
        if "id" in chunk:
            self._name(place, str(chunk["id"]))
        if chunk.get("text"):
            self._by_text.setdefault(chunk["text"], []).append(place)
        return place

    def _name(self, place: int, id: str) -> None:
        """Gives a chunk its id, or ``id#2`` and so on where another chunk has that id."""
        self._by_id.setdefault(id, []).append(place)
        name = id
        if name in self._names:
            name = next(f"{id}#{n}" for n in count(2) if f"{id}#{n}" not in self._names)
        self._names.add(name)
        self._chunks[place]["id"] = name

    def _complete(self, place: int, document: Document) -> None:
        """Takes over what a further mention of a chunk knows of it."""
        chunk = self._chunks[place]
        if "id" in document and "id" not in chunk:
            self._name(place, str(document["id"]))
        if chunk.get("text") is None and document.get("text"):
            self._by_text.setdefault(document["text"], []).append(place)
        for name, value in document.items():
            chunk.setdefault(name, value)


def union(lists: Sequence[Sequence[Document]]) -> list[dict[str, Any]]:
    """The chunks of several lists, each once, in the order in which they are first mentioned."""
    chunks = DistinctChunks()
    return chunks.add(document for documents in lists for document in documents)
