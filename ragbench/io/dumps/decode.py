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
from ragbench.io.fields import field_names
from ragbench.io.source import IdRegister, Problems, noting_read_errors
from ragbench.io.values import (
    ValueProblem,
    as_answers,
    as_id,
    as_label,
    as_object,
    as_score,
    describe,
    is_list,
    is_object,
)
from ragbench.safe_text import counted

_EXAMPLES = 5
"""Ids of chunks that a warning names; its count has them all."""


class RawRetrieval(Record):
    """What a record says of one query: its hits as they came."""

    record: AnyRow
    query: str | None
    query_id: str | None
    hits: Hits


@dataclass(slots=True)
class _Faults:
    """What is wrong with the chunks of a query: by kind of fault the ids, and a detail."""

    ids: dict[_Fault, list[str]] = field(default_factory=dict["_Fault", "list[str]"])
    details: dict[_Fault, str] = field(default_factory=dict["_Fault", "str"])
    """How the first one is, for each kind."""

    def add(self, fault: _Fault, id: str, detail: str = "") -> None:
        """Notes a chunk of a query with a fault, for one warning per kind of fault.

        Args:
            id: the chunk's; its place, as ``#3``, where it has none.
            detail: how this chunk is wrong; of a kind of fault only the first is shown.
        """
        self.ids.setdefault(fault, []).append(id)
        self.details.setdefault(fault, detail)

    def warnings(self) -> Iterator[DumpWarning]:
        """A warning for each kind of fault, however many chunks of the query have it.

        A log may have the same fault in each of its chunks.
        """
        for fault, ids in self.ids.items():
            kind, text = _WARNINGS[fault]
            number = counted(len(ids), "chunk")
            have = "has" if len(ids) == 1 else "have"
            message = text.format(number=number, have=have, detail=self.details[fault])
            examples = tuple(ids[:_EXAMPLES])
            yield DumpWarning(kind=kind, message=message, count=len(ids), chunk_ids=examples)


class _Fault(Enum):
    """What may be wrong with a chunk that is read all the same, or left out alone."""

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
    """Reads the records of a dump by its mapping."""

    mapping: DumpMapping
    form: DumpForm
    _find: dict[str, Getter] = field(init=False)
    """By the name of a field, as in the mapping, what finds it."""
    _text_key: str = field(init=False)
    """The key of a chunk's metadata that holds its text; empty where none does."""
    _label_fields: frozenset[str] = field(init=False)
    """Fields that say which chunks are relevant, or what the answer is."""

    def __post_init__(self) -> None:
        """Prepares the paths of the dump's mapping as functions, once for all records.

        The functions are called for every chunk of a dump. Where the mapping has no path, the
        function finds nothing.
        """
        mapping = self.mapping
        self._find = {}
        for name in MAPPABLE:
            path = getattr(mapping, name)
            if path:
                self._find[name] = getter(path)
            else:
                self._find[name] = _find_nothing
        self._find["chunks"] = chunks_getter(mapping.chunks or "")
        if not mapping.text:
            self._find["text"] = getter("text")
        names = field_names("retrieval")
        self._label_fields = frozenset((*names["answers"], *names["relevant_ids"]))
        # The text need not be kept twice when it stands in the metadata.
        parent, _, name = (mapping.text or "").rpartition(".")
        self._text_key = name if parent and parent == mapping.metadata else ""

    def raw(self, record: AnyRow) -> Iterator[RawRetrieval]:
        """The retrievals of a record of a dump: hits as they came, with query and id.

        A batch of a store holds several retrievals, with a query each.

        Raises:
            ValueProblem: the record has no chunks that are recognised, or its query is no text.
        """
        response = self._find["chunks"](record.values)
        lists: Sequence[Hits] | None
        # ragbench's own list of chunks is not unwrapped: elements that are no chunks are reported
        # one by one when the list is read.
        if self.mapping.format == "ragbench" and is_list(response):
            lists = [response]
        else:
            lists = self.form.unwrap(response)
            if lists is None:
                lists = [self._hits_in_no_known_form(record.values, response)]
        keys = self.keys(record.values, len(lists))
        for hits, (query, query_id) in zip(lists, keys, strict=True):
            yield RawRetrieval(record=record, query=query, query_id=query_id, hits=hits)

    def _hits_in_no_known_form(self, value: object, response: object) -> Hits:
        """The chunks of a record that are in no known form: a plain list, or nothing at all.

        Null in the place of the chunks says that nothing was retrieved.

        Args:
            value: the record.
            response: what is at the path of its chunks.

        Raises:
            ValueProblem: there are none, and nothing says that nothing was retrieved.
        """
        path = self.mapping.chunks
        if is_list(response) and (path or not response):
            return response  # what is not a chunk in it is reported one by one
        if response is None and path:
            parent, _, name = path.rpartition(".")
            inner = getter(parent)(value)
            if name in as_object(inner):
                return ()  # they are there and null: nothing was retrieved
        if not is_object(value) and not is_list(value):
            raise ValueProblem(f"expected a JSON object, found {describe(value)}")
        if not path:
            raise ValueProblem(f"expected a response in the form '{self.mapping.format}'")
        actual = "none" if response is None else describe(response)
        raise ValueProblem(f"field '{path}': expected a list of chunks, found {actual}")

    def retrieval(self, raw: RawRetrieval, query_id: str, query: str) -> RetrievalDump:
        """The chunks of one query of a dump, named and checked, with warnings of their faults.

        Args:
            raw: the hits as they came.
            query_id: the query's id, which the caller makes where the record has none.
            query: its text, which may be in another file.
        """
        faults = _Faults()
        chunks: list[Chunk] = []
        ranks: list[int] = []
        labels: list[bool | None] = []
        for rank, hit in enumerate(raw.hits, start=1):
            chunk = self._chunk_of_hit(hit, rank, faults)
            if chunk is None:
                continue
            chunks.append(chunk)
            ranks.append(rank)
            if self.mapping.relevant:
                labels.append(self._label_of(hit, "relevant"))
        named_chunks = name_chunks(chunks, ranks)
        _note_names(named_chunks, chunks, faults)
        value = raw.record.values
        relevant_ids = None
        answers: tuple[str, ...] = ()
        if is_object(value) and not self._label_fields.isdisjoint(value):
            relevant_ids = _relevant_ids(value)
            answers = _right_answers(value)
        # What each chunk says of itself counts before a list of ids, and goes by the new names.
        if any(label is not None for label in labels):
            relevant_ids = _labelled_ids(named_chunks, labels)
        answer_present = None
        if self.mapping.answer_present:
            answer_present = self._label_of(value, "answer_present")
        return RetrievalDump(
            query_id=query_id,
            query=query,
            chunks=named_chunks.chunks,
            warnings=tuple(faults.warnings()),
            answer_present=answer_present,
            relevant_ids=relevant_ids,
            answers=answers,
        )

    def keys(self, value: object, count: int) -> list[tuple[str | None, str | None]]:
        """Query and id of each retrieval of a record, None for one that the record does not have.

        Args:
            value: the record.
            count: how many retrievals it holds: a batch has several queries.

        Raises:
            ValueProblem: a query is no text, or an id is none.
        """
        query = self._find["query"](value)
        queries: Sequence[object] = [query] * count
        if query is not None and not isinstance(query, str):
            if not _are_texts(query, count):
                actual = describe(query)
                raise ValueProblem(
                    f"field '{self.mapping.query}': expected the query as text, found {actual}"
                )
            queries = cast("Sequence[object]", query)
        written_id = self._find["query_id"](value)
        ids: Sequence[str | None] = [None] * count
        if is_list(written_id) and len(written_id) == count:
            ids = [as_id(item) for item in written_id]
        elif written_id is not None and written_id != "":
            id = as_id(written_id)
            ids = [id]
            if count != 1:  # one id for several queries: each gets its own
                ids = [f"{id}-{number}" for number in range(1, count + 1)]
        return list(zip(cast("Sequence[str | None]", queries), ids, strict=True))

    def is_empty(self, row: Mapping[str, object]) -> bool:
        """Whether a row of a dump has no chunk, as an outer join writes a query without a match.

        Such a row stands for a query for which nothing was retrieved, and gives no chunk.
        """
        for name in (self.mapping.id, self.mapping.text, self.mapping.score):
            if name and row.get(name) not in (None, ""):
                return False
        return True

    def _chunk_of_hit(self, hit: object, rank: int, faults: _Faults) -> Chunk | None:
        """A hit as a chunk, with an empty id where it has none; None if it has no readable text.

        The latter is a fault: the chunk is left out, and the query is judged by the others.

        Args:
            rank: the place of the hit, from 1, by which a fault names it.
            faults: takes what is wrong.
        """
        if isinstance(hit, str):
            # A text alone is a chunk: it gets the field in which its text is looked for.
            hit = {self.mapping.text or "text": hit}
        if not is_object(hit):
            detail = f"expected text or an object, found {describe(hit)}"
            faults.add(_Fault.MALFORMED, f"#{rank}", detail)
            return None
        written_text = self._find["text"](hit)
        text = "" if written_text is None else text_of(written_text)
        if text is None:
            actual = describe(written_text)
            detail = f"expected its text under '{self.mapping.text}', found {actual}"
            faults.add(_Fault.MALFORMED, f"#{rank}", detail)
            return None
        return Chunk(
            id=_id_of(self._find["id"](hit)),
            text=text,
            score=self._score_of_hit(hit, rank, faults),
            metadata=self._metadata_of_hit(hit),
        )

    def _score_of_hit(self, hit: Mapping[str, object], rank: int, faults: _Faults) -> float | None:
        """A hit's score, higher is better: a distance counts with its sign turned round.

        None without a score, or with one that is no finite number: the hit's place says how good it
        is.

        Args:
            rank: the place of the hit, from 1, by which a fault names it.
            faults: takes what is wrong.
        """
        written_score = self._find["score"](hit)
        score = as_score(written_score)
        if score is None:
            if written_score is not None:
                faults.add(_Fault.NO_SCORE, f"#{rank}", describe(written_score))
            return None
        if self.mapping.scores is ScoreKind.DISTANCE:
            return -score
        return score

    def _metadata_of_hit(self, hit: Mapping[str, object]) -> Mapping[str, object]:
        """A hit's metadata, without its text and without vectors.

        The chunk has its text already, and a vector's thousand numbers say nothing to a reader.
        """
        if self.mapping.metadata is None:
            metadata: Mapping[str, object] = self._names_of_document(hit)
        else:
            metadata = as_object(self._find["metadata"](hit))
        left_out = {self._text_key, *field_names("retrieval")["vectors"]}
        # Most hits have none of these fields: then their metadata need no copy.
        if left_out.isdisjoint(metadata):
            return metadata
        return {name: value for name, value in metadata.items() if name not in left_out}

    def _names_of_document(self, hit: Mapping[str, object]) -> dict[str, object]:
        """The fields of a hit that name its document, such as ``source``, as metadata.

        For forms without a field of metadata: citations are compared with these names.
        """
        fields_of_chunk = (self.mapping.id, self.mapping.text, self.mapping.score)
        names: dict[str, object] = {}
        for key in SOURCE_FIELDS:
            # The chunk's own id or text is no name of its document.
            if key in fields_of_chunk:
                continue
            name = hit.get(key)
            if type(name) in (str, int) and name != "":
                names[key] = name
        return names

    def _label_of(self, value: object, name: str) -> bool | None:
        """The label of a chunk or a query: relevant or not, answered or not; None without one.

        Args:
            value: the chunk, or the record of the query.
            name: the field of the mapping: ``relevant`` or ``answer_present``.

        Raises:
            ValueProblem: the field holds something else: the mapping names a wrong one.
        """
        written = self._find[name](value)
        label = as_label(written)
        if label is None and written is not None and written != "":
            raise ValueProblem(
                f"field '{getattr(self.mapping, name)}': expected a label (true or false, or a "
                f"grade from 0 to 4), found {describe(written)}"
            )
        return label


@cache
def _own_decoder() -> Decoder:
    """The decoder of ragbench's own chunks, made once: readers call it for every record.

    Its mapping is that of `dump_row`'s keys: other keys would not be read.
    """
    return Decoder(OWN, forms()["plain"])


def from_own(hits: Hits, query_id: str = "", query: str = "") -> RetrievalDump:
    """The retrieval of chunks that ragbench itself made of another form, such as spans.

    The chunks get the same names and warnings as those of a dump.
    """
    return from_form(_own_decoder(), hits, query_id, query)


def from_form(decoder: Decoder, hits: Hits, query_id: str = "", query: str = "") -> RetrievalDump:
    """The retrieval of hits that are in the form of a decoder, and in no file.

    Chunks in memory are so named and checked like those of a dump.
    """
    raw = RawRetrieval(record=DumpRecord("", None, {}), query=None, query_id=None, hits=hits)
    return decoder.retrieval(raw, query_id, query)


def _find_nothing(_: object) -> None:
    """Stands in for the path of a field that a dump does not have: finds None in every record.

    So the decoder calls a function for each field, without asking whether there is a path.
    """


def _are_texts(value: object, count: int) -> bool:
    """Whether the query of a batch is a list of texts, one for each of its retrievals.

    Args:
        count: how many retrievals the batch holds.

    Otherwise it cannot be known which retrieval is whose, and the record is refused.
    """
    if not is_list(value) or len(value) != count:
        return False
    return all(isinstance(text, str) for text in value)


def _id_of(value: object) -> str:
    """A chunk's id as text; empty where it has none, or something that is no id.

    A chunk without an id is still a chunk: it goes by its place.
    """
    # Nearly all are texts: this saves a call for each chunk of a dump.
    if type(value) is str and "\x00" not in value:
        return value.strip()
    if value is None:
        return ""
    try:
        return as_id(value).strip()
    except ValueProblem:
        return ""


def _note_names(named_chunks: NamedChunks, chunks: Sequence[Chunk], faults: _Faults) -> None:
    """Notes as faults the chunks that go by another name than the dump's, or count once.

    Reports show chunks by the new names, so a user has to find them in the dump.

    Args:
        named_chunks: the chunks by their new names.
        chunks: the chunks as the dump has them.
    """
    for chunk in named_chunks.unnamed:
        faults.add(_Fault.NO_ID, chunk.id)
    if named_chunks.renamed:
        id_in_dump: dict[str, str] = {}
        for place, chunk in zip(named_chunks.places, chunks, strict=True):
            if chunk.id:
                id_in_dump[named_chunks.chunks[place].id] = chunk.id
        for chunk in named_chunks.renamed:
            detail = f"{id_in_dump[chunk.id]} is now {chunk.id}"
            faults.add(_Fault.SHARED_ID, chunk.id, detail)
    for chunk in named_chunks.again:
        faults.add(_Fault.AGAIN, chunk.id)
    for chunk in named_chunks.same_text:
        faults.add(_Fault.AGAIN_BY_TEXT, chunk.id)


def _labelled_ids(named_chunks: NamedChunks, labels: Sequence[bool | None]) -> frozenset[str]:
    """The names of the chunks that the dump labels as relevant.

    A chunk that the dump has twice counts once, and is relevant if one of the two is labelled so.

    Args:
        labels: of each chunk as the dump has them, where two may be mentions of one.
    """
    ids: set[str] = set()
    for place, label in zip(named_chunks.places, labels, strict=True):
        if label:
            ids.add(named_chunks.chunks[place].id)
    return frozenset(ids)


def _relevant_ids(value: Mapping[str, object]) -> frozenset[str] | None:
    """The ids of relevant chunks in a record of a dump, under the usual names; None if unknown.

    The ids become the case's gold, by which ranks are scored.
    """
    for name in field_names("retrieval")["relevant_ids"]:
        ids = value.get(name)
        if is_list(ids):
            with suppress(ValueProblem):  # true is no id, and such a list no label
                return frozenset(as_id(id) for id in ids if isinstance(id, (str, float, int)))
            return None
    return None


def _right_answers(value: Mapping[str, object]) -> tuple[str, ...]:
    """The right answers in a record of a dump, under the first usual name with a value.

    Empty where they are none after all: a label of a log must not stop its chunks from being read.
    """
    for name in field_names("retrieval")["answers"]:
        answers = value.get(name)
        if answers is not None:
            with suppress(ValueProblem):
                return as_answers(answers)
            return ()
    return ()


def raw_retrievals(
    decoder: Decoder, records: Iterable[AnyRow], problems: Problems
) -> Iterator[RawRetrieval]:
    """Yields the retrievals of a dump's records: of a response each, or of rows with a chunk each.

    Rows of a query must follow one another. A query that comes back further down is a problem,
    reported once, and is judged there anew.
    """
    seen = IdRegister()
    group: RawRetrieval | None = None
    for record in records:
        if decoder.mapping.layout == "queries":
            with noting_read_errors(record.path, problems, record.line):
                yield from decoder.raw(record)
            continue
        keys: Sequence[tuple[str | None, str | None]] = ()
        with noting_read_errors(record.path, problems, record.line):
            if not is_object(record.values):
                raise ValueProblem(f"expected an object, found {describe(record.values)}")
            keys = decoder.keys(record.values, 1)
        if not keys:
            continue
        ((query, query_id),) = keys
        if group is None or (query, query_id) != (group.query, group.query_id):
            if group is not None:
                yield group
            group = RawRetrieval(record=record, query=query, query_id=query_id, hits=[])
            # Neither id nor query holds a NUL: two different pairs never make the same text.
            earlier = seen.add(f"{query_id}\x00{query}", record.line or 0)
            if earlier is not None:
                message = (
                    f"query '{query_id or query}' has rows at {earlier} already: sort the rows by "
                    "query. These are judged as another retrieval"
                )
                problems.add(message, path=record.path, line=record.line)
        hit = as_object(record.values)
        if not decoder.is_empty(hit):
            # The list that the group began with: it grows until another query comes.
            cast("list[object]", group.hits).append(hit)
    if group is not None:
        yield group
