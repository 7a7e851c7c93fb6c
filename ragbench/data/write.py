"""Cases and corpora as JSONL in ragbench's own form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import orjson

from ragbench.data.atomic import written_whole
from ragbench.data.codec import encode_case, encode_document
from ragbench.data.ids import IdRegister
from ragbench.data.values import ValueProblem, check_depth
from ragbench.errors import DataError, Problem
from ragbench.records.cases import Case
from ragbench.records.corpus import Document

__all__ = ["write_cases", "write_documents"]

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
