"""Rows of a table, one a chunk, to the retrievals that they are of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ragbench.data.dumps.decode import Decoder, RawRetrieval
from ragbench.data.dumps.form import is_object
from ragbench.data.dumps.records import DumpRecord
from ragbench.data.ids import IdRegister
from ragbench.data.problems import Problems
from ragbench.data.values import ValueProblem, describe

__all__ = ["group_rows"]


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
