"""Ragbench's own JSONL, written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import orjson

from ragbench.core.case import Case, Evidence
from ragbench.core.chunk import Document
from ragbench.core.outcome import Cell
from ragbench.core.trace import Trace
from ragbench.errors import DataError, Problem
from ragbench.io.atomic import written_whole
from ragbench.io.decoder import build_case, build_document, read_fields
from ragbench.io.export import Exported, Scores, Tally
from ragbench.io.fields import FieldPlan
from ragbench.io.ids import IdRegister
from ragbench.io.json_text import in_case, json_bytes
from ragbench.io.source import Problems, Row
from ragbench.io.values import ValueProblem, check_depth

_CASE_FIELDS = tuple(Case.__dataclass_fields__)
_DOCUMENT_FIELDS = tuple(Document.__dataclass_fields__)


def encode_case(case: Case) -> dict[str, Any]:
    """A case as a JSON object: fields in a fixed order, those that say nothing left out.

    An empty tuple in ``reference_contexts`` or ``reference_context_ids`` says something and is
    kept.
    """
    values: dict[str, Any] = {"id": case.id, "query": case.query}
    if case.reference is not None:
        values["reference"] = case.reference
    if case.alternative_references:
        values["alternative_references"] = case.alternative_references
    if case.reference_contexts is not None:
        values["reference_contexts"] = case.reference_contexts
    if case.reference_context_ids is not None:
        values["reference_context_ids"] = case.reference_context_ids
    if case.grades is not None:
        values["grades"] = dict(case.grades)
    if case.evidence:
        values["evidence"] = [_encode_evidence(span) for span in case.evidence]
    return values | _encode_rest(case)


def decode_case(values: Mapping[str, Any]) -> Case:
    """The case of a JSON object in ragbench's own form; unknown fields become metadata."""
    return build_case(_decode(values, _CASE_FIELDS, ("id", "query")))


def encode_document(document: Document) -> dict[str, Any]:
    values: dict[str, Any] = {"id": document.id}
    if document.title is not None:
        values["title"] = document.title
    values["text"] = document.text
    if document.metadata:
        values["metadata"] = dict(document.metadata)
    return values


def decode_document(values: Mapping[str, Any]) -> Document:
    """The document of a JSON object in ragbench's own form; unknown fields become metadata."""
    return build_document(_decode(values, _DOCUMENT_FIELDS, ("id", "text")))


def _encode_rest(case: Case) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if case.answerable is not None:
        values["answerable"] = case.answerable
    if case.cluster is not None:
        values["cluster"] = case.cluster
    if case.tags:
        values["tags"] = case.tags
    if case.language is not None:
        values["language"] = case.language
    if case.metadata:
        values["metadata"] = dict(case.metadata)
    return values


def _encode_evidence(span: Evidence) -> dict[str, Any]:
    values: dict[str, Any] = {"text": span.text}
    if span.document_id is not None:
        values["document_id"] = span.document_id
    if span.start is not None:
        values["start"] = span.start
    if span.end is not None:
        values["end"] = span.end
    return values


def _decode(
    values: Mapping[str, Any], names: tuple[str, ...], required: tuple[str, ...]
) -> dict[str, Any]:
    problems = Problems()
    found = read_fields(Row("", None, values), _plan(tuple(values), names), problems)
    for name in required:
        if found is not None and name not in found:
            problems.add(f"expected the {name}, found none", field=name)
    problems.raise_if_any()
    return found or {}


@lru_cache(maxsize=256)
def _plan(present: tuple[str, ...], names: tuple[str, ...]) -> FieldPlan:
    return FieldPlan(
        bindings=tuple((name, name) for name in present if name in names),
        rest=tuple(name for name in present if name not in names),
    )


_RecordT = TypeVar("_RecordT", Case, Document)


def write_cases(cases: Iterable[Case], path: str | Path) -> int:
    """Writes one case a line. The file appears whole, or what was there before stays.

    Args:
        cases: the cases; consumed one at a time.
        path: where to; compressed when it ends in ``.gz``.

    Returns:
        How many were written.

    Raises:
        DataError: a case has no id or query, an id that another one has, or holds what JSON
            cannot.
        InputError: the file cannot be written.
    """
    return _write(cases, Path(path), encode_case, "query")


def write_documents(documents: Iterable[Document], path: str | Path) -> int:
    """Writes one document a line; arguments, return value and errors as for ``write_cases``."""
    return _write(documents, Path(path), encode_document, None)


def _write(
    records: Iterable[_RecordT],
    path: Path,
    encode: Callable[[_RecordT], dict[str, Any]],
    needed: str | None,
) -> int:
    ids = IdRegister()
    count = 0
    with written_whole(path) as out:
        for count, record in enumerate(records, start=1):
            values = encode(record)
            for name in ("id", needed):
                if name is not None and not values[name].strip():
                    _refuse(f"the {name} is empty", path, count, name)
            earlier = ids.add(record.id, count)
            if earlier is not None:
                _refuse(f"'{record.id}' is already the id of record {earlier}", path, count, "id")
            out.write(_line(values, path, count))
    return count


def _line(values: dict[str, Any], path: Path, count: int) -> bytes:
    try:
        check_depth(values)
        return orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)
    except (TypeError, ValueProblem) as error:
        _refuse(f"cannot be written as JSON: {error}", path, count, None)


def _refuse(message: str, path: Path, line: int, field: str | None) -> NoReturn:
    raise DataError([Problem(message=message, path=str(path), line=line, field=field)])


def write(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """Everything that is known, one case per line: inputs, results, statuses, failures, scores.

    One JSON object per line, in UTF-8.

    The case's fields stand at the top level under their own names, so that the file is also a
    case file. Beside them stand ``retrieval``, ``post_retrieval``, ``generation`` (each an
    outcome: status, value, reason, failure, seconds) and ``scores`` (metric to cell). Null means
    not known or not given, an empty list known to be none.
    """
    tally = Tally()
    with written_whole(path, make_folders=True) as file:
        for trace in traces:
            with in_case(trace.case.id):
                line = json_bytes(_record(trace, scores.of(trace.case.id)))
            file.write(line + b"\n")
            tally.written += 1
    return tally.exported(path)


def _record(trace: Trace, cells: Iterable[tuple[str, Cell | None]]) -> dict[str, Any]:
    case = trace.case
    return {
        **{field.name: getattr(case, field.name) for field in fields(case)},
        "retrieval": trace.retrieval,
        "post_retrieval": trace.post_retrieval,
        "generation": trace.generation,
        "scores": {metric: cell for metric, cell in cells if cell is not None},
    }
