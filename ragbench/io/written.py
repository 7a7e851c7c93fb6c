"""What ragbench wrote, read back: runs, exports, report.json, verdicts.

Scores are not read: what is recorded is what a system did, and scores are computed anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec
import orjson

from ragbench.core.in_words import UnreadableError
from ragbench.core.outcome import Failure, Known, Outcome, Status
from ragbench.core.reading import Reading, words_of
from ragbench.core.record import replace
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.trace import STAGES
from ragbench.core.validation import Verdict
from ragbench.errors import RunError
from ragbench.io.csv_cells import unguarded
from ragbench.io.detect import container_rows
from ragbench.io.export import RETRIEVAL_COLUMNS, ColumnKind, encode_case, table_columns
from ragbench.io.recorded import ERROR
from ragbench.io.source import Kind, Problems, Row, Source, noting_read_errors
from ragbench.io.values import as_flag, as_number, as_numbers, is_missing
from ragbench.plugins import load_attribute

Values = Mapping[str, Any]
Recorded = dict[str, Outcome[Any] | None]
"""Outcome by stage; how it came to be known is set where all of them pass."""
Understood = tuple[Values, Recorded]
"""The fields of a case, and what is recorded of it."""

_STAGES = {stage: name for stage, name in STAGES.items() if stage != "locate"}
"""Those whose outcome is written."""
_UNKNOWN = ("not recorded", "not asked yet")
"""How the reason of an outcome begins that never was one."""
_FAILURE = re.compile(
    r"(?P<stage>\w+): (?P<type>[\w.]+): (?P<message>.*?)(?: <- (?P<cause>.*))?", re.DOTALL
)
"""A `Failure` as its ``str`` writes it."""


def read_run(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per case of the folder of an earlier run, with every outcome in its journal.

    So a run is a source like any other: it can be scored again without asking the RAG.
    ``formats.toml`` names this reader.

    Raises:
        UnreadableError: the run cannot be read.
    """
    # The journal is not this package's: it is reached by its name, as a plugin is.
    read = load_attribute("ragbench.stages.stored:entries")
    try:
        for number, entry in enumerate(read(source.path), start=1):
            yield Row(source.name, number, encode_case(entry.case), recorded=entry.recorded)
    except RunError as error:
        raise UnreadableError(str(error)) from error


# --- a case as a JSON object


def _export_row(values: Values, is_text: bool) -> Understood:
    """The case and the outcomes in a record of an export: a line of JSON, or a row of a table.

    In a line the case's own fields are at the top, beside an outcome per stage and the scores,
    which are dropped: they are computed anew. A table has other columns; see `_table_row`.

    Args:
        is_text: whether the values are cells of CSV, in which lists are JSON text.
    """
    if "retrieval_status" in values:
        return _table_row(values, is_text)
    case = dict(values)
    case.pop("scores", None)
    recorded: Recorded = {}
    for stage, name in _STAGES.items():
        recorded[stage] = _outcome_of_object(case.pop(name, None), stage)
    return case, recorded


def _outcome_of_object(written: Any, stage: str) -> Outcome[Any] | None:
    """The outcome of a stage from its JSON object in an export; None of null.

    Args:
        stage: by which the type of the value is known.
    """
    if written is None:
        return None
    value_types: dict[str, Any] = {"validate": Verdict, "generate": GenerationResult[Any]}
    value_type = value_types.get(stage, RetrievalResult[Any])
    outcome_type = cast("Any", Outcome)[value_type]
    # Not strict: a score for which JSON has no number, such as NaN, is spelled out as text.
    outcome: Outcome[Any] = msgspec.convert(written, outcome_type, strict=False)
    return outcome


# --- a case as a row of a table

_CASE_COLUMNS = (
    "id",
    "user_input",
    "reference",
    "alternative_references",
    "reference_contexts",
    "reference_context_ids",
    "grades",
    "evidence",
    "answerable",
    "cluster",
    "tags",
    "language",
    "metadata",
    "history",
    "expectations",
)
"""The columns of the case itself, under RAGAS' names."""


def _table_row(values: Values, is_text: bool) -> Understood:
    """The case and the outcomes in a row of a table that ragbench exported.

    So an export can be evaluated anew, by other metrics, without asking the RAG.

    Args:
        is_text: whether the values are cells of CSV, in which lists are JSON text.
    """
    cells: dict[str, Any] = {}
    for name, kind in table_columns().items():
        # A file of Hugging Face or Parquet has its JSON in columns that are named after it.
        value = values.get(name, values.get(f"{name}_json"))
        cells[name] = _value_of_cell(kind, value, is_text)

    # The table has what generation was given, not what came before post-retrieval.
    last = "retrieve" if cells["post_retrieval_status"] is None else "post_retrieve"
    results = {last: _retrieval_of_cells(cells), "generate": _generation_of_cells(cells)}
    recorded: Recorded = {}
    for stage in ("retrieve", "post_retrieve", "generate"):
        recorded[stage] = _table_outcome(_STAGES[stage], cells, results.get(stage))
    return _case_of_cells(cells), recorded


def _case_of_cells(cells: Values) -> Values:
    """The fields of a case in an exported table, without repetitions that the export added.

    The columns are those that `ragbench.io.export` writes.

    The table repeats some labels for tools that read RAGAS' columns. They would come back as labels
    that the dataset did not have.
    """
    case = {name: cells[name] for name in _CASE_COLUMNS}
    case["query"] = case.pop("user_input")
    alternatives: Sequence[str] = case["alternative_references"] or ()
    if alternatives and alternatives[0] == case["reference"]:
        case["reference"] = None  # the table repeats the first of them there
    grades: Mapping[str, int] | None = case["grades"]
    if grades is not None:
        relevant = [id for id in grades if grades[id] > 0]
        if case["reference_context_ids"] == relevant:
            case["reference_context_ids"] = None  # the table names those that are graded so
    return case


def _retrieval_of_cells(cells: Values) -> RetrievalResult[Any] | None:
    """The retrieval in a row of an exported table, which is what generation was given.

    None where the row has neither texts nor ids of chunks. With ids alone the texts are empty.
    """
    contexts = cells["retrieved_contexts"]
    ids = cells["retrieved_context_ids"]
    if contexts is None and ids:
        contexts = [""] * len(ids)  # a retrieval of ids alone: its texts are not known
    if contexts is None:
        return None
    fields: dict[str, Any] = {}
    for name, column in RETRIEVAL_COLUMNS.items():
        fields[name] = cells[column]
    return RetrievalResult(contexts, **fields)


def _generation_of_cells(cells: Values) -> GenerationResult[Any] | None:
    """The answer in a row of an exported table; None unless its status says that there was one.

    The columns are those that `ragbench.io.export` writes.

    By the status an empty cell is known to be an empty answer.
    """
    if cells["generation_status"] not in (Status.MEASURED, Status.ABSTAINED):
        return None
    return GenerationResult(
        cells["response"] or "",
        multi_responses=cells["multi_responses"],
        confidence=cells["confidence"],
        abstained=cells["abstained"],
        metadata=cells["generation_metadata"],
    )


def _table_outcome(name: str, cells: Values, value: Any) -> Outcome[Any] | None:
    """The outcome of a stage by its three columns of an exported table; None where they are empty.

    A retrieval before post-retrieval has its status in the table and not its chunks: it is not
    recorded, since a measured outcome comes with its value.

    Args:
        name: what the columns' names begin with, such as ``retrieval``.
        value: the value of the outcome, which other columns hold.
    """
    if cells[f"{name}_status"] is None:
        return None
    status = Status(cells[f"{name}_status"])
    if status in (Status.MEASURED, Status.ABSTAINED) and value is None:
        return None
    reason = cells[f"{name}_reason"]
    failure = None
    if status is Status.FAILED:
        failure = _failure_of(reason or "")
        reason = None  # the column has one text for either
    seconds = cells[f"{name}_seconds"]
    return Outcome(status=status, value=value, failure=failure, reason=reason, seconds=seconds)


def _failure_of(text: str) -> Failure:
    """The failure of a stage from the text that a table has of it, as `Failure` writes it.

    `_FAILURE` has to fit that text: old tables are read by it.

    Any other text becomes the message of a failure of an unknown type.
    """
    match = _FAILURE.fullmatch(text)
    if match is None:
        return Failure(type=ERROR, message=text, stage="generate")
    return Failure(**match.groupdict())


def _value_of_cell(kind: ColumnKind, value: object, is_text: bool) -> Any:
    """The value of a cell of an exported table; None of an empty cell.

    JSON is text in every format, while lists are text in CSV alone.

    Args:
        kind: what the column holds.
        is_text: whether the table is CSV.
    """
    if is_missing(value):
        return None
    is_list_as_text = is_text and kind in (ColumnKind.TEXTS, ColumnKind.NUMBERS)
    if (kind is ColumnKind.JSON or is_list_as_text) and isinstance(value, str):
        value = orjson.loads(value)
    # Only CSV guards texts; the other formats hold them as they were.
    if is_text and kind is ColumnKind.TEXT:
        return unguarded(str(value))
    if kind is ColumnKind.NUMBERS:
        return list(as_numbers(value))
    if kind is ColumnKind.NUMBER:
        return as_number(value)
    if kind is ColumnKind.FLAG:
        return as_flag(value)
    return value


# --- a case of a report, a verdict


def _report_cells(values: Values, _: bool) -> Understood:
    """The case and the outcomes in a row of a report's cases.csv; an empty cell is not known.

    The columns are those of `ragbench.views.write`: a column that is renamed there has to be here,
    too.

    The file has ids of retrieved chunks without texts, which a corpus may give.
    """
    case: dict[str, Any] = {}
    for name in ("id", "query", "language", "cluster", "reference"):
        case[name] = _plain_cell(values, name)
    case["tags"] = orjson.loads(values["tags"] or "[]")
    case["reference_context_ids"] = orjson.loads(values["reference_ids"] or "null")

    recorded: Recorded = {}
    for stage in ("retrieve", "generate"):
        if not values[stage]:
            continue
        status = Status(values[stage])
        if status is Status.FAILED:
            recorded[stage] = Outcome(status=status, failure=_reported_failure(values, stage))
        elif stage == "generate" and status in (Status.MEASURED, Status.ABSTAINED):
            answer = GenerationResult[Any](_plain_cell(values, "response") or "")
            recorded[stage] = Outcome(status=status, value=answer)

    # The texts are not in the file: the ids are a field, whose texts a corpus may give.
    retrieved_ids = orjson.loads(values["retrieved_ids"] or "null")
    if retrieved_ids is not None and "retrieve" not in recorded:
        case["retrieved_context_ids"] = retrieved_ids
    return case, recorded


def _plain_cell(values: Values, name: str) -> str | None:
    """The text of a cell as it was before it was written to a table; None of an empty cell.

    A text that a spreadsheet would run as a formula was written with an apostrophe before it.
    """
    cell = values.get(name)
    if not cell:
        return None
    return unguarded(str(cell)) or None


def _reported_failure(values: Values, stage: str) -> Failure:
    """Why a stage failed, by a report's column of failures: its own or an earlier stage's failure.

    The first of the column counts. If it is a metric's, the stage's is not recorded.
    """
    failures = _plain_cell(values, "failures") or ""
    first_failure, _, _ = failures.partition(" | ")
    failure = _failure_of(first_failure)
    if failure.stage in _STAGES:
        return failure
    return Failure(type=ERROR, message="not recorded", stage=stage)


def _verdict_row(values: Values, is_text: bool) -> Understood:
    """The id of a query and the outcome of its validation, in a line of exported verdicts.

    The keys, and "Failed: " at the beginning of the message, are those of `ragbench.ledger.codec`.

    A line without a grade is that of a validator that failed: its message then has the type and the
    text of the exception.
    """
    outcome: Outcome[Any]
    if values["retrieval_quality"] is not None:
        outcome = Outcome(status=Status.MEASURED, value=msgspec.convert(values, Verdict))
    else:
        error = str(values["message"]).removeprefix("Failed: ")
        error_type, _, message = error.partition(": ")
        failure = Failure(type=error_type, message=message, stage="validate")
        outcome = Outcome(status=Status.FAILED, failure=failure)
    return {"id": values["query_id"]}, {"validate": outcome}


def _rows_understood(
    understand: Callable[..., Understood], source: Source, *, kind: Kind, problems: Problems
) -> Iterator[Row]:
    """Yields the rows of a file that ragbench wrote, with the outcomes that they record.

    A row that cannot be understood is a problem, and the others are read.

    Args:
        understand: makes the fields of a case and its outcomes of a row's values.
    """
    for row in container_rows(source, problems):
        understood: Understood | None = None
        with noting_read_errors(row.path, problems, row.line), Reading(_not_ours):
            understood = understand(row.values, row.cells)
        if understood is None:
            continue
        values, outcomes = understood
        recorded: dict[str, Outcome[Any]] = {}
        for stage, outcome in outcomes.items():
            if outcome is not None and not _was_never_asked(outcome):
                recorded[stage] = replace(outcome, known=Known.RECORDED)
        # The values are understood: they are no cells any more that spell lists as text.
        yield row._replace(values=values, cells=False, recorded=recorded)


def _not_ours(error: Exception) -> UnreadableError:
    """The error of a row of another version, or of another program with the same field names.

    Reading such a row can raise anything: it becomes a problem of the row.
    """
    return UnreadableError(f"not what this ragbench writes: {words_of(error)}")


def _was_never_asked(outcome: Outcome[Any]) -> bool:
    """Whether a recorded skip only says that a stage was not recorded, or not reached by the run.

    Such a skip says nothing of the system, which can still be asked: the outcome is not taken over.
    `_UNKNOWN` has the texts by which runs say so.
    """
    is_skipped = outcome.status is Status.SKIPPED
    return is_skipped and (outcome.reason or "").startswith(_UNKNOWN)


read_export = partial(_rows_understood, _export_row)
"""Yields a row per case of an export: all of the case, and every stage's outcome."""
read_report = partial(_rows_understood, _report_cells)
"""Yields a row per case of cases.csv, which holds ids of what was retrieved, and no texts."""
read_verdicts = partial(_rows_understood, _verdict_row)
"""Yields a row per verdict: an id and the verdict, without a query."""
