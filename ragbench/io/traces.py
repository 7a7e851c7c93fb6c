"""Traces of production as cases: what was asked, what each search found, what was answered.

Spans of a trace may stand anywhere in a file: they are brought together in a temporary file, and
memory stays flat. `ragbench.io.trace_cases` makes a case of each trace.
"""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import Any

import msgspec
from msgspec import structs

from ragbench.core.case import Turn
from ragbench.io.detect import detect_container, reader_of, sign_of, trace_files
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
from ragbench.io.values import ASSISTANT, USER, as_object, is_list, is_object
from ragbench.safe_text import counted

_LIMIT = "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"
_SHORTEST_LIMIT = 64
_BATCH = 1000
_MOST_TURNS = 30
"""Questions of a session that a case is read with: the last ones."""


def read_traces(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per trace."""
    file = TraceFile()
    with closing(file.db):
        yield from file.rows(source, problems=problems)


@dataclass(kw_only=True, slots=True)
class TraceFile:
    """The spans of a source, brought together; read once, however often its rows are asked for."""

    db: sqlite3.Connection = field(
        default_factory=lambda: sqlite3.connect("", check_same_thread=False)
    )
    """A file of its own, gone when it is closed."""
    sql: Mapping[str, str] = field(default_factory=lambda: read_table("scratch.toml")["traces"])
    problems: Problems = field(default_factory=Problems)
    found: Counter[str] = field(default_factory=Counter[str])

    def rows(self, source: Source, *, problems: Problems) -> Iterator[Row]:
        """A row per trace that asks something, with what is recorded of it."""
        if not self.found:
            self._fill(source)
        for body, session, turn, first in self.db.execute(self.sql["in_order"]):
            row = Row(*pickle.loads(body))  # written below, where no one else can write
            if session is not None:
                known = (first, first + turn - 1, _MOST_TURNS)
                said = self.db.execute(self.sql["before"], known).fetchall()
                texts = [text for exchange in reversed(said) for text in exchange]
                turns = zip((USER, ASSISTANT) * len(said), texts, strict=True)
                history = [Turn(role=role, text=text) for role, text in turns if text]
                place = in_turn(history, session, row.values["tags"], number=turn)
                row = row._replace(values={**row.values, **place})
            yield row
        problems.note(*self.problems)

    def _fill(self, source: Source) -> None:
        self.db.executescript(self.sql["tables"])
        self.db.executemany("INSERT INTO spans VALUES (?, ?)", self._parts(source))
        self.db.execute("CREATE INDEX by_trace ON spans (trace)")
        rows_of = (
            (pickle.dumps((*row[:4], dict(row.recorded)), 5), *_in_session(row))
            for row in self._made(source)
        )
        self.db.executemany("INSERT INTO cases VALUES (?, ?, ?, ?, ?)", rows_of)
        self.db.executescript(self.sql["sessions"])
        for note in self._notes():
            source.notes[note] = None

    def _parts(self, source: Source) -> Iterator[tuple[str, bytes]]:
        """Spans of a trace that follow one another in the file, so many at a time."""
        encode = msgspec.msgpack.Encoder().encode
        for trace, spans in groupby(self._spans(source), key=lambda span: span.trace):
            while some := [*islice(spans, _BATCH)]:
                yield trace, encode(_needed(some))

    def _spans(self, source: Source) -> Iterator[Span]:
        found = self.found
        for record in _records(source, self.problems):
            value = record.values
            sign = sign_of(value) if is_object(value) else None
            form = None if sign is None else span_forms().get(sign.spans)
            if form is None or not is_object(value):
                what = "" if sign is None else sign.what
                message = f"it holds {what}" if what else "it is no span in a form that is known"
                self.problems.add_kind(
                    (record.path, what), message + "{more}", path=record.path, line=record.line
                )
                continue
            found[f"form {form.summary}"] += 1
            for span in spans_of(form, value, record.line):
                found["spans"] += 1
                documents = [document.get("text", "") for document in span.documents or ()]
                texts = (span.input, span.output, *documents)
                for length in (len(text) for text in texts if isinstance(text, str)):
                    if length > found["longest"]:
                        found["longest"], found["as long"] = length, 0
                    found["as long"] += length == found["longest"]
                yield span

    def _made(self, source: Source) -> Iterator[Row]:
        """Makes the rows, and counts what stands in the file."""
        found, decode = self.found, msgspec.msgpack.Decoder(list[Span]).decode
        for (trace,) in self.db.execute(self.sql["all"]):
            parts = self.db.execute(self.sql["parts"], (trace,))
            tree = Tree([span for (body,) in parts for span in decode(body)])
            found["traces"] += 1
            hops = tree.innermost(RETRIEVER)
            found["hops"] += len(hops)
            row = trace_row(source.name, tree, hops)
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
        # No text is longer than a limit, and it is a power of two, as in practice, or the one set.
        longest = found["longest"]
        is_power = longest >= _SHORTEST_LIMIT and longest.bit_count() == 1
        if is_power or (longest and os.environ.get(_LIMIT) == str(longest)):
            yield (
                f"{counted(found['as long'], 'text')} cut at {longest:,} characters, the limit "
                f"of an attribute: raise {_LIMIT} where the traces are made"
            )


def _needed(spans: list[Span]) -> list[Span]:
    """The spans, without texts that nobody asks for where the root says it all: most of a file."""
    root = next((span for span in spans if span.parent is None), None)
    is_said = (
        root is not None
        and root.kind not in (MODEL, RETRIEVER, RERANKER)
        and question_in(root.input) is not None
        and answer_in(root.output) is not None
    )
    if not is_said:
        return spans
    return [
        structs.replace(span, input=span.input if span.kind == RETRIEVER else None, output=None)
        if span.parent is not None and (span.input is not None or span.output is not None)
        else span
        for span in spans
    ]


def _in_session(row: Row) -> tuple[object, ...]:
    """What a trace is to those that follow it in its session; nothing of one without."""
    session, outcome = row.values["cluster"], row.recorded.get("generate")
    if session is None:
        return (None,) * 4
    metadata: Any = row.values["metadata"]
    answer = None if outcome is None or outcome.value is None else outcome.value.response
    return session, metadata.get("started", ""), row.values["query"], answer


# --- records of files


def _records(source: Source, problems: Problems) -> Iterator[AnyRow]:
    for file in trace_files(source):
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
    """The records of a JSON file, one in memory at a time where they stand in an array."""
    whole = as_object(shown_value(text))
    key = next((name for name in OUTER if is_list(whole.get(name))), None)
    sign = sign_of(whole)
    is_one = whole and (key is None or (sign is not None and sign.spans and key not in OTLP))
    for line, _, value in json_elements(source, key, problems, is_one=bool(is_one)):
        is_part = key in OTLP and not is_one
        yield DumpRecord(source.name, line, {key: [value]} if is_part else value)
