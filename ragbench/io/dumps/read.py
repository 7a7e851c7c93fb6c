"""A dump that is read once, from front to back; and what a search found written as one."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from ragbench.core.chunk import Chunk, origin_of
from ragbench.core.roles import FieldRole
from ragbench.core.validation import RetrievalDump
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.addresses import size_of_address, version_of_address
from ragbench.io.atomic import written_whole
from ragbench.io.detect import detect_container
from ragbench.io.dumps.decode import Decoder, raw_retrievals
from ragbench.io.dumps.form import AnyRow, DumpMapping, ScoreKind
from ragbench.io.dumps.forms import find_form
from ragbench.io.dumps.guess import guess_mapping
from ragbench.io.dumps.pieces import (
    KEPT,
    Passed,
    PieceItem,
    PlacedRetrieval,
    SplitDump,
    read_records,
)
from ragbench.io.encoding import decoded
from ragbench.io.limits import UnreadableError
from ragbench.io.only import Only
from ragbench.io.rankings import read_queries
from ragbench.io.roles import dump_roles
from ragbench.io.source import IdRegister, Problems, Source, derived_id, noting_read_errors
from ragbench.io.values import ValueProblem

_SAMPLE = 20
_NO_QUERY = (
    "the dump does not say what was asked. Name it with --query TEXT, --queries FILE, or "
    "--field query=FIELD"
)
_NONE_FOUND = "expected a query, found none"


def dump_row(query_id: str, query: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
    """One query with its chunks, best first, as JSON.

    A chunk has ``id``, ``text``, ``score`` and ``metadata``; where they are known also
    ``document_id``, ``start`` and ``end``, its place in that document.
    """
    rows: list[dict[str, Any]] = []
    for chunk in chunks:
        row = {"id": chunk.id, "text": chunk.text, "score": chunk.score}
        rows.append({**row, "metadata": dict(chunk.metadata), **origin_of(chunk)})
    return {"query_id": query_id, "query": query, "chunks": rows}


def write_retrieval_dump(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    written = 0
    with written_whole(path) as file:
        for row in rows:
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
            written += 1
    return written


@dataclass(kw_only=True, slots=True)
class OpenDump:
    name: str
    mapping: DumpMapping
    problems: Problems
    """The first problems so far; all were counted in ``malformed``."""
    repeated: int = 0
    """How many queries have an id that an earlier one has."""
    split: SplitDump | None = None
    whole: str = ""
    """Why they cannot, where the dump is named by an address."""
    notes: tuple[str, ...] = ()
    roles: tuple[FieldRole, ...] = ()
    """Where the query and the chunks are read from, and why."""
    _retrievals: Iterator[RetrievalDump]

    def __iter__(self) -> Iterator[RetrievalDump]:
        """The retrievals, in the order of the file. What is malformed is left out and noted."""
        seen = IdRegister()
        for number, retrieval in enumerate(self._retrievals, start=1):
            if seen.add(retrieval.query_id, number) is not None:
                self.repeated += 1
            yield retrieval

    def read_elsewhere(self, pieces: Iterable[Iterable[PieceItem]]) -> None:
        self.problems.items.clear()  # those of the first lines, which are read again
        self.problems.count = 0
        self._retrievals = _placed(self.name, pieces, self.mapping, self.problems)

    @property
    def malformed(self) -> int:
        return self.problems.count


@contextmanager
def open_responses(
    path: str | Path,
    *,
    format: str | None = None,
    overrides: Mapping[str, str] | None = None,
    scores: ScoreKind | None = None,
    query: str | None = None,
    queries: str | Path | None = None,
    split: str | None = None,
    encoding: str | None = None,
    only: Only | None = None,
) -> Generator[OpenDump, None, None]:
    """What `ragbench.open_dump` opens unless a source holds more: responses, rows, records."""
    form = None if format is None else find_form(format)
    problems = Problems(most=KEPT)
    with closing(decoded(Source.of(path, split=split, encoding=encoding))) as source:
        container = None
        with noting_read_errors(source.name, problems):
            if source.is_folder:
                raise UnreadableError("expected a file with retrieval results, found a folder")
            container, _ = detect_container(source, "cases", problems)
        problems.raise_if_any()
        known = None
        if query is not None or queries is not None:
            known = _given_queries(query, queries, encoding, source.notes)
        records = read_records(source, container or "", problems)
        if only is not None:
            source.notes[f"Only records {only.described} are taken"] = None
            records = only.of(records, problems, source.name)
        first, records = _read_ahead(records, problems)
        if not first:
            problems.raise_if_any()
            raise DataError([Problem(message="it holds no query", path=source.name)])
        decoder = guess_mapping(first, form=form, overrides=overrides)
        if scores is not None and decoder.mapping.score is not None:
            decoder = Decoder(replace(decoder.mapping, scores=scores), decoder.form)
        if known is None and decoder.mapping.query is None:
            raise DataError([Problem(message=_NO_QUERY, path=source.name)])
        ranges, whole = None, ""
        if source.address is not None:
            ranges, whole = _ranges(source, container, decoder, known, only)
        yield OpenDump(
            name=source.name,
            mapping=decoder.mapping,
            problems=problems,
            split=ranges,
            whole=whole,
            notes=tuple(source.notes),
            roles=dump_roles(decoder.mapping, source.name, overrides or {}),
            _retrievals=_retrievals(decoder, records, known, query, problems),
        )


def _read_ahead(
    records: Iterator[AnyRow], problems: Problems
) -> tuple[list[AnyRow], Iterator[AnyRow]]:
    """The first records; and all, with the problems where they belong: among those of decoding."""
    first: list[AnyRow] = []
    counts: list[int] = []
    for record in islice(records, _SAMPLE):
        first.append(record)
        counts.append(len(problems.items))
    noted = [*problems.items]

    def again() -> Iterator[AnyRow]:
        problems.items.clear()
        problems.count -= len(noted)
        before = 0
        for record, count in zip(first, counts, strict=True):
            problems.note(*noted[before:count])
            before = count
            yield record
        problems.note(*noted[before:])
        yield from records

    return first, again() if noted else chain(first, records)


def _given_queries(
    query: str | None, queries: str | Path | None, encoding: str | None, notes: dict[str, None]
) -> Mapping[str, str] | None:
    """The texts of queries by their ids."""
    if query is not None and queries is not None:
        raise ConfigError("--query and --queries exclude one another")
    if query is not None:
        return {derived_id("q", query): query}
    return None if queries is None else read_queries(queries, encoding, notes)


def _ranges(
    source: Source, container: str | None, decoder: Decoder, known: object, only: Only | None
) -> tuple[SplitDump | None, str]:
    """A dump with an address by ranges; or why it cannot be read by them."""
    mapping, address = decoder.mapping, source.address or ""
    reasons = (
        (source.is_packed, "it is compressed"),
        (container != "jsonl", "it is not JSON Lines"),
        (source.is_wide or source.encoding not in (None, "utf-8"), "it is not UTF-8"),
        (mapping.layout == "rows", "several lines make one query"),
        (known is not None, "its queries come from elsewhere"),
        (only is not None, "only some of its records are taken"),
    )
    why = next((reason for holds, reason in reasons if holds), None)
    if why is not None:
        return None, why
    try:
        version, size = version_of_address(address), size_of_address(address)
    except OSError:
        return None, "its server gives no ranges"
    split = SplitDump(
        name=source.name,
        address=address,
        size=size,
        version=version,
        limits=source.limits,
        mapping=mapping,
        form=decoder.form.name,
    )
    return split, ""


def _retrievals(
    decoder: Decoder,
    records: Iterable[AnyRow],
    known: Mapping[str, str] | None,
    only: str | None,
    problems: Problems,
) -> Iterator[RetrievalDump]:
    in_order = iter(() if known is None else known.items())
    derived = IdRegister()
    for number, raw in enumerate(raw_retrievals(decoder, records, problems), start=1):
        record, query, query_id = raw.record, raw.query, raw.query_id
        if query is None and known is not None:
            if only is not None and number > 1:
                message = "--query names one query and this is another response: use --queries FILE"
                problems.add(message, path=record.path, line=record.line)
                continue
            if query_id is None:
                query_id, query = next(in_order, (None, None))
            else:
                query = known.get(query_id)
        if query is None:
            message = _NONE_FOUND
            if query_id is not None and known is not None:
                message = f"no query has the id '{query_id}'"
            place = decoder.mapping.query or "query"
            problems.add(message, path=record.path, line=record.line, field=place)
            continue
        if query_id is None:
            query_id = derived.add_derived(derived_id("q", query), number)
        try:
            yield decoder.retrieval(raw, query_id, query)
        except ValueProblem as problem:
            problems.add(str(problem), path=record.path, line=record.line)


def _placed(
    name: str, pieces: Iterable[Iterable[PieceItem]], mapping: DumpMapping, problems: Problems
) -> Iterator[RetrievalDump]:
    derived = IdRegister()
    before = number = 0
    for item in chain.from_iterable(pieces):
        problem = item if isinstance(item, Problem) else None
        if isinstance(item, int):
            if item < 0:
                return
            before += item
        elif isinstance(item, Passed):
            problems.count += item.problems
        elif isinstance(item, PlacedRetrieval):
            number += 1
            query_id, problem = item.query_id, item.problem
            if item.query is None:
                place = mapping.query or "query"
                problem = Problem(message=_NONE_FOUND, path=name, line=item.line, field=place)
            elif query_id is None:
                query_id = derived.add_derived(derived_id("q", item.query), number)
            if item.retrieval is not None and query_id is not None:
                yield replace(item.retrieval, query_id=query_id)
        if problem is not None:  # of a piece, before which so many lines stand
            line = None if problem.line is None else before + problem.line
            problems.note(replace(problem, line=line))
