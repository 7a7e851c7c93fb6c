"""Traces of production as cases: what was asked, what each search found, what was answered.

Spans of a trace may stand anywhere in a file: they are brought together in a temporary file, and
memory stays flat. `ragbench.io.trace_cases` makes a case of each trace.
"""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby

import msgspec
from msgspec import structs

from ragbench.core.case import Turn
from ragbench.io.detect import Sign, detect_container, reader_of, sign_of, trace_files
from ragbench.io.dumps.form import AnyRow, DumpRecord
from ragbench.io.fields import read_table
from ragbench.io.json_files import OTLP, OUTER, json_elements, line_value, read_lines, shown_value
from ragbench.io.source import Kind, Problems, Row, Source, noting_read_errors
from ragbench.io.spans import (
    MODEL,
    RERANKER,
    RETRIEVER,
    Span,
    answer_in,
    question_in,
    span_forms,
    spans_of,
)
from ragbench.io.trace_cases import Tree, trace_row
from ragbench.io.turns import in_turn
from ragbench.io.values import ASSISTANT, USER, as_object, is_list
from ragbench.safe_text import counted

_LENGTH_LIMIT = "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"
"""The variable by which OpenTelemetry cuts long texts."""
_SHORTEST_LIMIT = 64
"""Characters: where no text is longer than a smaller power of two, that is chance."""
_SPANS_PER_PART = 1000
"""Spans of a trace that are written together: as many are in memory at a time."""
_MOST_TURNS = 30
"""Questions of a session that a case is read with: the last ones."""
_PICKLE_PROTOCOL = 5


def read_traces(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per trace of a source that is read once, such as a single file of cases.

    It is the reader of the format ``traces`` in ``formats.toml``, which names it: both change
    together.
    """
    file = TraceFile()
    with closing(file.db):
        yield from file.rows(source, problems=problems)


@dataclass(slots=True)
class _Counts:
    """What stands in a source, for the notes on it."""

    form_summaries: dict[str, None] = field(default_factory=dict[str, None])
    """The forms of its spans, in the order of the file."""
    spans: int = 0
    traces: int = 0
    searches: int = 0
    asked: int = 0
    """Traces with a question."""
    retrieved: int = 0
    """Of those: with documents that were found."""
    unread: int = 0
    """Of those: with a search, and no documents."""
    answered: int = 0
    longest: int = 0
    """Characters of the longest text."""
    as_long: int = 0
    """Texts of that length."""

    def add_text(self, text: object) -> None:
        """Counts the length of a text of a span; of any other value, nothing.

        Where many texts are equally long, and none is longer, OpenTelemetry cut them, which a note
        says.
        """
        if not isinstance(text, str):
            return
        length = len(text)
        if length > self.longest:
            self.longest = length
            self.as_long = 1
        elif length == self.longest:
            self.as_long += 1


@dataclass(kw_only=True, slots=True)
class TraceFile:
    """The spans of a source, brought together; read once, however often its rows are asked for."""

    db: sqlite3.Connection = field(
        default_factory=lambda: sqlite3.connect("", check_same_thread=False)
    )
    """A file of its own, gone when it is closed."""
    sql: Mapping[str, str] = field(default_factory=lambda: read_table("scratch.toml")["traces"])
    problems: Problems = field(default_factory=Problems)
    """What is wrong with the source: noted in the one reading of it, handed on at each call."""
    counts: _Counts = field(default_factory=_Counts)
    is_filled: bool = False
    """Whether the database holds the source already."""

    def rows(self, source: Source, *, problems: Problems) -> Iterator[Row]:
        """A row per trace of the source that has a question, with what is recorded of it.

        A trace of a session comes with the turns before it as its history. The source is read into
        the database at the first call alone.
        """
        if not self.is_filled:
            self.is_filled = True
            self.db.executescript(self.sql["tables"])
            with noting_read_errors(source.name, self.problems):
                self._read_into_database(source)
        for body, session, turn, first_place in self.db.execute(self.sql["in_order"]):
            # `_read_into_database` wrote the pickled row into a database that nothing else can
            # write: to unpickle it is safe.
            row = Row(*pickle.loads(body))
            if session is not None:
                # The session's first turn, that of this trace, and how many are read at the most.
                place = (first_place, first_place + turn - 1, _MOST_TURNS)
                history = self._history_before(place)
                fields = in_turn(history, session, row.values["tags"], number=turn)
                row = row._replace(values={**row.values, **fields})
            yield row
        problems.note(*self.problems)

    def _history_before(self, place: tuple[int, int, int]) -> list[Turn]:
        """The questions and answers of a session before one of its traces, the oldest first.

        A question such as "And in May?" is understood only with these.

        Args:
            place: the session's first turn, the turn of the trace, and how many turns are read.
        """
        history: list[Turn] = []
        latest_first = self.db.execute(self.sql["before"], place).fetchall()
        for question, answer in reversed(latest_first):
            for role, text in ((USER, question), (ASSISTANT, answer)):
                if text:
                    history.append(Turn(role=role, text=text))
        return history

    def _read_into_database(self, source: Source) -> None:
        """Reads the source into the database: its spans, then a case for each trace of them.

        Spans of a trace need not follow one another in a file, and a file may not fit in memory.
        The tables and queries are those of ``scratch.toml``; the order counts, since cases are made
        of spans.
        """
        self.db.executemany("INSERT INTO spans VALUES (?, ?)", self._packed_spans(source))
        # After the spans: an index that grows with each of them takes far longer.
        self.db.execute("CREATE INDEX by_trace ON spans (trace)")
        self.db.executemany("INSERT INTO cases VALUES (?, ?, ?, ?, ?)", self._cases(source))
        self.db.executescript(self.sql["sessions"])
        for note in self._notes_on_traces():
            source.notes[note] = None

    def _cases(self, source: Source) -> Iterator[tuple[object, ...]]:
        """A row of the database's table of cases for each trace that has a question.

        It is the pickled row of the case, and its session, time, question and answer, by which
        `rows` gives later traces of the session their history.
        """
        for row in self._case_rows(source):
            # What is recorded may be a read-only view, which cannot be pickled.
            fields = (row.path, row.line, row.values, row.cells, dict(row.recorded))
            yield (pickle.dumps(fields, _PICKLE_PROTOCOL), *_session_columns(row))

    def _packed_spans(self, source: Source) -> Iterator[tuple[str, bytes]]:
        """Rows of the database's table of spans: spans of a trace that follow one another, packed.

        A row has `_SPANS_PER_PART` at most: a whole trace might not fit in memory. One row per span
        would take far longer.
        """
        encode = msgspec.msgpack.Encoder().encode
        # `groupby` joins neighbours alone: a trace that comes again later in the file gets a
        # further row.
        for trace, spans in groupby(self._spans_of_source(source), key=lambda span: span.trace):
            part: list[Span] = []
            for span in spans:
                part.append(span)
                if len(part) == _SPANS_PER_PART:
                    yield trace, encode(_without_unneeded_texts(part))
                    part = []
            if part:
                yield trace, encode(_without_unneeded_texts(part))

    def _spans_of_source(self, source: Source) -> Iterator[Span]:
        """The spans of the source, in its order; a record that is no span is a problem.

        Counts what the notes on the source need, such as the longest text.
        """
        counts = self.counts
        for record in _records_of_files(source, self.problems):
            value = as_object(record.values)
            sign = sign_of(value)
            form = None if sign is None else span_forms().get(sign.spans)
            if form is None:
                self._note_no_span(record, sign)
                continue
            counts.form_summaries[form.summary] = None
            spans: list[Span] = []
            # What was read of a record before its error is kept.
            with noting_read_errors(record.path, self.problems, record.line):
                spans += spans_of(form, value, record.line)
            for span in spans:
                counts.spans += 1
                counts.add_text(span.input)
                counts.add_text(span.output)
                for document in span.documents or ():
                    counts.add_text(document.get("text", ""))
                yield span

    def _note_no_span(self, record: AnyRow, sign: Sign | None) -> None:
        """Notes a record of the source that is no span, once for all records of the same kind.

        Args:
            sign: by which the record is known to be of another kind, if it is.
        """
        contents = "" if sign is None else sign.what
        message = "it is no span in a form that is known{more}"
        if contents:
            message = f"it holds {contents}{{more}}"
        kind = (record.path, contents)
        self.problems.add_kind(kind, message, path=record.path, line=record.line)

    def _case_rows(self, source: Source) -> Iterator[Row]:
        """Makes a row of each trace with a question, and counts the traces for the source's notes.

        A trace that cannot be read is noted, and the others are read. A file in which no trace has
        a question is a problem: it gives no cases.
        """
        counts = self.counts
        decode = msgspec.msgpack.Decoder(list[Span]).decode
        for (trace,) in self.db.execute(self.sql["all"]):
            # A trace may lie in several parts, which come in the order of the file.
            spans: list[Span] = []
            for (body,) in self.db.execute(self.sql["parts"], (trace,)):
                spans += decode(body)
            counts.traces += 1
            searches: Sequence[Span] = ()
            row: Row | None = None
            with noting_read_errors(source.name, self.problems, spans[0].line):
                tree = Tree(spans)
                searches = tree.innermost(RETRIEVER)
                counts.searches += len(searches)
                row = trace_row(source.name, tree, searches)
            if row is None:
                continue
            counts.asked += 1
            if "retrieve" in row.recorded or "retrieved_context_ids" in row.values:
                counts.retrieved += 1
            elif searches:
                counts.unread += 1
            if "generate" in row.recorded:
                counts.answered += 1
            yield row
        if not counts.asked and not self.problems.count:
            spans_text = f"{counted(counts.traces, 'trace')} of {counted(counts.spans, 'span')}"
            message = f"no trace in it says what was asked: {spans_text} are read"
            self.problems.add(message, path=source.name)

    def _notes_on_traces(self) -> Iterator[str]:
        """What a user must know of the source: what is in it, what is left out, what was cut.

        Cut texts would be scored as if the system had answered so.
        """
        counts = self.counts
        forms_text = ", ".join(counts.form_summaries)
        searches_text = counted(counts.searches, "search").replace("searchs", "searches")
        yield (
            f"{counted(counts.traces, 'trace')} of {counted(counts.spans, 'span')} "
            f"({forms_text}): {counts.asked:,} with a question, {counts.retrieved:,} with "
            f"retrieval ({searches_text}), {counts.answered:,} with an answer"
        )
        without_question = counts.traces - counts.asked
        if without_question:
            yield f"{counted(without_question, 'trace')} without a question: left out"
        if counts.unread:
            yield (
                f"{counted(counts.unread, 'trace')} with retrieval of which no documents are "
                "recorded: retrieval is not known there"
            )
        # No text is longer than a limit, and it is a power of two, as in practice, or the one set.
        longest = counts.longest
        is_usual_limit = longest >= _SHORTEST_LIMIT and longest.bit_count() == 1
        is_set_limit = longest > 0 and os.environ.get(_LENGTH_LIMIT) == str(longest)
        if is_usual_limit or is_set_limit:
            yield (
                f"{counted(counts.as_long, 'text')} cut at {longest:,} characters, the limit "
                f"of an attribute: raise {_LENGTH_LIMIT} where the traces are made"
            )


def _without_unneeded_texts(spans: list[Span]) -> list[Span]:
    """The spans of a part of a trace, without texts of inner spans that no case needs.

    These are most of a file. Where the root has the question and the answer, of the other spans
    only the query of a search is still of use. A root that is a model, a search or a reranker is a
    step itself, so all texts stay.
    """
    roots = [span for span in spans if span.parent is None]
    # Where no span is a root, another part of the trace has it: nothing is left out.
    if not roots or roots[0].kind in (MODEL, RETRIEVER, RERANKER):
        return spans
    root = roots[0]
    if question_in(root.input) is None or answer_in(root.output) is None:
        return spans
    needed: list[Span] = []
    for span in spans:
        has_texts = span.input is not None or span.output is not None
        if span.parent is not None and has_texts:
            query = span.input if span.kind == RETRIEVER else None
            span = structs.replace(span, input=query, output=None)
        needed.append(span)
    return needed


def _session_columns(row: Row) -> tuple[object, ...]:
    """Session, time, question and answer of a trace, for those that follow it in its session.

    They are the last columns of the table of cases in ``scratch.toml``. A trace without a session
    has no traces that follow it, and all four are null. One without a time is the first of its
    session.
    """
    session = row.values["cluster"]
    if session is None:
        return (None, None, None, None)
    # Without a time a trace is the first of its session.
    started = as_object(row.values["metadata"]).get("started", "")
    outcome = row.recorded.get("generate")
    answer = None
    if outcome is not None and outcome.value is not None:
        answer = outcome.value.response
    return session, started, row.values["query"], answer


# --- records of files


def _records_of_files(source: Source, problems: Problems) -> Iterator[AnyRow]:
    """The records of a source of traces, of whatever container, not yet taken apart into spans.

    A source may be a folder of several files.
    """
    for file in trace_files(source):
        # A copy is read and closed: the source itself can then be read a second time.
        with closing(replace(file)) as place, noting_read_errors(file.name, problems):
            container, text = detect_container(place, "cases", problems)
            if container == "jsonl":
                for line in read_lines(place, problems):
                    # A look for keys that stand twice would take most of the time.
                    for value in line_value(line, place.name, problems, is_unchecked=True):
                        yield DumpRecord(place.name, line.number, value)
            elif container == "json":
                yield from _json_records(place, text, problems)
            elif container is not None:
                yield from reader_of(container)(place, kind="cases", problems=problems)


def _json_records(source: Source, text: str, problems: Problems) -> Iterator[DumpRecord]:
    """The records of a JSON file of traces, one in memory at a time if they are in an array.

    Args:
        text: how the file begins; by it a list of records is told from a single record.
    """
    outer = as_object(shown_value(text))
    keys = [name for name in OUTER if is_list(outer.get(name))]
    key = keys[0] if keys else None
    is_one = False
    if outer and key is None:
        is_one = True
    elif outer and key not in OTLP:
        # Some tools have a list by such a name within a single record.
        sign = sign_of(outer)
        is_one = sign is not None and sign.spans != ""
    for line, _, value in json_elements(source, key, problems, is_one=is_one):
        # An element of OTLP is read by the name of its list: it gets a list of its own.
        if key in OTLP and not is_one:
            value = {key: [value]}
        yield DumpRecord(source.name, line, value)
