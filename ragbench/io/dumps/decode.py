"""Records, or rows that belong together, to retrievals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ragbench.core.chunk import Chunk
from ragbench.core.validation import DumpWarning, RetrievalDump, WarningKind
from ragbench.io.dumps.form import (
    DumpForm,
    DumpMapping,
    DumpRecord,
    Getter,
    Hits,
    ScoreKind,
    chunks_getter,
    getter,
    is_list,
    is_object,
    text_of,
)
from ragbench.io.ids import IdRegister
from ragbench.io.source import Problems
from ragbench.io.values import ValueProblem, as_answers, as_id, as_label, as_score, describe

_EXAMPLES = 5
_VECTORS = ("vector", "embedding", "vectors", "embeddings")
_ANSWERS = ("answers", "reference", "answer_references", "ground_truth")


@dataclass(frozen=True, kw_only=True, slots=True)
class RawRetrieval:
    """A query's hits, before its chunks are made."""

    record: DumpRecord
    query: str | None
    query_id: str | None
    hits: Hits


@dataclass(slots=True)
class _Noted:
    """Ids of the chunks that something is wrong with, by what it is."""

    ids: dict[WarningKind, list[str]] = field(default_factory=dict[WarningKind, "list[str]"])
    details: dict[WarningKind, str] = field(default_factory=dict[WarningKind, str])

    def add(self, kind: WarningKind, id: str, detail: str = "") -> None:
        self.ids.setdefault(kind, []).append(id)
        self.details.setdefault(kind, detail)

    def warnings(self) -> tuple[DumpWarning, ...]:
        return tuple(
            DumpWarning(
                kind=kind,
                message=_warning_text(kind, len(ids), self.details[kind]),
                count=len(ids),
                chunk_ids=tuple(ids[:_EXAMPLES]),
            )
            for kind, ids in self.ids.items()
        )


def _warning_text(kind: WarningKind, count: int, detail: str) -> str:
    number = "1 chunk" if count == 1 else f"{count} chunks"
    match kind:
        case WarningKind.MALFORMED_CHUNK:
            return f"{number} left out: {detail}"
        case WarningKind.MISSING_ID:
            have = "has" if count == 1 else "have"
            return f"{number} {have} no id: the place in the list is used"
        case WarningKind.DUPLICATE_ID:
            return f"{number} with an id that an earlier chunk has: renamed ({detail})"
        case _:
            return f"{number} with a score that is not a finite number ({detail})"


@dataclass(slots=True)
class Decoder:
    """Makes retrievals of a dump's records."""

    mapping: DumpMapping
    form: DumpForm
    _chunks: Getter = field(init=False)
    _query: Getter | None = field(init=False)
    _query_id: Getter | None = field(init=False)
    _answer: Getter | None = field(init=False)
    _text: Getter = field(init=False)
    _id: Getter | None = field(init=False)
    _score: Getter | None = field(init=False)
    _metadata: Getter | None = field(init=False)
    _relevant: Getter | None = field(init=False)
    _text_key: str = field(init=False)
    _sign: float = field(init=False)

    def __post_init__(self) -> None:
        known = self.mapping
        self._chunks = chunks_getter(known.chunks or "")
        self._query = None if known.query is None else getter(known.query)
        self._query_id = None if known.query_id is None else getter(known.query_id)
        self._answer = None if known.answer_present is None else getter(known.answer_present)
        self._text = getter(known.text or "text")
        self._id = getter(known.id) if known.id else None
        self._score = getter(known.score) if known.score else None
        self._metadata = getter(known.metadata) if known.metadata else None
        self._relevant = getter(known.relevant) if known.relevant else None
        self._sign = -1.0 if known.scores is ScoreKind.DISTANCE else 1.0
        # The text need not be kept twice when it stands in the metadata.
        parent, _, name = (known.text or "").rpartition(".")
        self._text_key = name if parent and parent == known.metadata else ""

    def raw(self, record: DumpRecord) -> Iterator[RawRetrieval]:
        """The retrievals of a record that holds queries, or a response."""
        held = self._chunks(record.value)
        lists = self.form.unwrap(held)
        if lists is None and is_list(held) and (self.mapping.chunks or not held):
            lists = [held]  # what is not a chunk in it is told one by one
        if lists is None and held is None and self._says_null(record.value):
            lists = [()]
        if lists is None:
            raise ValueProblem(self._unusable(record.value, held))
        queries, ids = self._queries(record.value, len(lists)), self._ids(record.value, len(lists))
        for hits, query, query_id in zip(lists, queries, ids, strict=True):
            yield RawRetrieval(record=record, query=query, query_id=query_id, hits=hits)

    def retrieval(self, raw: RawRetrieval, query_id: str, query: str) -> RetrievalDump:
        noted = _Noted()
        chunks: list[Chunk] = []
        relevant: set[str] = set()
        used: set[str] = set()
        labelled = False
        for place, hit in enumerate(raw.hits, start=1):
            chunk = self._chunk(hit, place, used, noted)
            if chunk is None:
                continue
            chunks.append(chunk)
            label = None if self._relevant is None else self._label(self._relevant(hit), "relevant")
            labelled = labelled or label is not None
            if label:
                relevant.add(chunk.id)
        value = raw.record.value
        return RetrievalDump(
            query_id=query_id,
            query=query,
            chunks=tuple(chunks),
            warnings=noted.warnings() if noted.ids else (),
            answer_present=None
            if self._answer is None
            else self._label(self._answer(value), "answer_present"),
            relevant_ids=frozenset(relevant) if labelled else _relevant_ids(value),
            answers=_answers(value) if is_object(value) else (),
        )

    def row_key(self, value: object) -> tuple[str | None, str | None]:
        """Query and query id of a record that is one chunk."""
        return self._queries(value, 1)[0], self._ids(value, 1)[0]

    def _chunk(self, hit: object, place: int, used: set[str], noted: _Noted) -> Chunk | None:
        if isinstance(hit, str):
            hit = {self.mapping.text or "text": hit}
        if not is_object(hit):
            what = f"expected text or an object, found {describe(hit)}"
            noted.add(WarningKind.MALFORMED_CHUNK, f"#{place}", what)
            return None
        found = self._text(hit)
        text = "" if found is None else text_of(found)
        if text is None:
            what = f"expected its text under '{self.mapping.text}', found {describe(found)}"
            noted.add(WarningKind.MALFORMED_CHUNK, f"#{place}", what)
            return None
        return Chunk(
            id=self._chunk_id(hit, place, used, noted),
            text=text,
            score=self._chunk_score(hit, place, noted),
            metadata=self._chunk_metadata(hit),
        )

    def _label(self, value: object, name: str) -> bool | None:
        label = as_label(value)
        if label is None and value is not None and value != "":
            where = getattr(self.mapping, name)
            raise ValueProblem(
                f"field '{where}': expected a label (true or false, or a grade from 0 to 4), found "
                f"{describe(value)}"
            )
        return label

    def _chunk_id(self, hit: object, place: int, used: set[str], noted: _Noted) -> str:
        given = None if self._id is None else self._id(hit)
        try:
            id = "" if given is None else as_id(given).strip()
        except ValueProblem:
            id = ""
        if not id:
            id = f"#{place}"
            noted.add(WarningKind.MISSING_ID, id)
        if id in used:
            number = 2
            while f"{id}#{number}" in used:
                number += 1
            renamed = f"{id}#{number}"
            noted.add(WarningKind.DUPLICATE_ID, renamed, f"{id} is now {renamed}")
            id = renamed
        used.add(id)
        return id

    def _chunk_score(self, hit: object, place: int, noted: _Noted) -> float | None:
        given = None if self._score is None else self._score(hit)
        if given is None:
            return None
        score = as_score(given)
        if score is None:
            noted.add(WarningKind.INVALID_SCORE, f"#{place}", describe(given))
            return None
        return self._sign * score

    def _chunk_metadata(self, hit: object) -> Mapping[str, object]:
        found = None if self._metadata is None else self._metadata(hit)
        if not is_object(found):
            return {}
        if self._text_key in found or any(name in found for name in _VECTORS):
            left_out = {self._text_key, *_VECTORS}
            return {name: value for name, value in found.items() if name not in left_out}
        return found

    def _queries(self, value: object, count: int) -> Sequence[str | None]:
        found = None if self._query is None else self._query(value)
        if is_list(found) and len(found) == count and all(isinstance(q, str) for q in found):
            return [q for q in found if isinstance(q, str)]
        if found is not None and not isinstance(found, str):
            raise ValueProblem(
                f"field '{self.mapping.query}': expected the query as text, found {describe(found)}"
            )
        return [found] * count

    def _ids(self, value: object, count: int) -> Sequence[str | None]:
        found = None if self._query_id is None else self._query_id(value)
        if is_list(found) and len(found) == count:
            return [as_id(item) for item in found]
        if found is None or found == "":
            return [None] * count
        name = as_id(found)
        return [name] if count == 1 else [f"{name}-{number + 1}" for number in range(count)]

    def _says_null(self, value: object) -> bool:
        """Whether the chunks are there and null: nothing was retrieved."""
        parent, _, name = (self.mapping.chunks or "").rpartition(".")
        inner = getter(parent)(value)
        return bool(name) and is_object(inner) and name in inner

    def _unusable(self, value: object, held: object) -> str:
        if not is_object(value) and not is_list(value):
            return f"expected a JSON object, found {describe(value)}"
        where = self.mapping.chunks
        if not where:
            return f"expected a response in the form '{self.mapping.format}'"
        if held is None:
            return f"field '{where}': expected a list of chunks, found none"
        return f"field '{where}': expected a list of chunks, found {describe(held)}"


def _relevant_ids(value: object) -> frozenset[str] | None:
    if not is_object(value):
        return None
    for name in ("relevant_chunk_ids", "relevant_ids", "reference_context_ids"):
        found = value.get(name)
        if is_list(found):
            try:
                return frozenset(
                    as_id(item) for item in found if isinstance(item, (str, float, int))
                )
            except ValueProblem:  # true is no id, and such a list no label
                return None
    return None


def _answers(value: Mapping[str, object]) -> tuple[str, ...]:
    for name in _ANSWERS:
        found = value.get(name)
        if found is not None:
            try:
                return as_answers(found)
            except ValueProblem:
                return ()
    return ()


def group_rows(
    decoder: Decoder, records: Iterable[DumpRecord], problems: Problems
) -> Iterator[RawRetrieval]:
    """Yields the rows of each query together; they must follow one another.

    A query that comes back further down is a problem, told once, and is judged there anew.
    """
    seen = IdRegister()
    key: tuple[str | None, str | None] | None = None
    first: DumpRecord | None = None
    hits: list[Mapping[str, object]] = []
    for record in records:
        try:
            if not is_object(record.value):
                raise ValueProblem(f"expected an object, found {describe(record.value)}")
            found = decoder.row_key(record.value)
        except ValueProblem as problem:
            problems.add(str(problem), path=record.path, line=record.line)
            continue
        if found != key or first is None:
            if first is not None and key is not None:
                yield _raw(first, key, hits)
            _note_return(record, found, seen, problems)
            key, first, hits = found, record, []
        if not _is_empty(decoder, record.value):
            hits.append(record.value)
    if first is not None and key is not None:
        yield _raw(first, key, hits)


def _raw(
    record: DumpRecord, key: tuple[str | None, str | None], hits: list[Mapping[str, object]]
) -> RawRetrieval:
    return RawRetrieval(record=record, query=key[0], query_id=key[1], hits=hits)


def _is_empty(decoder: Decoder, row: Mapping[str, object]) -> bool:
    """Whether a row says that nothing was found, as an outer join does."""
    names = (decoder.mapping.id, decoder.mapping.text, decoder.mapping.score)
    return all(row.get(name) in (None, "") for name in names if name)


def _note_return(
    record: DumpRecord,
    key: tuple[str | None, str | None],
    seen: IdRegister,
    problems: Problems,
) -> None:
    query, query_id = key
    earlier = seen.add(f"{query_id}\x00{query}", record.line or 0)
    if earlier is not None:
        message = (
            f"query '{query_id or query}' has rows at {earlier} already: sort the rows by query. "
            "These are judged as another retrieval"
        )
        problems.add(message, path=record.path, line=record.line)
