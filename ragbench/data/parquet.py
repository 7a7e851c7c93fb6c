"""Parquet, a thousand rows at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator

from ragbench.data.arrow import json_rows
from ragbench.data.problems import Problems
from ragbench.data.rows import Kind, Row
from ragbench.data.source import Source
from ragbench.extras import require

__all__ = ["read"]

_BATCH_ROWS = 1000


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a record; the row's line is its number in the file.

    Memory holds pages of one row group and a thousand rows. Standard input is held whole, because
    the format is read from its end.
    """
    parquet = require("pyarrow.parquet", extra="hf")
    number = 0
    with source.opened(problems) as stream:
        if stream is None:
            return
        seekable = stream if stream.seekable() else io.BytesIO(stream.read())
        try:
            with parquet.ParquetFile(seekable) as file:
                for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                    for values in json_rows(batch):
                        number += 1
                        yield Row(source.name, number, values)
        except (ValueError, OSError) as error:
            # Arrow's own errors are subclasses of these two, and so is bad UTF-8 in a column.
            message = f"not a readable Parquet file after record {number}: {error}"
            problems.add(message, path=source.name)
