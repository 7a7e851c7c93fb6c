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

from ragbench.core.outcome import Failure, Known, Outcome, Status
from ragbench.core.record import replace
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.trace import STAGES
from ragbench.core.validation import Verdict
from ragbench.errors import InterfaceError, RunError
from ragbench.io.detect import container_rows
from ragbench.io.export import RETRIEVAL_COLUMNS, ColumnKind, encode_case, table_columns
from ragbench.io.limits import UnreadableError
from ragbench.io.recorded import ERROR
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import as_flag, as_number, as_numbers, is_missing
from ragbench.plugins import load_attribute

Values = Mapping[str, Any]
Recorded = dict[str, Outcome[Any] | None]
"""Outcome by stage; how it came to be known is set where all of them pass."""
Understood = tuple[Values, Recorded]
"""The fields of a case, and what is recorded of it."""
_NOT_OURS = (
    *(KeyError, TypeError, ValueError, AttributeError, InterfaceError, msgspec.MsgspecError),
)

_STAGES = {stage: name for stage, name in STAGES.items() if stage != "locate"}
"""Those whose outcome is written."""
_UNKNOWN = ("not recorded", "not asked yet")
"""How the reason of an outcome begins that never was one."""
_FAILURE = re.compile(
    r"(?P<stage>\w+): (?P<type>[\w.]+): (?P<message>.*?)(?: <- (?P<cause>.*))?", re.DOTALL
)


def read_run(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per case of a run's folder, with every outcome that it has."""
    # The journal is not this package's: it is reached by its name, as a plugin is.
    read = load_attribute("ragbench.stages.stored:entries")
    try:
        for number, entry in enumerate(read(source.path), start=1):
            yield Row(source.name, number, encode_case(entry.case), recorded=entry.recorded)
    except RunError as error:
        raise UnreadableError(str(error)) from error


# --- a case as a JSON object


def _export_row(values: Values, is_text: bool) -> Understood:
    if "retrieval_status" in values:
        return _table_row(values, is_text)
    held = {*_STAGES.values(), "scores"}
    case = {name: value for name, value in values.items() if name not in held}
    return case, {stage: _outcome(values.get(name), stage) for stage, name in _STAGES.items()}


def _outcome(stored: Any, stage: str) -> Outcome[Any] | None:
    results: dict[str, Any] = {"validate": Verdict, "generate": GenerationResult[Any]}
    kind = cast("Any", Outcome)[results.get(stage, RetrievalResult[Any])]
    # Not strict: a score that JSON has no number for is spelled out.
    return None if stored is None else msgspec.convert(stored, kind, strict=False)


# --- a case as a row of a table


def _table_row(values: Values, is_text: bool) -> Understood:
    known = {
        name: _cell(kind, values.get(name, values.get(f"{name}_json")), is_text)
        for name, kind in table_columns().items()
    }
    case = {name: known[name] for name in _CASE_COLUMNS}
    case["query"] = case.pop("user_input")
    others: Sequence[str] = case["alternative_references"] or ()
    if others and others[0] == case["reference"]:
        case["reference"] = None  # the table repeats the first of them there
    grades: Values = case["grades"] or {}
    graded = [name for name, grade in grades.items() if grade > 0]
    if case["grades"] is not None and case["reference_context_ids"] == graded:
        case["reference_context_ids"] = None  # the table names those that are graded so
    retrieved, contexts = None, known["retrieved_contexts"]
    if contexts is None and known["retrieved_context_ids"]:
        contexts = [""] * len(known["retrieved_context_ids"])  # texts that are not known
    if contexts is not None:
        given: Any = {name: known[column] for name, column in RETRIEVAL_COLUMNS.items()}
        retrieved = RetrievalResult(contexts, **given)
    generated = None
    if known["generation_status"] in (Status.MEASURED, Status.ABSTAINED):
        given = {name: known[name] for name in ("multi_responses", "confidence", "abstained")}
        # An empty cell is an empty answer where there was one.
        generated = GenerationResult(
            known["response"] or "", metadata=known["generation_metadata"], **given
        )
    # The table holds what generation was given, not what stood before post-retrieval.
    last = "retrieve" if known["post_retrieval_status"] is None else "post_retrieve"
    held: dict[str, Any] = {last: retrieved, "generate": generated}
    stages = ("retrieve", "post_retrieve", "generate")
    return case, {one: _table_outcome(_STAGES[one], known, held.get(one)) for one in stages}


_CASE_COLUMNS = (
    *("id", "user_input", "reference", "alternative_references", "reference_contexts"),
    *("reference_context_ids", "grades", "evidence", "answerable", "cluster", "tags"),
    *("language", "metadata", "history", "expectations"),
)


def _table_outcome(name: str, known: Values, value: Any) -> Outcome[Any] | None:
    if known[f"{name}_status"] is None:
        return None
    status, reason = Status(known[f"{name}_status"]), known[f"{name}_reason"]
    if status in (Status.MEASURED, Status.ABSTAINED) and value is None:
        return None
    failure = _failure_of(reason or "") if status is Status.FAILED else None
    reason = None if failure is not None else reason
    seconds = known[f"{name}_seconds"]
    return Outcome(status=status, value=value, failure=failure, reason=reason, seconds=seconds)


def _failure_of(text: str) -> Failure:
    found = _FAILURE.fullmatch(text)
    if found is None:
        return Failure(type=ERROR, message=text, stage="generate")
    return Failure(**found.groupdict())


def _cell(kind: ColumnKind, value: object, is_text: bool) -> Any:
    if is_missing(value):
        return None
    if kind is ColumnKind.JSON or (is_text and kind in (ColumnKind.TEXTS, ColumnKind.NUMBERS)):
        value = orjson.loads(value) if isinstance(value, str) else value
    if kind is ColumnKind.NUMBERS:
        return [*as_numbers(value)]
    if kind is ColumnKind.NUMBER:
        return as_number(value)
    return as_flag(value) if kind is ColumnKind.FLAG else value


# --- a case of a report, a verdict

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a quotation mark is put before in cases.csv, so that no spreadsheet runs it."""


def _report_cells(values: Values, _: bool) -> Understood:
    """A row of cases.csv; a cell that is empty is not known."""

    def plain(name: str) -> str | None:
        text = str(values.get(name) or "")
        return text[1:] if text[:1] == "'" and text[1:].startswith(_FORMULA) else text or None

    case: dict[str, Any] = {
        **{name: plain(name) for name in ("id", "query", "language", "cluster", "reference")},
        "tags": orjson.loads(values["tags"] or "[]"),
        "reference_context_ids": orjson.loads(values["reference_ids"] or "null"),
    }
    failure = _failure_of((plain("failures") or "").partition(" | ")[0])
    recorded: Recorded = {}
    for stage in ("retrieve", "generate"):
        status = Status(values[stage]) if values[stage] else None
        if status is Status.FAILED:
            # Its own failure, or that of an earlier stage that it passes on.
            unknown = Failure(type=ERROR, message="not recorded", stage=stage)
            known = failure if failure.stage in _STAGES else unknown
            recorded[stage] = Outcome(status=status, failure=known)
        elif stage == "generate" and (status is Status.MEASURED or status is Status.ABSTAINED):
            value = GenerationResult(plain("response") or "")
            recorded[stage] = Outcome(status=status, value=value)
    retrieved = orjson.loads(values["retrieved_ids"] or "null")
    if retrieved is not None and "retrieve" not in recorded:
        case["retrieved_context_ids"] = retrieved
    return case, recorded


def _verdict_row(values: Values, is_text: bool) -> Understood:
    outcome: Outcome[Any]
    if values["retrieval_quality"] is not None:
        outcome = Outcome(status=Status.MEASURED, value=msgspec.convert(values, Verdict))
    else:
        kind, _, message = str(values["message"]).removeprefix("Failed: ").partition(": ")
        failure = Failure(type=kind, message=message, stage="validate")
        outcome = Outcome(status=Status.FAILED, failure=failure)
    return {"id": values["query_id"]}, {"validate": outcome}


def _read(
    understand: Callable[..., Understood], source: Source, *, kind: Kind, problems: Problems
) -> Iterator[Row]:
    for row in container_rows(source, problems):
        try:
            values, found = understand(row.values, row.cells)
        except _NOT_OURS as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            problems.add(f"not what this ragbench writes: {reason}", path=row.path, line=row.line)
            continue
        recorded = {
            stage: replace(outcome, known=Known.RECORDED)
            for stage, outcome in found.items()
            if outcome is not None
            and not (
                outcome.status is Status.SKIPPED and (outcome.reason or "").startswith(_UNKNOWN)
            )
        }
        yield row._replace(values=values, cells=False, recorded=recorded)


read_export = partial(_read, _export_row)
"""Yields a row per case of an export: all of the case, and every stage's outcome."""
read_report = partial(_read, _report_cells)
"""Yields a row per case of cases.csv, which holds ids of what was retrieved, and no texts."""
read_verdicts = partial(_read, _verdict_row)
"""Yields a row per verdict: an id and the verdict, without a query."""
