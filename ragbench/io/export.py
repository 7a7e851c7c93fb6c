"""The formats that a run is written in, the flat table they share, and ragbench's own JSONL."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import orjson

from ragbench.core.case import Case, Evidence, Expectation, Turn
from ragbench.core.outcome import Cell, Outcome, Status
from ragbench.core.readable_metadata import readable
from ragbench.core.record import Record, field
from ragbench.core.trace import Trace, sample_row
from ragbench.errors import DataError, Problem
from ragbench.io.atomic import written_whole
from ragbench.io.fields import read_table
from ragbench.io.json_text import in_case, json_bytes, json_text
from ragbench.io.source import IdRegister
from ragbench.io.values import ValueProblem, check_depth, is_object
from ragbench.masking import hidden, hidden_bytes, hidden_in_id
from ragbench.plugins import Registry


class Scores(Record):
    """The scores that a run is written with."""

    metrics: tuple[str, ...] = ()
    cells: Mapping[str, Mapping[str, Cell]] = field(default_factory=dict[str, Mapping[str, Cell]])
    """Case id to metric name to cell. Asked for one case at a time, so it may read from disk."""

    def of(self, case: str) -> Iterator[tuple[str, Cell | None]]:
        """Yields each metric with its cell for a case; None where the metric has no score of it.

        Writers get the metrics of every case in one order, so that each row has the same columns.
        """
        cells = self.cells.get(case, {})
        for metric in self.metrics:
            yield metric, cells.get(metric)


@dataclass(kw_only=True, slots=True)
class Exported:
    """The files of an export, with counts that the writer keeps."""

    paths: tuple[Path, ...]
    written: int = 0
    left_out: dict[str, int] = dataclasses.field(default_factory=dict[str, int])
    """Why cases were left out, and how many for each reason; empty when none were."""
    unfinished: int = 0
    """How many cases an interrupted run has not asked or not scored yet."""

    def leave_out(self, reason: str) -> None:
        """Counts a case that an export leaves out, under the reason that the user reads.

        The reasons are printed with their counts, so that no case is missing from a file in
        silence.
        """
        self.left_out.setdefault(reason, 0)
        self.left_out[reason] += 1


class Export(Protocol):
    """The one primitive of a format.

    It reads the traces once, in order, keeps none of them, and leaves either the whole output
    or nothing behind. The same traces and scores give the same bytes.
    """

    def __call__(self, traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
        """Writes a run's traces to a file or folder in one format, and counts them.

        The traces come one at a time and may be read once: none is kept.
        """
        ...


def failed_stage(trace: Trace) -> str | None:
    """The first stage of a trace that failed, as users spell it; None where none did.

    Exports that need the whole answer leave such a case out, and name the stage as the reason.
    """
    for name in ("retrieval", "post_retrieval", "generation"):
        outcome: Outcome[Any] | None = getattr(trace, name)
        if outcome is not None and outcome.status is Status.FAILED:
            return name.replace("_", "-")
    return None


EXPORTS = Registry(kind="exports")
"""Formats that a run can be written in. Others come by the entry-point group
``ragbench.exports``; each is a function of the shape `Export`."""


def export(
    name: str, traces: Iterable[Trace], path: Path | str, *, scores: Scores | None = None
) -> Exported:
    """Writes a run in a format.

    Formats are functions of the shape `Export`, looked up by name, so that packages can add their
    own.

    Example:
        ``export("ragas", traces, "samples.jsonl").written`` is the number of samples in the file.
    """
    write: Export = EXPORTS.load(name)
    if scores is None:
        scores = Scores()
    return write(traces, Path(path), scores=scores)


class ColumnKind(StrEnum):
    """What the cells of a column hold."""

    TEXT = "text"
    TEXTS = "texts"
    NUMBER = "number"
    NUMBERS = "numbers"
    FLAG = "flag"
    JSON = "json"
    """A mapping, or a list of mappings, as a JSON text."""


RETRIEVAL_COLUMNS = {
    "context_ids": "retrieved_context_ids",
    "scores": "retrieved_scores",
    "context_metadata": "context_metadata",
    "metadata": "retrieval_metadata",
}
"""Field of a retrieval's result, and the column of a table that holds it."""


@cache
def table_columns() -> Mapping[str, ColumnKind]:
    """The fixed columns of a table of cases, with the kind of value that each holds.

    They are listed in ``fields.toml``. Other people's scripts read the columns: do not rename any.
    """
    table: Mapping[str, str] = read_table("fields.toml")["export"]
    return {name: ColumnKind(kind) for name, kind in table.items()}


def columns(scores: Scores) -> dict[str, ColumnKind]:
    """The columns of a run's table: the fixed ones, then ``score:M`` and ``status:M`` per metric M.

    Their order is that of every table of the run, in each format.
    """
    kinds = dict(table_columns())
    for metric in scores.metrics:
        kinds[f"score:{metric}"] = ColumnKind.NUMBER
        kinds[f"status:{metric}"] = ColumnKind.TEXT
    return kinds


def table_row(trace: Trace, scores: Scores) -> dict[str, Any]:
    """The values of one case by column name: a row of CSV, Parquet and Hugging Face folders.

    Texts and JSON are strings, numbers floats, flags booleans, lists are lists of these; None is
    not known. All formats share it, so that a run has the same columns in each.
    """
    values: dict[str, Any] = {}
    for name in Case.__struct_fields__:
        values[name] = getattr(trace.case, name)
    retrieved = trace.context.value
    for name, column in RETRIEVAL_COLUMNS.items():
        # None for each column where nothing was retrieved: ``getattr`` of None gives the default.
        values[column] = getattr(retrieved, name, None)
    sample = sample_row(trace)
    values |= sample.as_mapping()
    generated = trace.generation.value
    values["confidence"] = getattr(generated, "confidence", None)
    values["abstained"] = getattr(generated, "abstained", None)
    values["generation_metadata"] = getattr(generated, "metadata", None)
    for stage in ("retrieval", "post_retrieval", "generation"):
        values |= _outcome_columns(stage, getattr(trace, stage))
    for metric, cell in scores.of(trace.case.id):
        values[f"score:{metric}"] = None if cell is None else cell.value
        values[f"status:{metric}"] = None if cell is None else cell.status.value
    with in_case(trace.case.id):
        values["rubrics_json"] = None if sample.rubrics is None else json_text(sample.rubrics)
        row: dict[str, Any] = {}
        # In the order of the columns; what a case has beside them is not in the table.
        for name, kind in columns(scores).items():
            row[name] = _cell_of_column(name, kind, values[name])
        return row


_ID_COLUMNS = frozenset(
    {"id", "retrieved_context_ids", "reference_context_ids", "cluster", "tags", "language"}
)
"""Columns that are joined on: a key's form alone masks nothing in them."""


def _cell_of_column(name: str, kind: ColumnKind, value: Any) -> Any:
    """A case's value as its column holds it, without embeddings, and with credentials hidden.

    `written_whole` does not hide them here: it knows neither the columns of a table nor the texts
    in a Parquet file.

    Args:
        name: the column's name: in columns of ids a key's form alone masks nothing.
        kind: the kind of value that the column holds.
        value: the value; None is not known.
    """
    if value is None or kind is ColumnKind.FLAG:
        return value
    hide = hidden_in_id if name in _ID_COLUMNS else hidden
    if kind is ColumnKind.TEXTS:
        return [hide(text) for text in value]
    if kind is ColumnKind.NUMBERS:
        return [float(number) for number in value]
    if kind is ColumnKind.NUMBER:
        return float(value)
    if kind is ColumnKind.JSON:
        return hidden_bytes(json_bytes(readable(value))).decode()
    return hide(value)


def _outcome_columns(stage: str, outcome: Outcome[Any] | None) -> dict[str, Any]:
    """How a stage of a trace ended, as three columns: its status, the reason, and its seconds.

    Args:
        stage: the stage's name, with which the columns' names begin.
        outcome: None where the stage was not run.
    """
    status = reason = seconds = None
    if outcome is not None:
        status = outcome.status.value
        reason = outcome.reason if outcome.failure is None else str(outcome.failure)
        # Of a shared call only the mean is known, and a number in a table looks like a time.
        if outcome.sharing <= 1:
            seconds = outcome.seconds
    return {f"{stage}_status": status, f"{stage}_reason": reason, f"{stage}_seconds": seconds}


# --- JSON Lines

_FIELDS_THAT_MAY_BE_EMPTY = frozenset(
    {"reference_contexts", "reference_context_ids", "grades", "text", "contexts"}
)
"""Fields of which an empty one says something: that it is known to be none."""


def encode_case(case: Case) -> dict[str, Any]:
    """A case as a JSON object of a case file: fields in a fixed order, without empty ones.

    Readers take a missing field for "not known"; the order keeps two files comparable line by line.
    Case files of users hold these names: a field under a new name could not be read from them.
    """
    values = _telling_fields(case)
    if case.history:
        values["history"] = [_telling_fields(turn) for turn in case.history]
    if case.evidence:
        values["evidence"] = [_telling_fields(evidence) for evidence in case.evidence]
    if case.expectations:
        values["expectations"] = [_telling_fields(demand) for demand in case.expectations]
    return values


def _telling_fields(record: Case | Evidence | Turn | Expectation) -> dict[str, Any]:
    """The fields of a record that say something: None and most empty values are left out.

    Files stay short so, and people read them. An empty list of relevant texts stays: it says that
    there are none.
    """
    values: dict[str, Any] = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if value is None:
            continue
        if value in ((), {}) and name not in _FIELDS_THAT_MAY_BE_EMPTY:
            continue
        # Another kind of mapping would not be written as JSON.
        values[name] = dict(value) if is_object(value) else value
    return values


def write_cases(cases: Iterable[Case], path: str | Path) -> int:
    """Writes one case per line. The file appears complete, or the earlier one stays.

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
    path = Path(path)
    ids = IdRegister()
    count = 0
    with written_whole(path) as file:
        for case in cases:
            count += 1
            values = encode_case(case)
            for field in ("id", "query"):
                if not values[field].strip():
                    raise _unwritable_case(f"the {field} is empty", path, count, field)
            earlier = ids.add(case.id, count)
            if earlier is not None:
                message = f"'{case.id}' is already the id of record {earlier}"
                raise _unwritable_case(message, path, count, "id")
            try:
                # Deeper values than this no reader of ragbench takes back.
                check_depth(values)
                line = orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)
            except (TypeError, ValueProblem) as error:
                message = f"cannot be written as JSON: {error}"
                raise _unwritable_case(message, path, count, None) from None
            file.write(line)
    return count


def _unwritable_case(message: str, path: Path, number: int, field: str | None) -> DataError:
    """The error of a case that cannot be written, with the line that it would have in the file.

    The line is counted, as nothing has been written so far: a file is written whole or not at all.
    """
    return DataError([Problem(message=message, path=str(path), line=number, field=field)])


def write_lines(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """Everything that is known, one case per line: inputs, results, statuses, failures, scores.

    One JSON object per line, in UTF-8.

    The case's fields are at the top level under their own names, so that the file is also a case
    file. Beside them are ``retrieval``, ``post_retrieval``, ``generation`` (each an outcome:
    status, value, reason, failure, seconds) and ``scores`` (metric to cell). Null means not known
    or not given, an empty list known to be none. Scripts of users read these names, and ragbench
    reads the file again as cases with answers.
    """
    tally = Exported(paths=(path,))
    with written_whole(path, make_folders=True) as file:
        for trace in traces:
            case = trace.case
            # All fields of the case, also empty ones: null says that something is not known.
            record = {name: getattr(case, name) for name in Case.__struct_fields__}
            record["retrieval"] = trace.retrieval
            record["post_retrieval"] = trace.post_retrieval
            record["generation"] = trace.generation
            cells: dict[str, Cell] = {}
            for metric, cell in scores.of(case.id):
                if cell is not None:
                    cells[metric] = cell
            record["scores"] = cells
            with in_case(case.id):
                line = json_bytes(record)
            file.write(line + b"\n")
            tally.written += 1
    return tally
