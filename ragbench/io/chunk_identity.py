"""Which chunks of several lists are the same one.

A chunk is its id with its text. Many systems log the id of the document in place of a chunk's own:
two chunks of it share an id and are not the same. Where one of two mentions lacks the text or the
id, the part that both have decides.

The searches of a trace and its rerankers are brought together here, so that a chunk has one name
in all of them. So are the chunks of one retrieval, as a dump or a caller has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from ragbench.core.chunk import Chunk
from ragbench.core.record import Record, replace

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
            mentions.setdefault(self.place_of(document), document)
        return [self._named(place, document) for place, document in mentions.items()]

    def place_of(self, document: Document) -> int:
        """The place, from 0, of the chunk that a document mentions; a new one is added."""
        place = self._find(document)
        if place is None:
            return self._append(document)
        self._complete(place, document)
        return place

    def at(self, place: int) -> Document:
        """What is known of a chunk."""
        return self._chunks[place]

    def call(self, place: int, id: str) -> None:
        """Names a chunk that has no id of its own."""
        self._chunks[place]["id"] = self._free(id)

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
        self._chunks[place]["id"] = self._free(id)

    def _free(self, id: str) -> str:
        name = id
        if name in self._names:
            name = next(f"{id}#{n}" for n in count(2) if f"{id}#{n}" not in self._names)
        self._names.add(name)
        return name

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


class NamedChunks(Record):
    """The chunks of one retrieval, each once and under a name of its own."""

    chunks: tuple[Chunk, ...]
    places: tuple[int, ...]
    """Of each chunk that was given: which of ``chunks`` it is, from 0."""
    unnamed: tuple[Chunk, ...] = ()
    """Those without an id, which are called by their place, such as ``#3``."""
    renamed: tuple[Chunk, ...] = ()
    """Those with the id of an earlier chunk and another text, which are called ``id#2``."""
    again: tuple[Chunk, ...] = ()
    """Further mentions of a chunk by its id."""
    same_text: tuple[Chunk, ...] = ()
    """Further mentions of a chunk by its text alone, where one of the two has no id."""


def name_chunks(chunks: Sequence[Chunk], ranks: Sequence[int] = ()) -> NamedChunks:
    """Names the chunks of a retrieval.

    Args:
        chunks: best first; the id of one that has none is empty.
        ranks: the place of each in the retrieval, from 1, where some were left out.
    """
    ids = [chunk.id.strip() for chunk in chunks]
    if all(ids) and len(set(ids)) == len(ids):
        stripped = [
            chunk if chunk.id == id else replace(chunk, id=id)
            for chunk, id in zip(chunks, ids, strict=True)
        ]
        return NamedChunks(chunks=tuple(stripped), places=tuple(range(len(ids))))
    distinct = DistinctChunks()
    first: dict[int, int] = {}
    again: list[int] = []
    places: list[int] = []
    for number, (chunk, id) in enumerate(zip(chunks, ids, strict=True)):
        place = distinct.place_of(_document(chunk, id))
        places.append(place)
        if first.setdefault(place, number) != number:
            again.append(number)
    numbers = ranks or range(1, len(chunks) + 1)
    unnamed = [place for place in first if "id" not in distinct.at(place)]
    for place in unnamed:
        distinct.call(place, f"#{numbers[first[place]]}")
    named = [_completed(chunks[number], distinct.at(place)) for place, number in first.items()]
    own_ids = {place: ids[number] for number, place in enumerate(places) if ids[number]}
    renamed = [place for place, id in own_ids.items() if named[place].id != id]
    by_id = [number for number in again if ids[number] and ids[first[places[number]]]]
    by_text = [number for number in again if number not in by_id]
    return NamedChunks(
        chunks=tuple(named),
        places=tuple(places),
        unnamed=tuple(named[place] for place in unnamed),
        renamed=tuple(named[place] for place in sorted(renamed)),
        again=tuple(named[places[number]] for number in by_id),
        same_text=tuple(named[places[number]] for number in by_text),
    )


def _document(chunk: Chunk, id: str) -> dict[str, Any]:
    """What is known of a chunk: an empty text is none, nor is one of white space."""
    known: dict[str, Any] = {}
    if id:
        known["id"] = id
    if chunk.text.strip():
        known["text"] = chunk.text
    return known


def _completed(chunk: Chunk, known: Document) -> Chunk:
    """A chunk under its name, with the text that a later mention of it has."""
    return replace(chunk, id=known["id"], text=known.get("text", chunk.text))
