"""A case a row, as a folder that ``datasets.load_from_disk`` loads."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ragbench.data.atomic import folder_written_whole
from ragbench.extras import require
from ragbench.prepare.export.arrow import arrow_batches, arrow_schema
from ragbench.prepare.export.base import Exported, Scores, Tally
from ragbench.runs.trace import Trace

__all__ = ["write"]


def write(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """Writes the folder with a row for every case.

    The rows go to an Arrow file first and are mapped from there, so that memory stays flat.

    Raises:
        InputError: the path cannot be written or holds something else than such a folder, or a
            value has no place in the table.
        MissingExtraError: datasets or pyarrow is not installed.
    """
    datasets: Any = require("datasets", extra="hf")
    tally = Tally()
    with (
        folder_written_whole(path, replaceable=_is_dataset) as folder,
        TemporaryDirectory(dir=path.parent, prefix=".ragbench-") as scratch,
    ):
        rows = Path(scratch) / "rows.arrow"
        _write_arrow(rows, traces, scores, tally)
        mapped = datasets.Dataset.from_file(str(rows))
        # Without a fingerprint of the content, the folder would hold the time of writing.
        dataset = datasets.Dataset(mapped.data, fingerprint=_fingerprint(rows))
        with _quiet(datasets):
            # Left to itself, datasets 5 saves no rows as no files, and cannot load that again.
            dataset.save_to_disk(str(folder), num_shards=None if tally.written else 1)
        del mapped, dataset
    return tally.exported(path)


def _write_arrow(path: Path, traces: Iterable[Trace], scores: Scores, tally: Tally) -> None:
    pa: Any = require("pyarrow", extra="hf")
    schema = arrow_schema(scores)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as stream:
        for batch in arrow_batches(traces, scores=scores, schema=schema, tally=tally):
            stream.write_batch(batch)
        if tally.written == 0:
            # datasets cannot read a stream without any batch.
            stream.write_batch(pa.RecordBatch.from_pylist([], schema=schema))


def _fingerprint(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _is_dataset(folder: Path) -> bool:
    return (folder / "dataset_info.json").is_file() and (folder / "state.json").is_file()


@contextmanager
def _quiet(datasets: Any) -> Generator[None, None, None]:
    """Keeps the library's progress bar off the terminal, and its setting as it was."""
    shown = not datasets.are_progress_bars_disabled()
    if shown:
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()
