"""Cases and documents of a source: every field checked, every problem noted, ids unique.

A row of a case gives a case and, where a system's answers stand in it, what they are recorded as.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import blake2b
from itertools import islice
from math import isnan
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from ragbench.core.case import Case
from ragbench.core.chunk import Document
from ragbench.core.outcome import Outcome
from ragbench.core.trace import Entry
from ragbench.errors import ConfigError
from ragbench.io.converted import text_files
from ragbench.io.detect import detect_format, reader_of
from ragbench.io.dumps.form import fields_shown, getter, without_path
from ragbench.io.fields import HIT_FIELDS, FieldMap, FieldPlan, document_fields, outcome_fields
from ragbench.io.recorded import Retrieved, outcomes
from ragbench.io.research_sets import flatten_squad_row
from ragbench.io.source import (
    IdRegister,
    Kind,
    Problems,
    Row,
    RowReader,
    Source,
    derived_id,
    noting_read_errors,
)
from ragbench.io.values import HOLDS_NUL, ValueProblem, check_depth, converters, parse_cell

RecordT = TypeVar("RecordT")


def read_cases(
    source: str | Path,
    *,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    split: str | None = None,
    encoding: str | None = None,
    problems: Problems | None = None,
) -> Iterator[Case]:
    """Reads cases; nothing is opened before the first one is asked for.

    A bad record never hides the others: it is noted, the good ones are yielded, and the error
    with all problems comes at the end. Who needs all or nothing takes nothing before the end.

    Example:
        >>> for case in read_cases("cases.jsonl", fields={"query": "Frage"}):  # doctest: +SKIP
        ...     print(case.id)

    Args:
        source: a file, a folder, ``-`` for standard input, or ``hf:owner/name[:split]``.
        format: name of the format; recognised from the source when not given.
        fields: field of a case to field of the source, for names that are not recognised. An
            empty name means that no field of the source has it.
        split: part of the source, for formats that have parts (``beir``, ``trec``, ``hf``).
        encoding: how text is encoded, when it is neither UTF-8 nor UTF-16 with a mark.
        problems: takes what is wrong; then no error is raised, and the caller looks at it.

    Yields:
        The cases, in the order of the source, with unique ids.

    Raises:
        ConfigError: no such format, encoding, or field of a case (at the call).
        DataError: something is wrong with the source (at the end; ``problems`` not given).
        MissingExtraError: the format needs a package that is not installed.
    """
    found = Problems() if problems is None else problems
    decoder = EntryDecoder(problems=found, fields=fields or {}, outcomes=False)
    place = Source.of(source, split=split, encoding=encoding)
    reader = None if format is None else reader_of(format)
    entries = _records(place, reader, decoder, is_raised=problems is None)
    return (entry.case for entry in entries)


def read_documents(
    source: str | Path,
    *,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    split: str | None = None,
    encoding: str | None = None,
    problems: Problems | None = None,
) -> Iterator[Document]:
    """Reads the documents of a corpus; arguments, order and errors as for ``read_cases``."""
    found = Problems() if problems is None else problems
    decoder = DocumentDecoder(problems=found, fields=fields or {})
    place = Source.of(source, split=split, encoding=encoding)
    reader = None if format is None else reader_of(format)
    return _records(place, reader, decoder, is_raised=problems is None)


def skipped_files(source: str | Path, *, format: str | None = None) -> list[str]:
    """The files of a folder of texts that `read_documents` does not read; else none."""
    origin = Source.of(source)
    if origin.path is None or not origin.is_folder:
        return []
    name = detect_format(origin, "documents", Problems()) if format is None else format
    return [*text_files(origin.path, others=True)] if name == "text" else []


def _records(
    source: Source, reader: RowReader | None, decoder: RowDecoder[RecordT], *, is_raised: bool
) -> Iterator[RecordT]:
    problems, kind = decoder.problems, decoder.KIND
    # Looking at a folder may fail as well as reading a file.
    with closing(source), noting_read_errors(source.name, problems):
        if reader is None and (name := detect_format(source, kind, problems)) is not None:
            reader = reader_of(name)
        for row in () if reader is None else reader(source, kind=kind, problems=problems):
            record = decoder.decode(row)
            if record is not None:
                yield record
    decoder.finish(source.name)
    if is_raised:
        problems.raise_if_any()


# --- rows to records

_NO_VALUE = frozenset({"NaN", "nan", "NULL", "Null", "null", "<NA>"})
"""What other programs write into a cell of a table that has no value."""
_SAYS_ITSELF = frozenset({"query", "id", "text", "title"})
"""Fields in which such a word is one."""
_BLANK_SAYS = frozenset({"text", "response"})
"""Fields in which a blank text is one: a document, an answer. In a table's cell it may be nothing,
and is an answer nowhere."""


@dataclass(kw_only=True, slots=True)
class RowDecoder(ABC, Generic[RecordT]):
    """Makes records of rows; what is wrong with a row is noted, and it gives none."""

    KIND: ClassVar[Kind]
    MAIN: ClassVar[str]
    """The field without which there is no record; an id is made of it where there is none."""

    problems: Problems
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    has_answers: bool = False
    """See `ragbench.io.fields.FieldMap`."""
    outcomes: bool = True
    """Whether what a system did is looked at; it never becomes a part of the case."""
    is_join: bool = False
    """Whether the rows only add to other cases: they may lack a query, and an id may come back."""
    no_values: Counter[str] = field(default_factory=Counter[str])
    """Cells of a table that hold a word such as NaN instead of a value, by field of the source."""
    plans: FieldMap = field(init=False)
    """How the rows so far were read."""
    _paths: tuple[tuple[str, Callable[[object], object]], ...] = field(init=False)
    """What a mapping names that stands deeper in a row."""
    _ids: IdRegister = field(default_factory=IdRegister)
    _count: int = 0
    _known: int = field(init=False)

    def __post_init__(self) -> None:
        self.plans = FieldMap(type(self).KIND, self.fields, has_answers=self.has_answers)
        self._paths = tuple(
            (path, getter(path))
            for target, path in self.fields.items()
            if "." in path and target not in HIT_FIELDS
        )
        self._known = len(self.problems)

    @abstractmethod
    def decode(self, row: Row) -> RecordT | None: ...

    def _read(self, row: Row, plan: FieldPlan) -> dict[str, Any] | None:
        """Converts the fields of a row, metadata included. None when one is wrong."""
        path, line, values, cells, _ = row
        known = len(self.problems)
        found: dict[str, Any] = {}
        has_nul, convert = False, converters()
        ignored = outcome_fields() if plan.has_outcome and not self.outcomes else ()
        for target, source in plan.bindings:
            value = values[source]
            if (
                value is None
                or target in ignored
                or (type(value) is float and isnan(value))
                or (
                    type(value) is str
                    and (cells or not value or value.isspace())
                    and not self._is_said(target, source, value, cells)
                )
            ):
                continue
            try:
                if cells:
                    value = parse_cell(target, str(value))
                converted = convert[target](value)
            except ValueProblem as problem:
                message = str(problem)
                if not (has_nul and message == HOLDS_NUL):  # said once of a record
                    self.problems.add(message, path=path, line=line, field=source)
                has_nul = has_nul or message == HOLDS_NUL
                continue
            if target in found and found[target] != converted:
                first = next(name for bound, name in plan.bindings if bound == target)
                message = _disagreement(target, first, source)
                self.problems.add(message, path=path, line=line, field=source)
            found[target] = converted
        if plan.rest:
            _add_rest(found, row, plan.rest, self.problems)
        return found if len(self.problems) == known else None

    def _is_said(self, target: str, source: str, value: str, cells: bool) -> bool:
        """Whether a cell, or a text that is blank, says anything."""
        if not value or value.isspace():
            # That says nothing as a reference, but is the text of a document as it stands.
            return target in _BLANK_SAYS and (target == "text" or not cells)
        if cells and value in _NO_VALUE and target not in _SAYS_ITSELF:
            self.no_values[source] += 1
            return False
        return True

    def _has_identity(self, found: dict[str, Any], row: Row, plan: FieldPlan) -> bool:
        """Sees to it that a record has its main field, and an id of its own."""
        if self.MAIN not in found:
            if not (self.is_join and "id" in found):
                _add_absent(self.MAIN, row, plan, self.problems)
                return False
            found[self.MAIN] = ""
        line = self._count if row.line is None else row.line
        if "id" not in found:
            made = derived_id("q" if self.MAIN == "query" else "d", found[self.MAIN])
            found["id"] = self._ids.add_derived(made, line)
        elif not self.is_join and (earlier := self._ids.add(found["id"], line)) is not None:
            message = f"'{found['id']}' is already the id of record {earlier}; ids must be unique"
            self.problems.add(message, path=row.path, line=line, field="id")
            return False
        return True

    def finish(self, source: str) -> None:
        """Notes what only the end shows: no record at all, or a mapping that never applied."""
        if self._count == 0:
            # A source that could not be read at all has said so already.
            if len(self.problems) == self._known:
                self.problems.add(f"holds no {self.KIND}", path=source)
            return
        for target in sorted(self.plans.unseen):
            name = self.fields[target]
            message = f"no record has the field that the mapping {target}={name} names"
            self.problems.add(message, path=source, field=name)


@dataclass(kw_only=True, slots=True)
class EntryDecoder(RowDecoder[Entry]):
    KIND: ClassVar[Kind] = "cases"
    MAIN: ClassVar[str] = "query"

    chunks: Retrieved = field(default_factory=Retrieved)
    """How retrieved chunks that are objects are read."""

    def decode(self, row: Row) -> Entry | None:
        self._count += 1
        if self._paths or type(row.values.get("answers")) is dict:
            row = self._flat(row)
        plan = self.plans[tuple(row.values)]
        known = len(self.problems)
        found = self._read(row, plan)
        if found is None:
            return None
        main: tuple[str, ...] = found.pop("reference", ())
        if "answers" in found:
            main += tuple([answer for answer in found.pop("answers") if answer not in main])
        if main:
            found["reference"] = main[0]
        if len(main) > 1:
            found["alternative_references"] = main[1:] + found.get("alternative_references", ())
        if "unanswerable" in found:
            if found.get("answerable") is found["unanswerable"]:
                message = "'answerable' and its opposite are given and contradict each other"
                self.problems.add(message, path=row.path, line=row.line, field="answerable")
            found["answerable"] = not found.pop("unanswerable")
        recorded: Mapping[str, Outcome[Any]] = {}
        if self.outcomes and (plan.has_outcome or row.recorded):
            recorded = outcomes(found, row, self.chunks, plan.chunks, self.problems)
        if len(self.problems) > known or not self._has_identity(found, row, plan):
            return None
        return Entry(case=Case(**found), recorded=recorded)

    def _flat(self, row: Row) -> Row:
        """The row with what stands deeper in it, where a mapping names it, at its top."""
        values = row.values
        if type(values.get("answers")) is dict:
            values = flatten_squad_row(values)
        for path, find in self._paths:
            if path not in values and (value := find(values)) is not None:
                values = {**without_path(values, path), path: value}
        return row if values is row.values else row._replace(values=values)


class DocumentDecoder(RowDecoder[Document]):
    KIND: ClassVar[Kind] = "documents"
    MAIN: ClassVar[str] = "text"

    def decode(self, row: Row) -> Document | None:
        self._count += 1
        plan = self.plans[tuple(row.values)]
        found = self._read(row, plan)
        if found is None or not self._has_identity(found, row, plan):
            return None
        return Document(**found)


def _disagreement(target: str, first: str, second: str) -> str:
    said = next((name for name in (first, second) if name.casefold() == "answer"), None)
    more = "" if said is None else f"; or, for a system's answer, --field response={said}"
    return (
        f"'{first}' and '{second}' both hold the {target} and disagree; "
        f"choose one: --field {target}={first} or --field {target}={second}{more}"
    )


def _add_rest(found: dict[str, Any], row: Row, rest: tuple[str, ...], problems: Problems) -> None:
    metadata: dict[str, Any] = {name: row.values[name] for name in rest}
    for name in rest:
        try:
            check_depth(metadata[name])
        except ValueProblem as problem:
            problems.add(str(problem), path=row.path, line=row.line, field=name)
    nested: dict[str, Any] = found.get("metadata") or {}
    for name in metadata.keys() & nested.keys():
        if metadata[name] != nested[name]:
            message = "stands in the record and in its 'metadata', and the two disagree"
            problems.add(message, path=row.path, line=row.line, field=name)
    found["metadata"] = {**nested, **metadata}


def _add_absent(target: str, row: Row, plan: FieldPlan, problems: Problems) -> None:
    source = next((source for bound, source in plan.bindings if bound == target), None)
    if source is not None:
        message = f"expected the {target} as text, found nothing"
        problems.add(message, path=row.path, line=row.line, field=source)
        return
    names = ", ".join(sorted(map(str, row.values))) or "none"
    documents = [name for name in document_fields()["text"] if name in row.values]
    hint = ""
    if target == "query" and documents:
        hint = f" (Documents, with a text under '{documents[0]}', are named with --corpus)"
    close = next(iter(get_close_matches(target, map(str, row.values), n=1)), "NAME")
    message = (
        f"no field for the {target}{{more}} (the fields are: {names}). Map one with "
        f"--field {target}={close}.{hint}".rstrip(".")
    )
    if any(type(value) in (list, dict) for value in row.values.values()):
        message += "\n" + "\n".join(fields_shown(row.values))
    problems.add_kind((row.path, target, plan), message, path=row.path, line=row.line)


# --- which of them are taken

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The first n cases, a random draw of n, or all.

    Raises:
        ConfigError: a number below 1, or both given.
    """

    limit: int | None = None
    sample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.limit is not None and self.sample is not None:
            raise ConfigError("--limit and --sample exclude each other: give one of them")
        for name, value in (("--limit", self.limit), ("--sample", self.sample)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}")

    def apply(
        self, cases: Iterable[ItemT], id_of: Callable[[ItemT], str] = attrgetter("id")
    ) -> Iterator[ItemT]:
        """The chosen cases.

        A draw takes the n cases with the smallest hash of seed and id: the same cases in whatever
        order the dataset stands, and when it grows, most of them again.
        """
        if self.sample is None:
            return islice(cases, self.limit)

        def rank(entry: tuple[int, ItemT]) -> bytes:
            text = f"{self.seed}:{id_of(entry[1])}".encode("utf-8", "backslashreplace")
            return blake2b(text, digest_size=16).digest()

        drawn = heapq.nsmallest(self.sample, enumerate(cases), key=rank)
        return (case for _, case in sorted(drawn, key=lambda entry: entry[0]))
