"""Traces of production as cases: what was asked, what each search found, what was answered.

Spans of a trace may stand anywhere in a file: they are brought together in a temporary file, and
memory stays flat. Nothing is guessed: contexts come from spans that say that they retrieved, and
from what is a list of documents there.
"""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Any

import msgspec
import orjson
from msgspec import structs

from ragbench.core.case import Turn
from ragbench.core.outcome import Outcome
from ragbench.core.result import GenerationResult
from ragbench.io.detect import detect_container, reader_of, sign_of, trace_files
from ragbench.io.dumps.decode import Decoder
from ragbench.io.dumps.form import OWN, DumpRecord, opened_json
from ragbench.io.dumps.forms import forms
from ragbench.io.feedback import feedback_of
from ragbench.io.json_files import (
    OTLP,
    OUTER,
    Line,
    array_elements,
    keys_shown,
    line_value,
    parse_json,
    read_bytes,
    read_lines,
)
from ragbench.io.only import seconds_of
from ragbench.io.recorded import failed_outcome, recorded_outcome, retrieved
from ragbench.io.source import IdRegister, Kind, Problems, Row, Source, noting_read_errors
from ragbench.io.spans import (
    MODEL,
    RERANKER,
    RETRIEVER,
    Span,
    said,
    said_in,
    span_forms,
    spans_of,
)
from ragbench.io.turns import in_turn
from ragbench.io.values import ASSISTANT, USER, ValueProblem, as_score, is_list, is_object
from ragbench.safe_text import counted

_LIMIT = "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"
_SHORTEST_LIMIT = 64
_TABLE = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
CREATE TABLE spans (first INTEGER, body BLOB);
CREATE TABLE cases (body BLOB, session TEXT, started TEXT, query TEXT, answer TEXT);
"""
_BATCH = 1000


# --- reading


@dataclass(kw_only=True, slots=True)
class TraceFile:
    """The spans of a source, brought together; read as rows as often as anybody asks."""

    db: sqlite3.Connection = field(
        default_factory=lambda: sqlite3.connect("", check_same_thread=False)
    )
    """A file of its own, gone when it is closed."""
    problems: Problems = field(default_factory=Problems)
    found: Counter[str] = field(default_factory=Counter[str])
    is_sorted: bool = True

    def fill(self, source: Source) -> None:
        self.db.executescript(_TABLE)
        seen, encode = IdRegister(), msgspec.msgpack.Encoder().encode
        rows: list[tuple[int, bytes]] = []
        lengths: Counter[int] = Counter()
        latest = held = 0
        groups = groupby(self._spans(source), key=lambda span: span.trace)
        for number, (trace, spans) in enumerate(groups, start=1):
            first = seen.add(trace, number) or number
            self.is_sorted = self.is_sorted and first >= latest
            latest = first
            while some := [*islice(spans, _BATCH)]:
                lengths.update(length for span in some for length in _lengths(span))
                rows.append((first, encode(_needed(some))))
                held += len(some)
            if held >= _BATCH:
                held = 0
                self.db.executemany("INSERT INTO spans VALUES (?, ?)", rows)
                rows.clear()
                longest = max(lengths, default=0)
                lengths = Counter({longest: lengths[longest]})
        self.db.executemany("INSERT INTO spans VALUES (?, ?)", rows)
        if not self.is_sorted:
            self.db.execute("CREATE INDEX by_trace ON spans (first)")
        self.found["cut"], self.found["limit"] = _cut(lengths)
        rows_of = (
            (pickle.dumps((*row[:4], dict(row.recorded)), 5), *_in_session(row))
            for row in self._rows(source)
        )
        self.db.executemany("INSERT INTO cases VALUES (?, ?, ?, ?, ?)", rows_of)
        self.db.executescript(_SESSIONS)
        self.db.execute("DROP TABLE spans")
        for note in self._notes():
            source.notes[note] = None

    def _spans(self, source: Source) -> Iterator[Span]:
        for record in _records(source, self.problems):
            value = record.value
            sign = sign_of(value) if is_object(value) else None
            form = None if sign is None else span_forms().get(sign.spans)
            if form is None or not is_object(value):
                what = "" if sign is None else sign.refused
                message = f"it holds {what}" if what else "it is no span in a form that is known"
                self.problems.add_kind(
                    (record.path, what), message + "{more}", path=record.path, line=record.line
                )
                continue
            self.found[f"form {form.summary}"] += 1
            for span in spans_of(form, value, record.line):
                self.found["spans"] += 1
                yield span

    def traces(self) -> Iterator[list[Span]]:
        """The spans of each trace, in the order of the first ones in the file."""
        decode = msgspec.msgpack.Decoder(list[Span]).decode
        order = "rowid" if self.is_sorted else "first, rowid"
        rows = self.db.execute(f"SELECT first, body FROM spans ORDER BY {order}")
        for _, group in groupby(rows, key=lambda row: row[0]):
            yield [span for _, body in group for span in decode(body)]

    def rows(self, problems: Problems) -> Iterator[Row]:
        """A row per trace that asks something, with what is recorded of it."""
        for body, session, turn, first in self.db.execute(_IN_ORDER):
            row = Row(*pickle.loads(body))  # written below, where no one else can write
            if session is not None:
                said = self.db.execute(_BEFORE, (first, first + turn - 1, _MOST_TURNS)).fetchall()
                history = [turn for pair in reversed(said) for turn in _turns(*pair)]
                place = in_turn(history, session, row.values["tags"], number=turn)
                row = row._replace(values={**row.values, **place})
            yield row
        problems.note(*self.problems)

    def _rows(self, source: Source) -> Iterator[Row]:
        """Makes the rows, and counts what stands in the file."""
        found = self.found
        for spans in self.traces():
            found["traces"] += 1
            tree = _Tree(spans=spans)
            hops = tree.innermost(RETRIEVER)
            found["hops"] += len(hops)
            row = _trace_row(source.name, tree, hops)
            if row is None:
                continue
            found["asked"] += 1
            is_found = "retrieve" in row.recorded or "retrieved_context_ids" in row.values
            found["retrieved"] += is_found
            found["unread"] += bool(hops) and not is_found
            found["answered"] += "generate" in row.recorded
            yield row
        if not found["asked"] and not self.problems.count:
            read = f"{counted(found['traces'], 'trace')} of {counted(found['spans'], 'span')}"
            message = f"no trace in it says what was asked: {read} are read"
            self.problems.add(message, path=source.name)

    def _notes(self) -> Iterator[str]:
        found = self.found
        named = ", ".join(n.removeprefix("form ") for n in found if n.startswith("form "))
        yield (
            f"{counted(found['traces'], 'trace')} of {counted(found['spans'], 'span')} ({named}): "
            f"{found['asked']:,} with a question, {found['retrieved']:,} with retrieval "
            f"({counted(found['hops'], 'search').replace('searchs', 'searches')}), "
            f"{found['answered']:,} with an answer"
        )
        if without := found["traces"] - found["asked"]:
            yield f"{counted(without, 'trace')} without a question: left out"
        if found["unread"]:
            yield (
                f"{counted(found['unread'], 'trace')} with retrieval of which no documents are "
                "recorded: retrieval is not known there"
            )
        if found["cut"]:
            yield (
                f"{counted(found['cut'], 'text')} cut at {found['limit']:,} characters, the limit "
                f"of an attribute: raise {_LIMIT} where the traces are made"
            )


_SESSIONS = """
CREATE TABLE turns AS SELECT rowid AS place, session, query, answer,
    row_number() OVER (PARTITION BY session ORDER BY started, rowid) AS turn
    FROM cases WHERE session IS NOT NULL ORDER BY session, turn;
CREATE UNIQUE INDEX by_place ON turns (place);
"""
_IN_ORDER = (
    "SELECT cases.body, turns.session, turns.turn, turns.rowid - turns.turn + 1 "
    "FROM cases LEFT JOIN turns ON turns.place = cases.rowid ORDER BY cases.rowid"
)
_BEFORE = (
    "SELECT query, answer FROM turns WHERE rowid >= ?1 AND rowid < ?2 ORDER BY rowid DESC LIMIT ?3"
)
"""What was asked and answered in a session before a trace."""
_MOST_TURNS = 30
"""Questions of a session that a case is read with: the last ones."""


def _in_session(row: Row) -> tuple[object, ...]:
    """What a trace is to those that follow it in its session; nothing of one without."""
    session, outcome = row.values["cluster"], row.recorded.get("generate")
    if session is None:
        return (None,) * 4
    metadata: Any = row.values["metadata"]
    answer = None if outcome is None or outcome.value is None else outcome.value.response
    return session, metadata.get("started", ""), row.values["query"], answer


def _turns(query: str, answer: str | None) -> Iterator[Turn]:
    yield Turn(role=USER, text=query)
    if answer:
        yield Turn(role=ASSISTANT, text=answer)


def read_traces(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per trace."""
    file = TraceFile()
    with closing(file.db):
        yield from held_traces(file)(source, problems=problems)


def held_traces(file: TraceFile) -> Callable[..., Iterator[Row]]:
    """As `read_traces`; the file is read once, however often its rows are asked for."""

    def read(source: Source, *, problems: Problems) -> Iterator[Row]:
        if not file.found:
            file.fill(source)
        yield from file.rows(problems)

    return read


def _records(source: Source, problems: Problems) -> Iterator[DumpRecord]:
    for file in trace_files(source):
        with closing(replace(file)) as place, noting_read_errors(file.name, problems):
            container, text = detect_container(place, "cases", problems)
            if container == "jsonl":
                for line in read_lines(place, problems):
                    for value in _line_value(line, place.name, problems):
                        yield DumpRecord(place.name, line.number, value)
            elif container == "json":
                yield from _json_records(place, text, problems)
            elif container is not None:
                for row in reader_of(container)(place, kind="cases", problems=problems):
                    yield DumpRecord(row.path, row.line, row.values)


def _line_value(line: Line, path: str, problems: Problems) -> Sequence[object]:
    """As `line_value`, without a look for a key that stands twice: it takes most of the time."""
    try:
        return (orjson.loads(line.raw),)
    except orjson.JSONDecodeError:
        return line_value(line, path, problems)


def _json_records(source: Source, text: str, problems: Problems) -> Iterator[DumpRecord]:
    """The records of a JSON file, one in memory at a time where they stand in an array."""
    nothing: Mapping[str, object] = {}
    whole = nothing if text.startswith("[") else next(keys_shown(text), nothing)
    key = next((name for name in OUTER if is_list(whole.get(name))), None)
    sign = sign_of(whole)
    if whole and (key is None or (sign is not None and sign.spans and key not in OTLP)):
        raw = read_bytes(source, problems)
        elements: Iterator[tuple[int, bytes]] = iter(() if raw is None else ((1, raw),))
        key = None
    else:
        elements = array_elements(source, key, problems)
    for line, raw in elements:
        try:
            value = parse_json(raw)
        except ValueProblem as problem:
            problems.add(str(problem), path=source.name, line=line)
            continue
        yield DumpRecord(source.name, line, {key: [value]} if key in OTLP else value)


def _needed(spans: list[Span]) -> list[Span]:
    """The spans, without texts that nobody asks for where the root says it all: most of a file."""
    root = next((span for span in spans if span.parent is None), None)
    is_said = (
        root is not None
        and root.kind not in (MODEL, RETRIEVER, RERANKER)
        and said(root.input, "question") is not None
        and said(root.output, "answer") is not None
    )
    if not is_said:
        return spans
    return [
        structs.replace(span, input=span.input if span.kind == RETRIEVER else None, output=None)
        if span.parent is not None and (span.input is not None or span.output is not None)
        else span
        for span in spans
    ]


def _lengths(span: Span) -> Iterator[int]:
    for value in (span.input, span.output):
        if isinstance(value, str):
            yield len(value)
    for document in span.documents or ():
        yield len(document.get("text", ""))


def _cut(lengths: Counter[int]) -> tuple[int, int]:
    """How many texts were cut by a limit, and the limit.

    No text is longer than a limit, and it is a power of two, as in practice, or the one that is
    set here.
    """
    longest = max(lengths, default=0)
    is_set = os.environ.get(_LIMIT) == str(longest)
    is_limit = is_set or (longest >= _SHORTEST_LIMIT and longest.bit_count() == 1)
    return (lengths[longest], longest) if is_limit else (0, 0)


# --- the rules: a trace to a case


@dataclass(kw_only=True, slots=True)
class _Tree:
    spans: Sequence[Span]
    """By when they began."""
    line: int | None = field(init=False)
    by_id: Mapping[str, Span] = field(init=False)

    def __post_init__(self) -> None:
        self.line = self.spans[0].line
        self.spans = sorted(self.spans, key=lambda span: seconds_of(span.start) or 0.0)
        self.by_id = {span.id: span for span in self.spans}

    def above(self, span: Span) -> Iterator[Span]:
        seen = {span.id}
        parent = self.by_id.get(span.parent or "")
        while parent is not None and parent.id not in seen:
            yield parent
            seen.add(parent.id)
            parent = self.by_id.get(parent.parent or "")

    def depth(self, span: Span) -> int:
        depth, by_id = 0, self.by_id
        above = by_id.get(span.parent or "")
        while above is not None and depth < len(by_id):  # a circle ends there
            above, depth = by_id.get(above.parent or ""), depth + 1
        return depth

    def outermost(self, kind: str, outside: Sequence[str] = ()) -> list[Span]:
        kinds = {kind, *outside}
        return [
            span
            for span in self.spans
            if span.kind == kind and not any(one.kind in kinds for one in self.above(span))
        ]

    def innermost(self, kind: str) -> list[Span]:
        outer = {
            one.id
            for span in self.spans
            if span.kind == kind
            for one in self.above(span)
            if one.kind == kind
        }
        return [span for span in self.spans if span.kind == kind and span.id not in outer]


def _trace_row(path: str, tree: _Tree, hops: Sequence[Span]) -> Row | None:
    """What a trace asks, with what is recorded of it; None where it asks nothing.

    Args:
        hops: the searches in order: a retriever that only calls another is none of its own.
    """
    spans = tree.spans
    order = sorted(spans, key=tree.depth)
    top, query = _asked(order, hops)
    if query is None:
        return None
    about: dict[str, Any] = {}
    spoken = [span for span in order if span.about]
    for span in spoken:
        about = {**span.about, **about}
    held = opened_json(about.get("metadata"))
    metadata: dict[str, Any] = {**held} if is_object(held) else {}
    of_trace = said_in(metadata)
    session, user = (about.get(one) or of_trace.get(one) for one in ("session", "user"))
    metadata |= {} if user is None else {"user": user}
    given = [one for span in spoken for one in feedback_of(span.about.get("feedback"))]
    if given:
        metadata["feedback"] = given
    started = seconds_of(order[0].start)
    if started is not None:
        metadata["started"] = datetime.fromtimestamp(started, UTC).isoformat()
    tags = about.get("tags")
    values: dict[str, object] = {
        "id": spans[0].trace,
        "query": query,
        "cluster": None if session is None else str(session),
        "tags": [str(tag) for tag in tags] if is_list(tags) else [],
        "metadata": metadata,
    }
    recorded = _retrieval(tree, hops, values)
    generation = _generation(tree, order, top)
    if generation is not None:
        recorded["generate"] = generation
    return Row(path, tree.line, values, recorded=recorded)


def _asked(order: Sequence[Span], hops: Sequence[Span]) -> tuple[Span, str | None]:
    """The topmost span that says what was asked, and the question.

    A model is asked with all that it is given: a search comes first.
    """
    models = [span for span in order if span.kind == MODEL]
    others = [span for span in order if span.kind not in (MODEL, RERANKER)]
    for span in (*others, *hops, *models):
        query = said(span.input, "question")
        if query is not None:
            return span, query
    return order[0], None


def _retrieval(
    tree: _Tree, hops: Sequence[Span], values: dict[str, object]
) -> dict[str, Outcome[Any]]:
    """What the searches found and what rerankers left of it; ids alone go into the values."""
    searches = tree.outermost(RETRIEVER)
    rerankers = tree.outermost(RERANKER)
    inner = [
        [hop for hop in hops if hop is one or one in tree.above(hop)]
        if one.documents is None
        else [one]
        for one in searches
    ]
    lists = [hop.documents for found in inner for hop in found if hop.documents is not None]
    failed = next((span for span in searches if span.error), None)
    if not lists and failed is None:
        lists = [one.before for one in rerankers if one.before is not None]
    found = _union(lists)
    seconds = _seconds(searches)
    if found is None:
        if failed is None:
            return {}
        return {"retrieve": failed_outcome("retrieve", failed.error or "", seconds=seconds)}
    if found and not any("text" in one for one in found):
        values["retrieved_context_ids"] = [one.get("id", "") for one in found]
        scores = [as_score(one.get("score")) for one in found]
        values["retrieved_scores"] = scores if None not in scores else None
        return {}
    metadata = None
    if len(hops) > 1:
        metadata = {"hops": [_hop(hop) for hop in hops]}
    recorded = {"retrieve": recorded_outcome(_result(found, metadata), seconds=seconds)}
    left = _union([one.documents for one in rerankers if one.documents is not None])
    if left is not None:
        outcome = recorded_outcome(_result(left, None), seconds=_seconds(rerankers))
        recorded["post_retrieve"] = outcome
    return recorded


def _hop(span: Span) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if span.documents is not None:
        has_ids = all("id" in one for one in span.documents)
        key, name = ("context_ids", "id") if has_ids else ("contexts", "text")
        found = {key: [one.get(name, "") for one in span.documents]}
    return {"query": said(span.input, "question"), **found, "seconds": _seconds([span])}


def _union(lists: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]] | None:
    """The documents of several lists, each once; None where there is no list."""
    if len(lists) == 1:
        return [*lists[0]]
    known = {str(one.get("id", one.get("text"))): one for many in reversed(lists) for one in many}
    keys = dict.fromkeys(str(one.get("id", one.get("text"))) for many in lists for one in many)
    return [known[key] for key in keys] if lists else None


def _result(found: Sequence[dict[str, Any]], metadata: Mapping[str, Any] | None) -> Any:
    decoder = Decoder(OWN, forms()["plain"])
    (raw,) = decoder.raw(DumpRecord("", None, {"chunks": [{"text": "", **one} for one in found]}))
    has_ids = any("id" in one for one in found)
    result = retrieved(decoder.retrieval(raw, "", ""), has_ids=has_ids)
    return replace(result, metadata=metadata)


def _generation(tree: _Tree, order: Sequence[Span], top: Span) -> Outcome[Any] | None:
    """The answer, of the span that holds the question, or else of the last model."""
    models = tree.outermost(MODEL, (RETRIEVER, RERANKER))
    seconds = _seconds(models)
    error = top.error if top.kind not in (RETRIEVER, RERANKER) else None
    if error is not None:
        return failed_outcome("generate", error, seconds=seconds)
    answer = said(top.output, "answer")
    for span in reversed(models):
        answer = said(span.output, "answer") if answer is None else answer
    if answer is None:
        return None
    usage: Counter[str] = Counter()
    inside = {one.id for span in order if span.kind == MODEL for one in tree.above(span)}
    for span in order:
        is_own = span.kind == MODEL and span.id not in inside
        if is_own and not any(one.kind == RETRIEVER for one in tree.above(span)):
            counts = {n: v for n, v in span.about.items() if n.endswith("tokens")}
            usage.update({n: int(count) for n, v in counts.items() if (count := as_score(v))})
    result: GenerationResult[Any] = GenerationResult(answer, metadata=dict(usage) or None)
    return recorded_outcome(result, seconds=seconds)


# --- times


def _seconds(spans: Sequence[Span]) -> float | None:
    """How long some spans took, one after the other; None where one does not say it."""
    known = [(seconds_of(span.start), seconds_of(span.end)) for span in spans]
    pairs = [(start, end) for start, end in known if start is not None and end is not None]
    if not spans or len(pairs) < len(spans):
        return None
    return sum(max(0.0, end - start) for start, end in pairs)
