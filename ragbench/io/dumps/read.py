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
from ragbench.core.in_words import UnreadableError
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
from ragbench.io.only import Only
from ragbench.io.rankings import read_queries
from ragbench.io.roles import dump_roles
from ragbench.io.source import (
    IdRegister,
    Problems,
    Source,
    derived_id,
    looking_at,
    noting_read_errors,
)

_SAMPLE = 20
"""Records from which the mapping is guessed."""
_NO_QUERY = (
    "the dump does not say what was asked. Name it with --query TEXT, --queries FILE, or "
    "--field query=FIELD"
)
_NONE_FOUND = "expected a query, found none"


def dump_row(
    query_id: str, query: str, chunks: Sequence[Chunk], *, score_kind: str | None = None
) -> dict[str, Any]:
    """One query with its chunks, best first, as the JSON object of a line of a dump.

    A chunk has ``id``, ``text``, ``score`` and ``metadata``; where they are known also
    ``document_id``, ``start`` and ``end``, its place in that document. Dumps on disk have these
    keys, and other commands read them.

    Args:
        score_kind: what the scores are, such as ``"cosine"`` or ``"fused_rank"``; None where that
            is not known, and is not written.
    """
    chunk_rows: list[dict[str, Any]] = []
    for chunk in chunks:
        chunk_row: dict[str, Any] = {
            "id": chunk.id,
            "text": chunk.text,
            "score": chunk.score,
            "metadata": dict(chunk.metadata),
        }
        chunk_row.update(origin_of(chunk))
        chunk_rows.append(chunk_row)
    row: dict[str, Any] = {"query_id": query_id, "query": query}
    if score_kind is not None:
        row["score_kind"] = score_kind
    row["chunks"] = chunk_rows
    return row


def write_retrieval_dump(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Writes rows of `dump_row`, one per line, whole or not at all; returns how many there were.

    Rows are taken one at a time: each may be searched for only then.
    """
    written = 0
    with written_whole(path) as file:
        for row in rows:
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
            written += 1
    return written


@dataclass(kw_only=True, slots=True)
class OpenDump:
    """A dump whose form is recognised, to be read once."""

    name: str
    mapping: DumpMapping
    problems: Problems
    """The first problems so far; all were counted in ``malformed``."""
    repeated: int = 0
    """How many queries have an id that an earlier one has."""
    split: SplitDump | None = None
    """The dump by ranges; None where it cannot be read by them."""
    whole: str = ""
    """Why it cannot, where the dump is named by an address."""
    notes: tuple[str, ...] = ()
    roles: tuple[FieldRole, ...] = ()
    """Where the query and the chunks are read from, and why."""
    _retrievals: Iterator[RetrievalDump]

    def __iter__(self) -> Iterator[RetrievalDump]:
        """The retrievals of the dump, in the order of the file; malformed ones are noted instead.

        Counts queries whose id an earlier one has, which a note says.
        """
        seen = IdRegister()
        for number, retrieval in enumerate(self._retrievals, start=1):
            if seen.add(retrieval.query_id, number) is not None:
                self.repeated += 1
            yield retrieval

    def read_elsewhere(self, pieces: Iterable[Iterable[PieceItem]]) -> None:
        """Takes the dump's retrievals from pieces that workers read, in the order of the pieces.

        Problems that were noted so far are dropped, since workers read the first lines again.
        """
        self.problems.items.clear()  # those of the first lines, which are read again
        self.problems.count = 0
        self._retrievals = _retrievals_of_pieces(self.name, pieces, self.mapping, self.problems)

    @property
    def malformed(self) -> int:
        """The number of records of the dump that could not be read, which reports show.

        `problems` keeps only the first of their messages.
        """
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
    """Opens a file of retrieval results: responses of a store, rows with a chunk each, or records.

    `ragbench.open_dump` comes here unless the source holds more, such as traces. The form is
    guessed from the first records.

    Args:
        format: the form's name, where the user gives it.
        overrides: field of a dump to its path, as the user says.
        scores: whether scores are distances, where the user says it.
        query: the one query, for a single response without it.
        queries: the file of the queries, for responses without theirs.
        only: which records are taken.

    Raises:
        DataError: no retrieval is recognised, or the queries are not known.
    """
    form = None if format is None else find_form(format)
    problems = Problems(most=KEPT)
    with closing(decoded(Source.of(path, split=split, encoding=encoding))) as source:
        container = None
        with noting_read_errors(source.name, problems):
            if source.is_folder:
                raise UnreadableError("expected a file with retrieval results, found a folder")
            container, _ = detect_container(source, "cases", problems)
        problems.raise_if_any()
        texts = _query_texts(query, queries, encoding, source.notes)
        records = read_records(source, container or "", problems)
        if only is not None:
            source.notes[f"Only records {only.described} are taken"] = None
            records = only.of(records, problems, source.name)
        with looking_at(source.name):
            sample, records = _read_ahead(records, problems)
        if not sample:
            problems.raise_if_any()
            raise DataError([Problem(message="it holds no query", path=source.name)])
        with looking_at(source.name):
            decoder = guess_mapping(sample, form=form, overrides=overrides)
        if scores is not None and decoder.mapping.score is not None:
            # A new decoder, because it prepares its functions from the mapping when it is made.
            decoder = Decoder(replace(decoder.mapping, scores=scores), decoder.form)
        if texts is None and decoder.mapping.query is None:
            raise DataError([Problem(message=_NO_QUERY, path=source.name)])
        ranges: SplitDump | None = None
        reason = ""
        if source.address is not None:
            reason = _reason_against_ranges(
                source, container, decoder.mapping, has_texts=texts is not None, only=only
            )
            if not reason:
                ranges = _split_dump(source, decoder)
                reason = "" if ranges is not None else "its server gives no ranges"
        yield OpenDump(
            name=source.name,
            mapping=decoder.mapping,
            problems=problems,
            split=ranges,
            whole=reason,
            notes=tuple(source.notes),
            roles=dump_roles(decoder.mapping, source.name, overrides or {}),
            _retrievals=_retrievals_of_records(decoder, records, texts, query, problems),
        )


def _read_ahead(
    records: Iterator[AnyRow], problems: Problems
) -> tuple[list[AnyRow], Iterator[AnyRow]]:
    """The first records of a dump, and all of its records with problems in the file's order.

    The form is guessed from the first records, before any is decoded. So their problems are taken
    out of the list, and noted again when each record is decoded.
    """
    sample: list[AnyRow] = []
    counts: list[int] = []
    for record in islice(records, _SAMPLE):
        sample.append(record)
        counts.append(len(problems.items))
    noted = [*problems.items]
    # Without a problem there is nothing to bring into order.
    if not noted:
        return sample, chain(sample, records)

    return sample, _with_problems_in_order(sample, counts, noted, records, problems)


def _with_problems_in_order(
    sample: Sequence[AnyRow],
    counts: Sequence[int],
    noted: Sequence[Problem],
    records: Iterator[AnyRow],
    problems: Problems,
) -> Iterator[AnyRow]:
    """All records of a dump, each after the problems that were noted before it.

    Args:
        sample: the first records, which were read ahead.
        counts: for each of them, how many problems had been noted then.
        noted: the problems of reading ahead.
        records: the records behind the sample.
        problems: the dump's; they are emptied, and noted again in the order of the file.
    """
    problems.items.clear()
    # The problems of reading ahead are noted a second time below, which counts them again.
    problems.count -= len(noted)
    noted_before = 0
    for record, count in zip(sample, counts, strict=True):
        problems.note(*noted[noted_before:count])
        noted_before = count
        yield record
    problems.note(*noted[noted_before:])
    yield from records


def _query_texts(
    query: str | None, queries: str | Path | None, encoding: str | None, notes: dict[str, None]
) -> Mapping[str, str] | None:
    """The texts of the queries that the user names for a dump, by id; None where he names none.

    Responses of stores often lack the query that they answer.

    Raises:
        ConfigError: the user names both a query and a file.
    """
    if query is not None and queries is not None:
        raise ConfigError("--query and --queries exclude one another")
    if query is not None:
        # The id that a record with this query gets, where it has none.
        return {derived_id("q", query): query}
    if queries is None:
        return None
    return read_queries(queries, encoding, notes)


def _reason_against_ranges(
    source: Source,
    container: str | None,
    mapping: DumpMapping,
    *,
    has_texts: bool,
    only: Only | None,
) -> str:
    """Why a dump with an address cannot be read by ranges of bytes; empty where it may be.

    By ranges, several workers read it at once, each a piece of it. The reason is shown to the user.

    Args:
        container: the name of the file's format.
        has_texts: whether the user names the queries.
    """
    if source.is_packed:
        return "it is compressed"
    if container != "jsonl":
        return "it is not JSON Lines"
    if source.is_wide or source.encoding not in (None, "utf-8"):
        return "it is not UTF-8"
    if mapping.layout == "rows":
        return "several lines make one query"
    if has_texts:
        return "its queries come from elsewhere"
    if only is not None:
        return "only some of its records are taken"
    return ""


def _split_dump(source: Source, decoder: Decoder) -> SplitDump | None:
    """A dump with an address, to be read by ranges; None where its server gives none.

    Its size and version are asked for now, so that a later change of the file is noticed.
    """
    address = source.address or ""
    try:
        # The version is asked for before the size, so that a change of the file in between is
        # noticed later.
        version = version_of_address(address)
        size = size_of_address(address)
    except OSError:
        return None
    return SplitDump(
        name=source.name,
        address=address,
        size=size,
        version=version,
        limits=source.limits,
        mapping=decoder.mapping,
        form=decoder.form.name,
    )


def _retrievals_of_records(
    decoder: Decoder,
    records: Iterable[AnyRow],
    texts: Mapping[str, str] | None,
    only_query: str | None,
    problems: Problems,
) -> Iterator[RetrievalDump]:
    """The retrievals of a dump's records, each with its query and an id.

    A retrieval whose query is not known is a problem, since it cannot be judged.

    Args:
        texts: the queries that the user names, by id: for records that do not hold theirs.
        only_query: the query, where the user names a single one.
    """
    # Records without an id of their query take the queries in the order of the user's file.
    texts_in_order = iter(() if texts is None else texts.items())
    derived = IdRegister()
    for number, raw in enumerate(raw_retrievals(decoder, records, problems), start=1):
        record = raw.record
        query = raw.query
        query_id = raw.query_id
        if query is None and texts is not None:
            if only_query is not None and number > 1:
                message = "--query names one query and this is another response: use --queries FILE"
                problems.add(message, path=record.path, line=record.line)
                continue
            if query_id is None:
                query_id, query = next(texts_in_order, (None, None))
            else:
                query = texts.get(query_id)
        if query is None:
            message = _NONE_FOUND
            if query_id is not None and texts is not None:
                message = f"no query has the id '{query_id}'"
            field = decoder.mapping.query or "query"
            problems.add(message, path=record.path, line=record.line, field=field)
            continue
        if query_id is None:
            query_id = derived.add_derived(derived_id("q", query), number)
        with noting_read_errors(record.path, problems, record.line):
            yield decoder.retrieval(raw, query_id, query)


def _retrievals_of_pieces(
    name: str, pieces: Iterable[Iterable[PieceItem]], mapping: DumpMapping, problems: Problems
) -> Iterator[RetrievalDump]:
    """The retrievals of a dump that workers read in pieces, in the order of the file.

    Line numbers of problems are those in a piece: they become those of the whole dump here. Queries
    without an id get the same ids as when the dump is read in one go.

    Args:
        name: the dump, as problems name it.
    """
    derived = IdRegister()
    lines_before = 0
    number = 0
    for item in chain.from_iterable(pieces):
        problem = item if isinstance(item, Problem) else None
        if isinstance(item, int):  # the end of a piece
            # A line that is too long ends the dump, see `SplitDump.read`.
            if item < 0:
                return
            lines_before += item
        elif isinstance(item, Passed):
            problems.count += item.problems
        elif isinstance(item, PlacedRetrieval):
            number += 1
            query_id = item.query_id
            problem = item.problem
            if item.query is None:
                field = mapping.query or "query"
                problem = Problem(message=_NONE_FOUND, path=name, line=item.line, field=field)
            elif query_id is None:
                query_id = derived.add_derived(derived_id("q", item.query), number)
            if item.retrieval is not None and query_id is not None:
                yield replace(item.retrieval, query_id=query_id)
        if problem is not None:
            line = None if problem.line is None else lines_before + problem.line
            problems.note(replace(problem, line=line))
