"""The table as Arrow batches: what the Parquet and the Hugging Face exports share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

from ragbench.errors import InputError
from ragbench.extras import require
from ragbench.prepare.export.base import Scores, Tally
from ragbench.prepare.export.table import Column, Kind, columns, table_row
from ragbench.runs.trace import Trace

__all__ = ["arrow_batches", "arrow_schema"]

_BATCH_ROWS = 1000
"""Rows held in memory at a time; fixed, because it decides the bytes of the file."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def arrow_schema(scores: Scores) -> Any:
    """The table's Arrow schema: strings, doubles, booleans and lists of them, all nullable.

    A column of JSON texts is called ``<name>_json``, because its type is not what the name says:
    a reader that expects a mapping there would refuse the table.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    pa: Any = require("pyarrow", extra="hf")
    types = {
        Kind.TEXT: pa.string(),
        Kind.TEXTS: pa.list_(pa.string()),
        Kind.NUMBER: pa.float64(),
        Kind.NUMBERS: pa.list_(pa.float64()),
        Kind.FLAG: pa.bool_(),
        Kind.JSON: pa.string(),
    }
    return pa.schema([(_name(column), types[column.kind]) for column in columns(scores)])


def arrow_batches(
    traces: Iterable[Trace], *, scores: Scores, schema: Any, tally: Tally
) -> Iterator[Any]:
    """Record batches of the schema, counting the cases.

    Raises:
        InputError: a text holds a lone surrogate, which Arrow cannot store, or metadata holds
            something without a JSON form.
    """
    pa: Any = require("pyarrow", extra="hf")
    names = [column.name for column in columns(scores)]
    remaining = iter(traces)
    while chunk := list(islice(remaining, _BATCH_ROWS)):
        rows = [table_row(trace, scores) for trace in chunk]
        try:
            arrays = [
                pa.array([row[name] for row in rows], type=field.type)
                for name, field in zip(names, schema, strict=True)
            ]
        except UnicodeEncodeError as error:
            raise InputError(_surrogate(rows)) from error
        tally.written += len(rows)
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _name(column: Column) -> str:
    return f"{column.name}_json" if column.kind is Kind.JSON else column.name


def _surrogate(rows: list[dict[str, Any]]) -> str:
    """Names the first place that cannot be stored."""
    places = (
        f"case '{row['id']}': column '{name}'"
        for row in rows
        for name, value in row.items()
        if any(_SURROGATES.search(text) for text in _texts(value))
    )
    return (
        f"{next(places, 'a text')} holds a lone surrogate, which this format cannot store; "
        "export to jsonl instead"
    )


def _texts(value: Any) -> list[str]:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    return [text for text in listed if isinstance(text, str)]
