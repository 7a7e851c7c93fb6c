"""Which chunks of several lists are the same one.

A chunk is its id with its text. Many systems log the id of the document in place of a chunk's own:
two chunks of it share an id and are not the same. Where one of two mentions lacks the text or the
id, the part that both have decides.

The searches of a trace and its rerankers are brought together here, so that a chunk has one name
in all of them. So are the chunks of one retrieval, as a dump or a caller has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from ragbench.core.chunk import Chunk
from ragbench.core.record import Record, replace

Document = Mapping[str, Any]
"""A chunk as a span records it: ``id``, ``text``, ``score``, ``metadata``, as far as known."""


class DistinctChunks:
    """The chunks of lists that are added one after the other, each chunk once.

    A chunk is known by its place, from 0: ids are not unique, and may come with a later mention.
    """

    def __init__(self) -> None:
        self._chunks: list[dict[str, Any]] = []
        self._names: set[str] = set()
        """The ids that chunks go by, each in use once."""
        self._by_id: dict[str, list[int]] = {}
        """Places of the chunks that were mentioned with an id, as it was recorded."""
        self._by_text: dict[str, list[int]] = {}

    def add(self, documents: Iterable[Document]) -> list[dict[str, Any]]:
        """Adds a list, and returns its chunks, each once, under the names that they go by.

        A score is the list's own: a reranker's differs from that of the search.
        """
        mentions: dict[int, Document] = {}
        for document in documents:
            mentions.setdefault(self.place_of(document), document)
        return [self._with_chunk(place, document) for place, document in mentions.items()]

    def place_of(self, document: Document) -> int:
        """The place, from 0, of the chunk that a document mentions; a new one is added."""
        place = self._find(document)
        if place is None:
            return self._append(document)
        self._complete(place, document)
        return place

    def at(self, place: int) -> Document:
        """The chunk at a place, with all that its mentions say of it so far."""
        return self._chunks[place]

    def call(self, place: int, id: str) -> None:
        """Names a chunk that has no id of its own."""
        self._chunks[place]["id"] = self._unused_name(id)

    def _with_chunk(self, place: int, document: Document) -> dict[str, Any]:
        """What a document says of a chunk, under the chunk's name and completed by it."""
        chunk = self._chunks[place]
        completed = {**chunk, **document}
        if "id" in chunk:
            completed["id"] = chunk["id"]
        return completed

    def _find(self, document: Document) -> int | None:
        """The place of the chunk that a document mentions; None if it is a new one."""
        text = document.get("text")
        if "id" in document:
            for place in self._by_id.get(str(document["id"]), ()):
                chunk_text = self._chunks[place].get("text")
                # Two chunks of a document share its id: their texts tell them apart.
                if chunk_text is None or text is None or chunk_text == text:
                    return place
        for place in self._by_text.get(text or "", ()):
            # Under two ids, equal texts are two chunks.
            if "id" not in document or "id" not in self._chunks[place]:
                return place
        return None

    def _append(self, document: Document) -> int:
        """Adds a new chunk, and returns its place."""
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
        self._chunks[place]["id"] = self._unused_name(id)

    def _unused_name(self, id: str) -> str:
        """The id, or else the first of ``id#2``, ``id#3`` that no chunk goes by; now in use."""
        name = id
        number = 2
        while name in self._names:
            name = f"{id}#{number}"
            number += 1
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
    return DistinctChunks().add(chain.from_iterable(lists))


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
    is_distinct = all(ids) and len(set(ids)) == len(ids)
    if is_distinct:  # their texts need not be compared
        stripped = [
            chunk if chunk.id == id else replace(chunk, id=id)
            for chunk, id in zip(chunks, ids, strict=True)
        ]
        return NamedChunks(chunks=tuple(stripped), places=tuple(range(len(ids))))

    # Numbers count the chunks given, places the distinct ones.
    distinct = DistinctChunks()
    places: list[int] = []
    first_mention: dict[int, int] = {}
    own_id: dict[int, str] = {}
    mentions_by_id: list[int] = []
    mentions_by_text: list[int] = []
    for number, (chunk, id) in enumerate(zip(chunks, ids, strict=True)):
        place = distinct.place_of(_document(chunk, id))
        places.append(place)
        if id:
            own_id[place] = id
        if place not in first_mention:
            first_mention[place] = number
        elif id and ids[first_mention[place]]:
            mentions_by_id.append(place)
        else:
            mentions_by_text.append(place)

    # Last, as a later mention may bring the id of a chunk that has none at first.
    unnamed_places = [place for place in first_mention if "id" not in distinct.at(place)]
    for place in unnamed_places:
        number = first_mention[place]
        rank = ranks[number] if ranks else number + 1
        distinct.call(place, f"#{rank}")

    named = [
        _completed(chunks[number], distinct.at(place)) for place, number in first_mention.items()
    ]
    renamed_places = [place for place, id in sorted(own_id.items()) if named[place].id != id]
    return NamedChunks(
        chunks=tuple(named),
        places=tuple(places),
        unnamed=tuple(named[place] for place in unnamed_places),
        renamed=tuple(named[place] for place in renamed_places),
        again=tuple(named[place] for place in mentions_by_id),
        same_text=tuple(named[place] for place in mentions_by_text),
    )


def _document(chunk: Chunk, id: str) -> dict[str, Any]:
    """The id and the text of a chunk, as far as it has them: white space alone is no text."""
    document: dict[str, Any] = {}
    if id:
        document["id"] = id
    if chunk.text.strip():
        document["text"] = chunk.text
    return document


def _completed(chunk: Chunk, document: Document) -> Chunk:
    """A chunk under its name, with the text that a later mention of it has."""
    return replace(chunk, id=document["id"], text=document.get("text", chunk.text))
