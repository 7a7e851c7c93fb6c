"""Records, or rows that belong together, to retrievals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ragbench.core.chunk import Chunk
from ragbench.core.validation import DumpWarning, RetrievalDump, WarningKind
from ragbench.io.dumps.form import (
    MAPPABLE,
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
from ragbench.io.ids import IdRegister
from ragbench.io.source import Problems
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
_VECTORS = ("vector", "embedding", "vectors", "embeddings")
_ANSWERS = ("answers", "reference", "answer_references", "ground_truth")
_RELEVANT = ("relevant_chunk_ids", "relevant_ids", "reference_context_ids")
_LABELS = frozenset((*_ANSWERS, *_RELEVANT))


@dataclass(frozen=True, kw_only=True, slots=True)
class RawRetrieval:
    record: DumpRecord
    query: str | None
    query_id: str | None
    hits: Hits


@dataclass(slots=True)
class _Noted:
    """Ids of the chunks that something is wrong with, by what it is, and how the first one is."""

    found: dict[WarningKind, tuple[str, list[str]]] = field(
        default_factory=dict[WarningKind, "tuple[str, list[str]]"]
    )

    def add(self, kind: WarningKind, id: str, detail: str = "") -> None:
        self.found.setdefault(kind, (detail, []))[1].append(id)

    def warnings(self) -> tuple[DumpWarning, ...]:
        return tuple(
            DumpWarning(
                kind=kind,
                message=_warning_text(kind, len(ids), detail),
                count=len(ids),
                chunk_ids=tuple(ids[:_EXAMPLES]),
            )
            for kind, (detail, ids) in self.found.items()
        )


_WARNINGS = {
    WarningKind.MALFORMED_CHUNK: "{number} left out: {detail}",
    WarningKind.MISSING_ID: "{number} {have} no id: the place in the list is used",
    WarningKind.DUPLICATE_ID: "{number} with an id that an earlier chunk has: renamed ({detail})",
    WarningKind.INVALID_SCORE: "{number} with a score that is not a finite number ({detail})",
}


def _warning_text(kind: WarningKind, count: int, detail: str) -> str:
    number, have = ("1 chunk", "has") if count == 1 else (f"{count} chunks", "have")
    return _WARNINGS[kind].format(number=number, have=have, detail=detail)


@dataclass(slots=True)
class Decoder:
    mapping: DumpMapping
    form: DumpForm
    _find: dict[str, Getter] = field(init=False)
    _text_key: str = field(init=False)

    def __post_init__(self) -> None:
        known = self.mapping
        paths = {name: getattr(known, name) for name in MAPPABLE}
        self._find = {name: getter(path) for name, path in paths.items() if path}
        self._find["chunks"] = chunks_getter(known.chunks or "")
        self._find.setdefault("text", getter("text"))
        for name in MAPPABLE:
            self._find.setdefault(name, lambda _: None)
        # The text need not be kept twice when it stands in the metadata.
        parent, _, name = (known.text or "").rpartition(".")
        self._text_key = name if parent and parent == known.metadata else ""

    def raw(self, record: DumpRecord) -> Iterator[RawRetrieval]:
        """The retrievals of a record that holds queries, or a response."""
        held = self._find["chunks"](record.value)
        lists = self.form.unwrap(held)
        if lists is None and is_list(held) and (self.mapping.chunks or not held):
            lists = [held]  # what is not a chunk in it is reported one by one
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
        labels: dict[str, bool] = {}
        used: set[str] = set()
        for place, hit in enumerate(raw.hits, start=1):
            chunk = self._chunk(hit, place, used, noted)
            if chunk is None:
                continue
            chunks.append(chunk)
            if self.mapping.relevant and (label := self._label(hit, "relevant")) is not None:
                labels[chunk.id] = label
        value, labelled = raw.record.value, self.mapping.answer_present
        labelling: Mapping[str, object] = (
            value if is_object(value) and not _LABELS.isdisjoint(value) else {}
        )
        return RetrievalDump(
            query_id=query_id,
            query=query,
            chunks=tuple(chunks),
            warnings=noted.warnings() if noted.found else (),
            answer_present=self._label(value, "answer_present") if labelled else None,
            relevant_ids=frozenset(id for id, label in labels.items() if label)
            if labels
            else (_relevant_ids(labelling) if labelling else None),
            answers=_answers(labelling) if labelling else (),
        )

    def row_key(self, value: object) -> tuple[str | None, str | None]:
        return self._queries(value, 1)[0], self._ids(value, 1)[0]

    def is_empty(self, row: Mapping[str, object]) -> bool:
        """Whether a row says that nothing was found, as an outer join does."""
        names = (self.mapping.id, self.mapping.text, self.mapping.score)
        return all(row.get(name) in (None, "") for name in names if name)

    def _chunk(self, hit: object, place: int, used: set[str], noted: _Noted) -> Chunk | None:
        if isinstance(hit, str):
            hit = {self.mapping.text or "text": hit}
        if not is_object(hit):
            what = f"expected text or an object, found {describe(hit)}"
            noted.add(WarningKind.MALFORMED_CHUNK, f"#{place}", what)
            return None
        found = self._find["text"](hit)
        text = "" if found is None else text_of(found)
        if text is None:
            what = f"expected its text under '{self.mapping.text}', found {describe(found)}"
            noted.add(WarningKind.MALFORMED_CHUNK, f"#{place}", what)
            return None
        id = self._chunk_id(hit, place, used, noted)
        given = self._find["score"](hit)
        score = as_score(given)
        if score is None and given is not None:
            noted.add(WarningKind.INVALID_SCORE, f"#{place}", describe(given))
        elif score is not None and self.mapping.scores is ScoreKind.DISTANCE:
            score = -score
        held = self._find["metadata"](hit)
        metadata: Mapping[str, object] = held if is_object(held) else {}
        left_out = {self._text_key, *_VECTORS}
        if not left_out.isdisjoint(metadata):
            metadata = {name: value for name, value in metadata.items() if name not in left_out}
        return Chunk(id=id, text=text, score=score, metadata=metadata)

    def _label(self, value: object, name: str) -> bool | None:
        found = self._find[name](value)
        label = as_label(found)
        if label is None and found is not None and found != "":
            raise ValueProblem(
                f"field '{getattr(self.mapping, name)}': expected a label (true or false, or a "
                f"grade from 0 to 4), found {describe(found)}"
            )
        return label

    def _chunk_id(self, hit: object, place: int, used: set[str], noted: _Noted) -> str:
        given = self._find["id"](hit)
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

    def _queries(self, value: object, count: int) -> Sequence[str | None]:
        found = self._find["query"](value)
        if is_list(found) and len(found) == count:
            texts = [q for q in found if isinstance(q, str)]
            if len(texts) == count:
                return texts
        if found is not None and not isinstance(found, str):
            raise ValueProblem(
                f"field '{self.mapping.query}': expected the query as text, found {describe(found)}"
            )
        return [found] * count

    def _ids(self, value: object, count: int) -> Sequence[str | None]:
        found = self._find["query_id"](value)
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
        found = "none" if held is None else describe(held)
        return f"field '{where}': expected a list of chunks, found {found}"


def _relevant_ids(value: Mapping[str, object]) -> frozenset[str] | None:
    found = next(filter(is_list, map(value.get, _RELEVANT)), None)
    if found is None:
        return None
    try:
        return frozenset(as_id(item) for item in found if isinstance(item, (str, float, int)))
    except ValueProblem:  # true is no id, and such a list no label
        return None


def _answers(value: Mapping[str, object]) -> tuple[str, ...]:
    found = next((held for name in _ANSWERS if (held := value.get(name)) is not None), None)
    try:
        return () if found is None else as_answers(found)
    except ValueProblem:
        return ()


def group_rows(
    decoder: Decoder, records: Iterable[DumpRecord], problems: Problems
) -> Iterator[RawRetrieval]:
    """Yields the rows of each query together; they must follow one another.

    A query that comes back further down is a problem, reported once, and is judged there anew.
    """
    seen = IdRegister()
    group: RawRetrieval | None = None
    hits: list[object] = []
    for record in records:
        try:
            if not is_object(record.value):
                raise ValueProblem(f"expected an object, found {describe(record.value)}")
            query, query_id = decoder.row_key(record.value)
        except ValueProblem as problem:
            problems.add(str(problem), path=record.path, line=record.line)
            continue
        if group is None or (query, query_id) != (group.query, group.query_id):
            if group is not None:
                yield group
            hits = []
            group = RawRetrieval(record=record, query=query, query_id=query_id, hits=hits)
            _note_return(group, seen, problems)
        if not decoder.is_empty(record.value):
            hits.append(record.value)
    if group is not None:
        yield group


def _note_return(group: RawRetrieval, seen: IdRegister, problems: Problems) -> None:
    record = group.record
    earlier = seen.add(f"{group.query_id}\x00{group.query}", record.line or 0)
    if earlier is not None:
        message = (
            f"query '{group.query_id or group.query}' has rows at {earlier} already: sort the rows "
            "by query. These are judged as another retrieval"
        )
        problems.add(message, path=record.path, line=record.line)
