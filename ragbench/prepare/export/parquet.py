"""A case a row, as Parquet with typed list columns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragbench.data.atomic import written_whole
from ragbench.extras import require
from ragbench.prepare.export.arrow import arrow_batches, arrow_schema
from ragbench.prepare.export.base import Exported, Scores, Tally
from ragbench.runs.trace import Trace

__all__ = ["write"]


def write(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """Writes a Parquet file with a row for every case, in row groups of a fixed size.

    The same run gives the same bytes with the same release of pyarrow, whose name and version
    stand in the file.

    Raises:
        InputError: the path cannot be written, or a value has no place in the table.
        MissingExtraError: pyarrow is not installed.
    """
    pq: Any = require("pyarrow.parquet", extra="hf")
    schema = arrow_schema(scores)
    tally = Tally()
    with (
        written_whole(path, make_folders=True) as file,
        pq.ParquetWriter(file, schema, version="2.6", compression="zstd", compression_level=3) as w,
    ):
        for batch in arrow_batches(traces, scores=scores, schema=schema, tally=tally):
            w.write_batch(batch)
    return tally.exported(path)
