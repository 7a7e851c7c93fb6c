"""Records, or rows that belong together, to retrievals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from typing import cast

from ragbench.core.chunk import Chunk
from ragbench.core.cited_sources import SOURCE_FIELDS
from ragbench.core.record import Record
from ragbench.core.validation import DumpWarning, RetrievalDump, WarningKind
from ragbench.io.chunk_identity import NamedChunks, name_chunks
from ragbench.io.dumps.form import (
    MAPPABLE,
    OWN,
    AnyRow,
    DumpForm,
    DumpMapping,
    DumpRecord,
    Getter,
    Hits,
    ScoreKind,
    chunks_getter,
    getter,
    text_of,
)
from ragbench.io.dumps.forms import forms
from ragbench.io.fields import named
from ragbench.io.source import IdRegister, Problems
from ragbench.io.values import (
    ValueProblem,
    as_answers,
    as_id,
    as_label,
    as_score,
    describe,
    is_list,
    is_object,
)

_EXAMPLES = 5


class RawRetrieval(Record):
    record: AnyRow
    query: str | None
    query_id: str | None
    hits: Hits


@dataclass(slots=True)
class _Noted:
    """Ids of the chunks that something is wrong with, by what it is, and how the first one is."""

    found: dict[_Fault, tuple[str, list[str]]] = field(
        default_factory=dict["_Fault", "tuple[str, list[str]]"]
    )

    def add(self, fault: _Fault, id: str, detail: str = "") -> None:
        self.found.setdefault(fault, (detail, []))[1].append(id)

    def warnings(self) -> Iterator[DumpWarning]:
        for fault, (detail, ids) in self.found.items():
            kind, text = _WARNINGS[fault]
            number, have = ("1 chunk", "has") if len(ids) == 1 else (f"{len(ids)} chunks", "have")
            message = text.format(number=number, have=have, detail=detail)
            examples = tuple(ids[:_EXAMPLES])
            yield DumpWarning(kind=kind, message=message, count=len(ids), chunk_ids=examples)


class _Fault(Enum):
    MALFORMED = auto()
    NO_ID = auto()
    SHARED_ID = auto()
    AGAIN = auto()
    AGAIN_BY_TEXT = auto()
    NO_SCORE = auto()


_WARNINGS = {
    _Fault.MALFORMED: (WarningKind.MALFORMED_CHUNK, "{number} left out: {detail}"),
    _Fault.NO_ID: (
        WarningKind.MISSING_ID,
        "{number} {have} no id: the place in the list is used",
    ),
    _Fault.SHARED_ID: (
        WarningKind.DUPLICATE_ID,
        "{number} with an id that an earlier chunk has: renamed ({detail})",
    ),
    _Fault.AGAIN: (
        WarningKind.DUPLICATE_ID,
        "{number} given twice with the same id and text: counted once",
    ),
    _Fault.AGAIN_BY_TEXT: (
        WarningKind.DUPLICATE_TEXT,
        "{number} with the text of an earlier chunk and no other id: counted once",
    ),
    _Fault.NO_SCORE: (
        WarningKind.INVALID_SCORE,
        "{number} with a score that is not a finite number ({detail})",
    ),
}


@dataclass(slots=True)
class Decoder:
    mapping: DumpMapping
    form: DumpForm
    _find: dict[str, Getter] = field(init=False)
    _text_key: str = field(init=False)
    _labels: frozenset[str] = field(init=False)
    """What says which chunks are relevant, or what the answer is."""

    def __post_init__(self) -> None:
        known = self.mapping
        paths = {name: getattr(known, name) for name in MAPPABLE}
        self._find = {name: getter(path) for name, path in paths.items() if path}
        self._find["chunks"] = chunks_getter(known.chunks or "")
        self._find.setdefault("text", getter("text"))
        for name in MAPPABLE:
            self._find.setdefault(name, lambda _: None)
        names = named("retrieval")
        self._labels = frozenset((*names["answers"], *names["relevant_ids"]))
        # The text need not be kept twice when it stands in the metadata.
        parent, _, name = (known.text or "").rpartition(".")
        self._text_key = name if parent and parent == known.metadata else ""

    def raw(self, record: AnyRow) -> Iterator[RawRetrieval]:
        """The retrievals of a record that holds queries, or a response."""
        held = self._find["chunks"](record.values)
        lists: Sequence[Hits] | None = None
        if self.mapping.format == "ragbench" and is_list(held):
            lists = [held]
        elif (lists := self.form.unwrap(held)) is None:
            lists = [self._odd_hits(record.values, held)]
        for hits, (query, query_id) in zip(
            lists, self.keys(record.values, len(lists)), strict=True
        ):
            yield RawRetrieval(record=record, query=query, query_id=query_id, hits=hits)

    def _odd_hits(self, value: object, held: object) -> Hits:
        """The chunks of a record that stand in no form that is known."""
        where = self.mapping.chunks
        if is_list(held) and (where or not held):
            return held  # what is not a chunk in it is reported one by one
        if held is None and where:
            parent, _, name = where.rpartition(".")
            inner = getter(parent)(value)
            if is_object(inner) and name in inner:
                return ()  # they are there and null: nothing was retrieved
        if not is_object(value) and not is_list(value):
            raise ValueProblem(f"expected a JSON object, found {describe(value)}")
        if not where:
            raise ValueProblem(f"expected a response in the form '{self.mapping.format}'")
        found = "none" if held is None else describe(held)
        raise ValueProblem(f"field '{where}': expected a list of chunks, found {found}")

    def retrieval(self, raw: RawRetrieval, query_id: str, query: str) -> RetrievalDump:
        noted = _Noted()
        chunks: list[Chunk] = []
        ranks: list[int] = []
        labels: list[bool | None] = []
        for rank, hit in enumerate(raw.hits, start=1):
            chunk = self._chunk(hit, rank, noted)
            if chunk is None:
                continue
            chunks.append(chunk)
            ranks.append(rank)
            if self.mapping.relevant:
                labels.append(self._label(hit, "relevant"))
        named_chunks = name_chunks(chunks, ranks)
        _note_names(named_chunks, chunks, noted)
        value, labelled = raw.record.values, self.mapping.answer_present
        relevant, answers = None, tuple[str, ...]()
        if is_object(value) and not self._labels.isdisjoint(value):
            relevant, answers = _labelling(value)
        if any(label is not None for label in labels):
            relevant = _labelled(named_chunks, labels)
        return RetrievalDump(
            query_id=query_id,
            query=query,
            chunks=named_chunks.chunks,
            warnings=tuple(noted.warnings()) if noted.found else (),
            answer_present=self._label(value, "answer_present") if labelled else None,
            relevant_ids=relevant,
            answers=answers,
        )

    def keys(self, value: object, count: int) -> list[tuple[str | None, str | None]]:
        """Query and id of each of so many retrievals."""
        query, name = self._find["query"](value), self._find["query_id"](value)
        queries: Sequence[object] = [query] * count
        if is_list(query) and len(query) == count and all(isinstance(q, str) for q in query):
            queries = query
        elif query is not None and not isinstance(query, str):
            raise ValueProblem(
                f"field '{self.mapping.query}': expected the query as text, found {describe(query)}"
            )
        ids: Sequence[str | None] = [None] * count
        if is_list(name) and len(name) == count:
            ids = [as_id(item) for item in name]
        elif name is not None and name != "":
            whole = as_id(name)
            ids = [whole] if count == 1 else [f"{whole}-{n}" for n in range(1, count + 1)]
        return [*zip(cast("Sequence[str | None]", queries), ids, strict=True)]

    def is_empty(self, row: Mapping[str, object]) -> bool:
        """Whether a row says that nothing was found, as an outer join does."""
        names = (self.mapping.id, self.mapping.text, self.mapping.score)
        return all(row.get(name) in (None, "") for name in names if name)

    def _chunk(self, hit: object, rank: int, noted: _Noted) -> Chunk | None:
        """A hit as a chunk; its id is empty where it has none."""
        if isinstance(hit, str):
            hit = {self.mapping.text or "text": hit}
        if not is_object(hit):
            what = f"expected text or an object, found {describe(hit)}"
            noted.add(_Fault.MALFORMED, f"#{rank}", what)
            return None
        found = self._find["text"](hit)
        text = "" if found is None else text_of(found)
        if text is None:
            what = f"expected its text under '{self.mapping.text}', found {describe(found)}"
            noted.add(_Fault.MALFORMED, f"#{rank}", what)
            return None
        id = _id_of(self._find["id"](hit))
        said = self._find["score"](hit)
        score = as_score(said)
        if score is None and said is not None:
            noted.add(_Fault.NO_SCORE, f"#{rank}", describe(said))
        elif score is not None and self.mapping.scores is ScoreKind.DISTANCE:
            score = -score
        held = self._find["metadata"](hit)
        metadata: Mapping[str, object] = held if is_object(held) else {}
        if self.mapping.metadata is None:
            metadata = self._names_of_document(hit)
        left_out = {self._text_key, *named("retrieval")["vectors"]}
        if not left_out.isdisjoint(metadata):
            metadata = {name: value for name, value in metadata.items() if name not in left_out}
        return Chunk(id=id, text=text, score=score, metadata=metadata)

    def _names_of_document(self, hit: Mapping[str, object]) -> dict[str, object]:
        """What a chunk without a field for metadata says of its document, such as ``source``."""
        known = (self.mapping.id, self.mapping.text, self.mapping.score)
        names: dict[str, object] = {}
        for key in SOURCE_FIELDS:
            name = hit.get(key)
            if key not in known and type(name) in (str, int) and name != "":
                names[key] = name
        return names

    def _label(self, value: object, name: str) -> bool | None:
        found = self._find[name](value)
        label = as_label(found)
        if label is None and found is not None and found != "":
            raise ValueProblem(
                f"field '{getattr(self.mapping, name)}': expected a label (true or false, or a "
                f"grade from 0 to 4), found {describe(found)}"
            )
        return label


@cache
def _own_decoder() -> Decoder:
    return Decoder(OWN, forms()["plain"])


def from_own(hits: Hits, query_id: str = "", query: str = "") -> RetrievalDump:
    """The retrieval of chunks that ragbench itself made of another form."""
    return from_form(_own_decoder(), hits, query_id, query)


def from_form(decoder: Decoder, hits: Hits, query_id: str = "", query: str = "") -> RetrievalDump:
    """The retrieval of hits that are in the form of a decoder."""
    raw = RawRetrieval(record=DumpRecord("", None, {}), query=None, query_id=None, hits=hits)
    return decoder.retrieval(raw, query_id, query)


def _id_of(value: object) -> str:
    """An id as text; empty where there is none."""
    if type(value) is str and "\x00" not in value:
        return value.strip()
    try:
        return "" if value is None else as_id(value).strip()
    except ValueProblem:
        return ""


def _note_names(named_chunks: NamedChunks, chunks: Sequence[Chunk], noted: _Noted) -> None:
    """Notes which chunks go by another name than the dump's."""
    for chunk in named_chunks.unnamed:
        noted.add(_Fault.NO_ID, chunk.id)
    if named_chunks.renamed:
        ids = {
            named_chunks.chunks[place].id: chunk.id
            for place, chunk in zip(named_chunks.places, chunks, strict=True)
            if chunk.id
        }
        for chunk in named_chunks.renamed:
            noted.add(_Fault.SHARED_ID, chunk.id, f"{ids[chunk.id]} is now {chunk.id}")
    for chunk in named_chunks.again:
        noted.add(_Fault.AGAIN, chunk.id)
    for chunk in named_chunks.same_text:
        noted.add(_Fault.AGAIN_BY_TEXT, chunk.id)


def _labelled(named_chunks: NamedChunks, labels: Sequence[bool | None]) -> frozenset[str]:
    """The names of chunks that a mention of them says are relevant."""
    return frozenset(
        named_chunks.chunks[place].id
        for place, label in zip(named_chunks.places, labels, strict=True)
        if label
    )


def _labelling(value: Mapping[str, object]) -> tuple[frozenset[str] | None, tuple[str, ...]]:
    """The ids of relevant chunks, None where they are not known, and the right answers."""
    relevant, answers = None, tuple[str, ...]()
    listed = next(filter(is_list, map(value.get, named("retrieval")["relevant_ids"])), None)
    if listed is not None:
        with suppress(ValueProblem):  # true is no id, and such a list no label
            relevant = frozenset(as_id(one) for one in listed if isinstance(one, (str, float, int)))
    held = map(value.get, named("retrieval")["answers"])
    given = next((one for one in held if one is not None), None)
    if given is not None:
        with suppress(ValueProblem):
            answers = as_answers(given)
    return relevant, answers


def raw_retrievals(
    decoder: Decoder, records: Iterable[AnyRow], problems: Problems
) -> Iterator[RawRetrieval]:
    """Yields what the records hold.

    Rows of a query must follow one another. One that comes back further down is a problem, reported
    once, and is judged there anew.
    """
    seen = IdRegister()
    group: RawRetrieval | None = None
    for record in records:
        try:
            if decoder.mapping.layout == "queries":
                yield from decoder.raw(record)
                continue
            if not is_object(record.values):
                raise ValueProblem(f"expected an object, found {describe(record.values)}")
            ((query, query_id),) = decoder.keys(record.values, 1)
        except ValueProblem as problem:
            problems.add(str(problem), path=record.path, line=record.line)
            continue
        if group is None or (query, query_id) != (group.query, group.query_id):
            if group is not None:
                yield group
            group = RawRetrieval(record=record, query=query, query_id=query_id, hits=[])
            earlier = seen.add(f"{query_id}\x00{query}", record.line or 0)
            if earlier is not None:
                message = (
                    f"query '{query_id or query}' has rows at {earlier} already: sort the rows by "
                    "query. These are judged as another retrieval"
                )
                problems.add(message, path=record.path, line=record.line)
        if not decoder.is_empty(record.values):
            cast("list[object]", group.hits).append(record.values)
    if group is not None:
        yield group
