"""Which chunks of several lists are the same one.

A chunk is its id with its text. Many systems log the id of the document in place of a chunk's own:
two chunks of it share an id and are not the same. Where one of two mentions lacks the text or the
id, the part that both have decides.

The searches of a trace and its rerankers are brought together here, so that a chunk has one name
in all of them. So are the chunks of one retrieval, as a dump or a caller has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
        """Begins without a chunk; a chunk's place is the number of distinct chunks before it.

        A chunk keeps its place for good: callers store places while more lists are added.
        """
        self._chunks: list[dict[str, Any]] = []
        """The chunks in the order of their places, completed with what later mentions know."""
        self._names: set[str] = set()
        """The ids that chunks go by, each in use once."""
        self._by_id: dict[str, list[int]] = {}
        """By each id, as the trace recorded it: the places of the chunks that came with this id."""
        self._by_text: dict[str, list[int]] = {}
        """By each text: the places of the chunks that have this text."""

    def add(self, documents: Iterable[Document]) -> list[dict[str, Any]]:
        """Adds the chunks of one list, and returns each chunk once, under the name that it goes by.

        The searches and rerankers of a trace are added one after the other: metrics can follow a
        chunk through them because its name is the same in all. The score of a returned chunk is
        that of this list: a reranker's differs from that of the search.
        """
        first_mentions: dict[int, Document] = {}
        for document in documents:
            place = self.place_of(document)
            first_mentions.setdefault(place, document)
        # Completed only after all were added, as a later mention may know more of a chunk.
        chunks: list[dict[str, Any]] = []
        for place, document in first_mentions.items():
            chunks.append(self._mention_with_chunk(place, document))
        return chunks

    def place_of(self, document: Document) -> int:
        """The place, from 0, of the chunk that a document mentions; a chunk seen first is added.

        A document is a mention of a chunk in some list: two mentions of a chunk have one place.
        """
        place = self._place_of_known_chunk(document)
        if place is None:
            return self._add_chunk(document)
        self._complete_chunk(place, document)
        return place

    def at(self, place: int) -> Document:
        """The chunk at a place, with its id, text and metadata as all mentions have it so far.

        Callers that look for chunks without an id do so once all mentions have been added.
        """
        return self._chunks[place]

    def call(self, place: int, id: str) -> None:
        """Gives the chunk at a place a name, where no mention had an id.

        Metrics compare chunks by their names, so each needs one. A name that another chunk has gets
        a number.
        """
        self._chunks[place]["id"] = self._unused_name(id)

    def _mention_with_chunk(self, place: int, document: Document) -> dict[str, Any]:
        """A mention of a chunk, under the chunk's name and with what other mentions know.

        The mention's own values count before those of the chunk: its score is that of its own list.
        Only the id is always the chunk's.
        """
        chunk = self._chunks[place]
        completed = {**chunk, **document}
        if "id" in chunk:
            completed["id"] = chunk["id"]
        return completed

    def _place_of_known_chunk(self, document: Document) -> int | None:
        """The place of the chunk that a document mentions; None if the document is a new chunk.

        Id and text decide together: systems often log the id of a whole document for each of its
        chunks. Where one of the two mentions lacks the id or the text, the other part alone
        decides.
        """
        text = document.get("text")
        if "id" in document:
            for place in self._by_id.get(str(document["id"]), ()):
                chunk_text = self._chunks[place].get("text")
                # Two chunks of a document share its id: their texts tell them apart.
                if chunk_text is None or text is None or chunk_text == text:
                    return place
        # No chunk is listed under an empty text.
        for place in self._by_text.get(text or "", ()):
            # Under two ids, equal texts are two chunks.
            if "id" not in document or "id" not in self._chunks[place]:
                return place
        return None

    def _add_chunk(self, document: Document) -> int:
        """Adds a new chunk, and returns its place.

        Later mentions of the chunk are recognised by its id and its text.
        """
        place = len(self._chunks)
        chunk = dict(document)
        self._chunks.append(chunk)
        # Replaces the recorded id by the name that the chunk goes by, perhaps with a number.
        if "id" in chunk:
            self._name_chunk(place, str(chunk["id"]))
        if chunk.get("text"):
            self._by_text.setdefault(chunk["text"], []).append(place)
        return place

    def _name_chunk(self, place: int, id: str) -> None:
        """Gives a chunk its id as a name, or ``id#2`` and so on where another chunk has it.

        The recorded id is kept beside the name, so that later mentions with that id find the chunk.
        """
        self._by_id.setdefault(id, []).append(place)
        self._chunks[place]["id"] = self._unused_name(id)

    def _unused_name(self, id: str) -> str:
        """The id, or else the first of ``id#2``, ``id#3`` that no chunk goes by; marked as in use.

        Metrics compare chunks by name: two chunks under one name would count as one. Reports show
        these names, and stored runs hold them.
        """
        name = id
        number = 2
        while name in self._names:
            name = f"{id}#{number}"
            number += 1
        self._names.add(name)
        return name

    def _complete_chunk(self, place: int, document: Document) -> None:
        """Adds to a chunk what a further mention knows of it; values that are known already stay.

        A search may log an id alone, and a reranker the text: together they are the whole chunk.
        """
        chunk = self._chunks[place]
        if "id" in document and "id" not in chunk:
            self._name_chunk(place, str(document["id"]))
        # Before the loop below, which fills the text in: a later mention may have the text alone.
        if chunk.get("text") is None and document.get("text"):
            self._by_text.setdefault(document["text"], []).append(place)
        for name, value in document.items():
            chunk.setdefault(name, value)


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
    """Gives each chunk of one retrieval a name of its own, and drops repeated mentions.

    Metrics compare chunks by id, and systems repeat ids or leave them out. The result says which
    chunks were renamed or repeated, so that a report can warn of it.

    Args:
        chunks: best first; the id of a chunk that has none is empty.
        ranks: the place of each chunk in the retrieval, from 1, where some were left out.
    """
    ids = [chunk.id.strip() for chunk in chunks]
    is_distinct = all(ids) and len(set(ids)) == len(ids)
    if is_distinct:  # their texts need not be compared
        return NamedChunks(
            chunks=tuple(map(_with_id, chunks, ids)),
            places=tuple(range(len(ids))),
        )

    # A number counts the chunks that were given, a place the distinct ones.
    distinct = DistinctChunks()
    places: list[int] = []
    first_number: dict[int, int] = {}
    id_by_place: dict[int, str] = {}
    repeated_by_id: list[int] = []
    repeated_by_text: list[int] = []
    for number, (chunk, id) in enumerate(zip(chunks, ids, strict=True)):
        place = distinct.place_of(_id_and_text(chunk, id))
        places.append(place)
        if id:
            id_by_place[place] = id
        if place not in first_number:
            first_number[place] = number
        elif id and ids[first_number[place]]:
            repeated_by_id.append(place)
        else:
            repeated_by_text.append(place)

    # Last, as a later mention may bring the id of a chunk that has none at first.
    unnamed_places = [place for place in first_number if "id" not in distinct.at(place)]
    for place in unnamed_places:
        number = first_number[place]
        rank = ranks[number] if ranks else number + 1
        distinct.call(place, f"#{rank}")

    # Places count up from 0 as they come, so that a chunk stands at its place in this list.
    named_chunks: list[Chunk] = []
    for place, number in first_number.items():
        named_chunks.append(_completed_chunk(chunks[number], distinct.at(place)))
    renamed_places = [
        place for place, id in sorted(id_by_place.items()) if named_chunks[place].id != id
    ]
    return NamedChunks(
        chunks=tuple(named_chunks),
        places=tuple(places),
        unnamed=_chunks_at(unnamed_places, named_chunks),
        renamed=_chunks_at(renamed_places, named_chunks),
        again=_chunks_at(repeated_by_id, named_chunks),
        same_text=_chunks_at(repeated_by_text, named_chunks),
    )


def _chunks_at(places: Iterable[int], named_chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """The named chunks at some places, from 0, for a report of those renamed or repeated.

    The places are those of the distinct chunks, in the order in which they were first mentioned.
    """
    return tuple(named_chunks[place] for place in places)


def _with_id(chunk: Chunk, id: str) -> Chunk:
    """A chunk under an id; the same object where the chunk has that id, as it mostly does.

    Of many thousand chunks nearly all keep their id, stripped of blanks: none is copied for
    nothing.
    """
    return chunk if chunk.id == id else replace(chunk, id=id)


def _id_and_text(chunk: Chunk, id: str) -> dict[str, Any]:
    """The id and the text of a chunk, by which `DistinctChunks` recognises a repeated mention.

    White space alone is no text, and is left out: two chunks without a text are not the same.
    """
    document: dict[str, Any] = {}
    if id:
        document["id"] = id
    if chunk.text.strip():
        document["text"] = chunk.text
    return document


def _completed_chunk(chunk: Chunk, document: Document) -> Chunk:
    """A chunk under its final name, with the text that a later mention of it may have brought.

    Args:
        document: the same chunk as `DistinctChunks` has it, with all that its mentions say.
    """
    return replace(chunk, id=document["id"], text=document.get("text", chunk.text))
