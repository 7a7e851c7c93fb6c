"""Parquet and Hugging Face datasets, read and written."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import orjson

from ragbench.core.in_words import UnreadableError
from ragbench.core.reading import Reading, words_of
from ragbench.core.trace import Trace
from ragbench.errors import InputError
from ragbench.io.atomic import folder_written_whole, written_whole
from ragbench.io.export import ColumnKind, Exported, Scores, columns, table_row
from ragbench.io.limits import ReadLimits
from ragbench.io.source import Kind, Problems, Row, Source, has_few_fields
from ragbench.io.values import is_list, is_object
from ragbench.plugins import require


def json_rows(batch: Any) -> Iterator[dict[str, object]]:
    """The rows of an Arrow table or record batch as JSON objects, which is what all readers yield.

    Dates become ISO 8601 text, decimals text, NaN null. Binary values (images, sound) become null:
    no JSON can hold them, and no metric reads them.
    """
    for row in batch.to_pylist():
        # Keys that are no texts: those of a map column may be numbers or dates.
        yield orjson.loads(orjson.dumps(row, _json_value, orjson.OPT_NON_STR_KEYS))


def _json_value(value: object) -> str | None:
    """The JSON value of a cell of Arrow that orjson cannot write: it calls this for unknown types.

    A decimal becomes text, so that no digit is lost. Anything else is None, which is null: a column
    of images must not keep the texts beside it from being read.
    """
    if isinstance(value, Decimal):
        return str(value)
    return None


_BATCH_ROWS = 1000
"""Rows of a batch that is written, or read from a dataset."""


def is_saved_folder(folder: Path) -> bool:
    """Whether a folder was saved by Hugging Face datasets, with one split or several.

    Such a folder is read by that package; any other is searched for files of cases or documents.
    """
    return _is_dataset(folder) or (folder / "dataset_dict.json").is_file()


def _is_dataset(folder: Path) -> bool:
    """Whether a folder holds one split that Hugging Face datasets saved, by the files it writes.

    An export overwrites only such a folder: anything else in its place may be the user's own work.
    """
    has_info = (folder / "dataset_info.json").is_file()
    return has_info and (folder / "state.json").is_file()


def read_hugging_face(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a record; the row's line is its number in the split.

    A hub name is ``owner/name`` or ``owner/name/configuration``. Where no split is named, the only
    split or else ``test`` is read. Hub datasets are streamed, saved folders memory-mapped.
    """
    if source.hub == "":
        raise UnreadableError("expected a name such as hf:owner/name or hf:owner/name:test")
    datasets: Any = require("datasets", extra="hf")
    number = 0

    def damaged(error: Exception) -> UnreadableError:
        """The error of a dataset that breaks off: it names the last record that could be read.

        `Reading` calls it with whatever the package raises. ``number`` is the counter of the
        enclosing reader, so the user sees how far the dataset is sound.
        """
        # The package raises what its many back ends raise, whose types say more than their words.
        reason = f"{type(error).__name__}: {words_of(error)}"
        return UnreadableError(f"cannot be read after record {number}: {reason}")

    with Reading(damaged):
        if source.hub is None:
            loaded = datasets.load_from_disk(str(source.path))
        else:
            # owner/name/configuration; old datasets have no owner.
            owner, slash, name_and_configuration = source.hub.partition("/")
            name, _, configuration = name_and_configuration.partition("/")
            name = f"{owner}{slash}{name}"
            loaded = datasets.load_dataset(name, configuration or None, streaming=True)
        if isinstance(loaded, dict):
            splits = cast("Mapping[str, Any]", loaded)
            loaded = splits[source.chosen(sorted(splits))]
        for table in loaded.with_format("arrow").iter(batch_size=_BATCH_ROWS):
            for values in json_rows(table):
                number += 1
                yield Row(source.name, number, values)


def read_parquet(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a record; the row's line is its number in the file.

    Memory holds pages of one row group and a hundred rows. Standard input is held whole, because
    the format is read from its end.
    """
    parquet = require("pyarrow.parquet", extra="hf")
    number = 0
    with source.opened(problems) as stream:
        if stream is None:
            return

        def damaged(error: Exception) -> UnreadableError:
            """The error of a Parquet file that breaks off: it names the last readable record.

            `Reading` calls it with whatever pyarrow raises. ``number`` is the counter of the
            enclosing reader, so the user sees how far the file is sound.
            """
            reason = f"not a readable Parquet file after record {number}: {words_of(error)}"
            return UnreadableError(reason)

        with Reading(damaged):
            whole_file = stream
            if not stream.seekable():
                whole_file = io.BytesIO(source.limits.read_all(stream))
            with parquet.ParquetFile(whole_file) as file:
                if not has_few_fields(len(file.schema_arrow), source.name, None, problems):
                    return
                for batch in file.iter_batches(batch_size=_batch_rows(file, source.limits)):
                    for values in json_rows(batch):
                        number += 1
                        try:
                            source.limits.check_cells(_cells(values))
                        except UnreadableError as error:
                            # Reading ends: a cell of such a size may be in every row behind it,
                            # too.
                            problems.add(str(error), path=source.name, line=number)
                            return
                        yield Row(source.name, number, values)


_MAX_ROWS = 100
"""In memory at a time while a file is read; a thousand take no less time."""


def _batch_rows(file: Any, limits: ReadLimits) -> int:
    """How many rows of a Parquet file are read at once, so that they fit in memory.

    The file's own record of sizes decides: a text that many rows share is stored once, so a small
    file may hold rows that are large. No cell is longer than all its column stores.

    Raises:
        UnreadableError: a column is larger than the limits allow, also once it is unpacked.
    """
    metadata = file.metadata
    largest = 1
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(place) for place in range(group.num_columns)]
        sizes = [column.total_uncompressed_size for column in columns]
        limits.check_held(max(sizes, default=0))
        for column, size in zip(columns, sizes, strict=True):
            limits.check_unpacked(column.total_compressed_size, size)
        largest = max(largest, sum(sizes))
    # Any row might hold all that its group does. A quarter of the limit leaves room for what is
    # made of the rows.
    return max(1, min(_MAX_ROWS, limits.file // (4 * largest)))


def _cells(value: object) -> Iterator[object]:
    """Yields the texts, numbers and flags of a value, from all its objects and lists.

    Each is measured, or searched for broken characters, on its own: a long text may be deep in a
    row.
    """
    if is_object(value):
        value = list(value.values())
    if is_list(value):
        for part in value:
            yield from _cells(part)
    else:
        yield value


_SURROGATES = re.compile("[\ud800-\udfff]")


def arrow_schema(scores: Scores) -> Any:
    """The Arrow schema of a table of cases: strings, doubles, booleans and lists, all nullable.

    A column of JSON texts is called ``<name>_json``, because its type is not the one that the name
    promises: a reader that expects a mapping there would refuse the table. Other people's scripts
    read these names and types, so they do not change.
    """
    pa: Any = require("pyarrow", extra="hf")
    type_of_kind = {
        ColumnKind.TEXT: pa.string(),
        ColumnKind.TEXTS: pa.list_(pa.string()),
        ColumnKind.NUMBER: pa.float64(),
        ColumnKind.NUMBERS: pa.list_(pa.float64()),
        ColumnKind.FLAG: pa.bool_(),
        ColumnKind.JSON: pa.string(),
    }
    fields: list[tuple[str, Any]] = []
    for name, kind in columns(scores).items():
        if kind is ColumnKind.JSON:
            name = f"{name}_json"
        fields.append((name, type_of_kind[kind]))
    return pa.schema(fields)


def arrow_batches(
    traces: Iterable[Trace], *, scores: Scores, schema: Any, tally: Exported
) -> Iterator[Any]:
    """Yields a run's table as Arrow record batches of a thousand cases, so that memory stays flat.

    Args:
        schema: as `arrow_schema` gives it for the same scores: its columns are in the same order.
        tally: counts the cases that are written.

    Raises:
        InputError: a text holds half a character, which Arrow cannot store.
    """
    pa: Any = require("pyarrow", extra="hf")
    names = [*columns(scores)]
    # All batches are taken from one iterator: each goes on where the one before it stopped.
    rest_of_traces = iter(traces)
    while batch := list(islice(rest_of_traces, _BATCH_ROWS)):
        rows = [table_row(trace, scores) for trace in batch]
        arrays: list[Any] = []
        try:
            # In the schema JSON columns have other names, so the two go together by their order.
            for name, field in zip(names, schema, strict=True):
                cells = [row[name] for row in rows]
                arrays.append(pa.array(cells, type=field.type))
        except UnicodeEncodeError as error:
            raise InputError(_surrogate_problem(rows)) from error
        tally.written += len(rows)
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _surrogate_problem(rows: list[dict[str, Any]]) -> str:
    """The error's text for rows with a lone surrogate: pyarrow names neither the row nor the text.

    A lone surrogate is half a character: Python holds it, UTF-8 has no bytes for it. The message
    names the case and its column, so that the user can mend the text or export to JSON Lines.
    """
    place = next(_places_of_surrogates(rows), "a text")
    return (
        f"{place} holds a lone surrogate, which this format cannot store; export to jsonl instead"
    )


def _places_of_surrogates(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yields the case and the column of each text with a lone surrogate, for the error's text.

    The rows are searched only after pyarrow has refused them: it does not say which text it was.
    """
    for row in rows:
        for name, value in row.items():
            for text in _cells(value):
                if isinstance(text, str) and _SURROGATES.search(text):
                    yield f"case '{row['id']}': column '{name}'"


def write_hugging_face(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """A case per row, as a folder that ``datasets.load_from_disk`` loads.

    The rows go to an Arrow file first and are mapped from there, so that memory stays flat. Only a
    folder that this package saved before is overwritten.
    """
    datasets: Any = require("datasets", extra="hf")
    tally = Exported(paths=(path,))
    with (
        folder_written_whole(path, replaceable=_is_dataset) as folder,
        TemporaryDirectory(dir=path.parent, prefix=".ragbench-") as scratch,
    ):
        rows = Path(scratch) / "rows.arrow"
        pa: Any = require("pyarrow", extra="hf")
        schema = arrow_schema(scores)
        with pa.OSFile(str(rows), "wb") as sink, pa.ipc.new_stream(sink, schema) as stream:
            for batch in arrow_batches(traces, scores=scores, schema=schema, tally=tally):
                stream.write_batch(batch)
            if tally.written == 0:
                # datasets cannot read a stream without any batch.
                stream.write_batch(pa.RecordBatch.from_pylist([], schema=schema))
        mapped = datasets.Dataset.from_file(str(rows))
        # Without a fingerprint of the content, datasets makes one of the time of writing.
        with rows.open("rb") as file:
            fingerprint = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        dataset = datasets.Dataset(mapped.data, fingerprint=fingerprint)
        had_progress_bars = not datasets.are_progress_bars_disabled()
        datasets.disable_progress_bars()
        # Left to itself, datasets 5 saves no rows as no files, and cannot load that again.
        number_of_files = None if tally.written else 1
        try:
            dataset.save_to_disk(str(folder), num_shards=number_of_files)
        finally:
            if had_progress_bars:
                datasets.enable_progress_bars()
        # Both objects map the scratch file into memory: Windows cannot remove a mapped file.
        del mapped, dataset
    return tally


def write_parquet(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """A case per row, as Parquet with typed list columns, in row groups of a fixed size.

    The same run gives the same bytes with the same release of pyarrow, whose name and version are
    in the file.
    """
    pq: Any = require("pyarrow.parquet", extra="hf")
    schema = arrow_schema(scores)
    tally = Exported(paths=(path,))
    with (
        written_whole(path, make_folders=True, is_text=False) as file,
        # All settings are given, so that a new default of pyarrow changes no bytes.
        pq.ParquetWriter(
            file, schema, version="2.6", compression="zstd", compression_level=3
        ) as writer,
    ):
        for batch in arrow_batches(traces, scores=scores, schema=schema, tally=tally):
            writer.write_batch(batch)
    return tally
