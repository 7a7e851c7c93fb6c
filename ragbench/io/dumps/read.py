"""A dump that is read once, from front to back; and what a search found written as one."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ragbench.core.chunk import Chunk
from ragbench.core.validation import RetrievalDump
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.addresses import size_of_address, version_of_address
from ragbench.io.atomic import written_whole
from ragbench.io.dumps.decode import Decoder, RawRetrieval, group_rows
from ragbench.io.dumps.form import DumpForm, DumpMapping, DumpRecord, Layout, ScoreKind
from ragbench.io.dumps.forms import find_form
from ragbench.io.dumps.guess import check_overrides, guess_mapping
from ragbench.io.dumps.pieces import Passed, PieceItem, SplitDump, container_of, read_records
from ragbench.io.ids import IdRegister, derived_id
from ragbench.io.json_files import load
from ragbench.io.lines import decoded
from ragbench.io.rankings import (
    Queries,
    corpus_texts,
    is_beir_result,
    read_queries,
    read_ranking_records,
    read_result,
)
from ragbench.io.recorded import Texts
from ragbench.io.source import Problems, Source
from ragbench.io.trec import read_run
from ragbench.io.values import ValueProblem

_SAMPLE = 20
_KEPT = 100
"""Problems that are kept; the others are counted."""
_NO_QUERY = (
    "the dump does not say what was asked. Name it with --query TEXT, --queries FILE, or "
    "--map query=FIELD"
)
_NONE_FOUND = "expected a query, found none"
_NO_RANGES = "its server gives no ranges"


def dump_row(query_id: str, query: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
    """One query with its chunks, best first, as JSON.

    A chunk has ``id``, ``text``, ``score`` and ``metadata``; where they are known also
    ``document_id``, ``start`` and ``end``, its place in that document.
    """
    return {"query_id": query_id, "query": query, "chunks": [_chunk(chunk) for chunk in chunks]}


def _chunk(chunk: Chunk) -> dict[str, Any]:
    place = {"document_id": chunk.document_id, "start": chunk.start, "end": chunk.end}
    return {
        "id": chunk.id,
        "text": chunk.text,
        "score": chunk.score,
        "metadata": dict(chunk.metadata),
        **{name: value for name, value in place.items() if value is not None},
    }


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
    repeated_ids: list[str] = field(default_factory=list[str])
    """The first query ids that stand more than once."""
    repeated: int = 0
    """How many queries have an id that an earlier one has."""
    split: SplitDump | None = None
    whole: str = ""
    """Why they cannot, where the dump is named by an address."""
    notes: tuple[str, ...] = ()
    _retrievals: Iterator[RetrievalDump]
    _more: int = 0

    def __iter__(self) -> Iterator[RetrievalDump]:
        """The retrievals, in the order of the file. What is malformed is left out and noted."""
        seen = IdRegister()
        for number, retrieval in enumerate(self._retrievals, start=1):
            if seen.add(retrieval.query_id, number) is not None:
                self.repeated += 1
                if len(self.repeated_ids) < 5:
                    self.repeated_ids.append(retrieval.query_id)
            if len(self.problems) > _KEPT:
                self._trim()
            yield retrieval
        if len(self.problems) > _KEPT:
            self._trim()

    def read_elsewhere(self, pieces: Iterable[Iterable[PieceItem]]) -> None:
        self.problems.items.clear()  # those of the first lines, which are read again
        self.problems.more = 0
        self._retrievals = _placed(self.name, pieces, self.mapping, self.problems)

    @property
    def malformed(self) -> int:
        return len(self.problems) + self._more

    def _trim(self) -> None:
        """A million bad lines must not fill the memory."""
        over = self.problems.items[_KEPT:]
        self._more += len(over) + self.problems.more
        self.problems.more = 0
        del self.problems.items[_KEPT:]


@contextmanager
def open_dump(
    path: str | Path,
    *,
    format: str | None = None,
    overrides: Mapping[str, str] | None = None,
    scores: ScoreKind | None = None,
    query: str | None = None,
    queries: str | Path | None = None,
    corpus: str | Path | None = None,
    split: str | None = None,
    encoding: str | None = None,
) -> Generator[OpenDump, None, None]:
    """Opens a dump: finds out its form and which of its fields means what.

    Example:
        >>> with open_dump("dump.jsonl") as dump:  # doctest: +SKIP
        ...     print(dump.mapping.described())
        ...     for retrieval in dump:
        ...         print(retrieval.query, len(retrieval.chunks))

    Args:
        path: a file, or ``-`` for standard input.
        format: name of the form; recognised when not given.
        overrides: field of a retrieval to field of the dump; see
            `ragbench.io.dumps.form.MAPPABLE`.
        scores: whether the higher scores or the lower ones are better; shown by the order of the
            chunks when not given.
        query: the query, for a dump that is one response without it.
        queries: file of the queries, for responses that do not hold them: joined by id where the
            dump has ids, else by their order.
        corpus: file or folder of the texts, for forms that hold ids alone.
        split: the sheet of a workbook; the first when not given.
        encoding: how text is encoded, that of ``queries`` too; where it is not UTF-8 it is guessed
            when not given, and `OpenDump.notes` says so.

    Raises:
        ConfigError: no such form, field or encoding, or an option that the form needs is not given.
        DataError: the file cannot be read, or nothing in its first records is understood.
    """
    if overrides:
        check_overrides(overrides)
    form = None if format is None else find_form(format)
    problems = Problems()
    with ExitStack() as stack:
        source = decoded(Source.of(path, split=split, encoding=encoding))
        stack.callback(source.close)
        container = container_of(source, problems) or ""
        problems.raise_if_any()
        has_queries = query is not None or queries is not None
        known = _given_queries(query, queries, encoding) if has_queries else None
        texts = stack.enter_context(corpus_texts(corpus)) if corpus is not None else None
        joined = form if isinstance(form, str) else None
        if form is None and container in ("run", "json"):
            joined = _joined_form(container, source, texts)
        if joined is None:
            records = read_records(source, container, problems)
        else:
            records = _joined(joined, source, texts, known, corpus, problems)
            form = find_form("ragbench")
        begin = _Begin.of(records, problems)
        if not begin.records:
            problems.raise_if_any()
            raise DataError([Problem(message="it holds no query", path=source.name)])
        decoder = _decoder(begin.records, form, joined, overrides, scores)
        asked = None if joined else known
        if asked is None and decoder.mapping.query is None:
            raise DataError([Problem(message=_NO_QUERY, path=source.name)])
        raw = _raw(decoder, chain(begin.again(problems), records), problems)
        ranges: SplitDump | None = None
        whole = ""
        if source.address is not None:
            kind = container if joined is None else joined
            ranges, whole = _ranges(source, source.address, kind, decoder, known)
        yield OpenDump(
            name=source.name,
            mapping=decoder.mapping,
            problems=problems,
            split=ranges,
            whole=whole,
            notes=(*source.notes, *(known.notes if known is not None else ())),
            _retrievals=_retrievals(decoder, raw, asked, query, problems),
        )


class _Begin(NamedTuple):
    """The first records of a dump, read ahead, each with the problems before it."""

    records: list[DumpRecord]
    before: list[list[Problem]]
    """Those before each record; at the end, those behind the last one."""

    @classmethod
    def of(cls, records: Iterator[DumpRecord], problems: Problems) -> _Begin:
        begin, known = cls([], []), 0
        for record in islice(records, _SAMPLE):
            begin.records.append(record)
            begin.before.append(problems.items[known:])
            known = len(problems.items)
        begin.before.append(problems.items[known:])
        return begin

    def again(self, problems: Problems) -> Iterator[DumpRecord]:
        """The records, and the problems where they belong: among those of decoding."""
        problems.items.clear()
        for record, before in zip(self.records, self.before, strict=False):
            problems.items += before
            yield record
        problems.items += self.before[-1]


def _given_queries(
    query: str | None, queries: str | Path | None, encoding: str | None
) -> Queries | None:
    if query is not None and queries is not None:
        raise ConfigError("--query and --queries exclude one another")
    if query is not None:
        return Queries(texts={derived_id("q", query): query})
    return None if queries is None else read_queries(queries, encoding)


def _joined_form(container: str, source: Source, texts: Texts | None) -> str | None:
    if container == "run":
        return "trec"
    # Standard input can be read only once.
    if texts is None or source.path is None:
        return None
    return "beir" if is_beir_result(load(Source.of(source.path), Problems())) else None


def _joined(
    form: str,
    source: Source,
    texts: Texts | None,
    known: Queries | None,
    corpus: str | Path | None,
    problems: Problems,
) -> Iterator[DumpRecord]:
    if texts is None:
        raise ConfigError(f"{source.name} holds ids alone: name their texts with --corpus PATH")
    if known is None:
        # A BEIR folder holds the queries beside the corpus.
        if corpus is None or not Path(corpus).is_dir():
            raise ConfigError(
                f"{source.name} holds ids alone: name the queries with --queries FILE"
            )
        known = read_queries(corpus)
    rankings = (read_run if form == "trec" else read_result)(source, problems)
    return read_ranking_records(rankings, source.name, texts, known, problems)


def _decoder(
    sample: Sequence[DumpRecord],
    form: DumpForm | str | None,
    joined: str | None,
    overrides: Mapping[str, str] | None,
    scores: ScoreKind | None,
) -> Decoder:
    """What reads the records: as the user says, and as the first of them look."""
    named = form if isinstance(form, DumpForm) else None
    mapping, unwrapping = guess_mapping(sample, form=named, overrides=overrides)
    mapping = replace(mapping, format=joined or mapping.format)
    if scores is not None and mapping.score is not None:
        mapping = replace(mapping, scores=scores)
    return Decoder(mapping, unwrapping)


def _ranges(
    source: Source, address: str, container: str, decoder: Decoder, known: Queries | None
) -> tuple[SplitDump | None, str]:
    """A dump with an address by ranges; or why it cannot be read by them."""
    mapping = decoder.mapping
    reasons = (
        (source.is_packed, "it is compressed"),
        (container != "jsonl", "it is not JSON Lines"),
        (source.is_wide or source.encoding not in (None, "utf-8"), "it is not UTF-8"),
        (mapping.layout is Layout.ROWS, "several lines make one query"),
        (known is not None, "its queries come from elsewhere"),
    )
    why = next((reason for holds, reason in reasons if holds), None)
    if why is not None:
        return None, why
    try:
        version, size = version_of_address(address), size_of_address(address)
    except OSError:
        return None, _NO_RANGES
    if size is None:
        return None, _NO_RANGES
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


def _raw(
    decoder: Decoder, records: Iterable[DumpRecord], problems: Problems
) -> Iterator[RawRetrieval]:
    if decoder.mapping.layout is Layout.ROWS:
        yield from group_rows(decoder, records, problems)
        return
    for record in records:
        try:
            yield from decoder.raw(record)
        except ValueProblem as problem:
            problems.add(str(problem), path=record.path, line=record.line)


def _retrievals(
    decoder: Decoder,
    raws: Iterable[RawRetrieval],
    known: Queries | None,
    only: str | None,
    problems: Problems,
) -> Iterator[RetrievalDump]:
    in_order = iter(() if known is None else known.texts.items())
    derived = IdRegister()
    for number, raw in enumerate(raws, start=1):
        record, query, query_id = raw.record, raw.query, raw.query_id
        if query is None and known is not None:
            if only is not None and number > 1:
                message = "--query names one query and this is another response: use --queries FILE"
                problems.add(message, path=record.path, line=record.line)
                continue
            if query_id is None:
                query_id, query = next(in_order, (None, None))
            else:
                query = known.texts.get(query_id)
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
        if isinstance(item, int):
            if item < 0:
                return
            before += item
        elif isinstance(item, Passed):
            problems.more += item.problems
        elif isinstance(item, Problem):
            _add(problems, item, before)
        elif item.query is None:
            number += 1
            missing = Problem(
                message=_NONE_FOUND, path=name, line=item.line, field=mapping.query or "query"
            )
            _add(problems, missing, before)
        else:
            number += 1
            query_id = item.query_id
            if query_id is None:
                query_id = derived.add_derived(derived_id("q", item.query), number)
            if item.problem is not None:
                _add(problems, item.problem, before)
            elif item.retrieval is not None:
                yield replace(item.retrieval, query_id=query_id)


def _add(problems: Problems, problem: Problem, before: int) -> None:
    """Adds a problem of a piece, before which so many lines stand."""
    line = None if problem.line is None else before + problem.line
    problems.add(problem.message, path=problem.path, line=line, field=problem.field)
