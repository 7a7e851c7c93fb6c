"""Ragbench's own JSONL: cases and documents, and all that a run holds of each case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import orjson

from ragbench.core.case import Case, Evidence
from ragbench.core.chunk import Document
from ragbench.core.outcome import Cell
from ragbench.core.trace import Trace
from ragbench.errors import DataError, Problem
from ragbench.io.atomic import written_whole
from ragbench.io.export import Exported, Scores, Tally
from ragbench.io.ids import IdRegister
from ragbench.io.json_text import in_case, json_bytes
from ragbench.io.values import ValueProblem, check_depth, is_object

_CASE_FIELDS = tuple(Case.__dataclass_fields__)
_EVIDENCE_FIELDS = tuple(Evidence.__dataclass_fields__)
_KNOWN_NONE = frozenset({"reference_contexts", "reference_context_ids", "grades", "text"})
"""Fields of which an empty one says something: that it is known to be none."""


def encode_case(case: Case) -> dict[str, Any]:
    """A case as a JSON object: fields in a fixed order, those that say nothing left out."""
    values = _said(case, _CASE_FIELDS)
    if case.evidence:
        values["evidence"] = [_said(span, _EVIDENCE_FIELDS) for span in case.evidence]
    return values


def encode_document(document: Document) -> dict[str, Any]:
    return _said(document, ("id", "title", "text", "metadata"))


def _said(record: Case | Document | Evidence, names: Iterable[str]) -> dict[str, Any]:
    values = {name: getattr(record, name) for name in names}
    return {
        name: dict(value) if is_object(value) else value
        for name, value in values.items()
        if value is not None and (value not in ((), {}) or name in _KNOWN_NONE)
    }


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
            try:
                check_depth(values)
                out.write(orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE))
            except (TypeError, ValueProblem) as error:
                _refuse(f"cannot be written as JSON: {error}", path, count, None)
    return count


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
