"""What ragbench wrote, read back: runs, exports, report.json, verdicts.

Scores are not read: what is recorded is what a system did, and scores are computed anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from ragbench.core.outcome import Failure, Known, Outcome, Status
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.validation import EvidenceQuote, RetrievalQuality, Verdict
from ragbench.errors import InterfaceError, RunError
from ragbench.io.detect import container_rows
from ragbench.io.export import TABLE_COLUMNS, ColumnKind
from ragbench.io.own_form import encode_case
from ragbench.io.recorded import ERROR
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import as_flag, as_number, as_numbers, is_missing, is_object
from ragbench.plugins import load_attribute

Values = Mapping[str, Any]
Recorded = dict[str, Outcome[Any]]

_STAGES = {
    "retrieve": "retrieval",
    "post_retrieve": "post_retrieval",
    "generate": "generation",
    "validate": "validation",
}
"""Stage, and what a trace calls its outcome."""
_UNKNOWN = ("not recorded", "not asked yet")
"""How the reason of an outcome begins that never was one."""
_FAILURE = re.compile(
    r"(?P<stage>\w+): (?P<type>[\w.]+): (?P<message>.*?)(?: <- (?P<cause>.*))?", re.DOTALL
)


def read_export(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per case of an export: all of the case, and every stage's outcome."""
    del kind
    for row in container_rows(source, problems):
        read = _table_row if "retrieval_status" in row.values else _object_row
        yield from _understood(read, row, problems)


def read_report(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per case of report.json or cases.csv.

    Both hold ids of what was retrieved, and no texts.
    """
    del kind
    for row in container_rows(source, problems, ("cases",)):
        read = _report_cells if row.cells else _report_row
        yield from _understood(read, row, problems)


def read_run(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per case of a run's folder, with every outcome that it has."""
    del kind
    # The journal is not this package's: it is reached by its name, as a plugin is.
    read = load_attribute("ragbench.ledger.recorded:entries")
    try:
        for number, entry in enumerate(read(source.path), start=1):
            yield Row(source.name, number, encode_case(entry.case), recorded=entry.recorded)
    except RunError as error:
        problems.add(str(error), path=source.name)


def read_verdicts(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per verdict: an id and the verdict, without a query."""
    del kind
    for row in container_rows(source, problems):
        yield from _understood(_verdict_row, row, problems)


def _understood(
    read: Callable[[Values, bool], tuple[Values, Recorded]], row: Row, problems: Problems
) -> Iterator[Row]:
    try:
        values, recorded = read(row.values, row.cells)
    except (KeyError, TypeError, ValueError, AttributeError, InterfaceError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        problems.add(f"not what this ragbench writes: {reason}", path=row.path, line=row.line)
        return
    yield row._replace(values=values, cells=False, recorded=recorded)


# --- a case as a JSON object


def _object_row(values: Values, _: bool) -> tuple[Values, Recorded]:
    held = {*_STAGES.values(), "scores"}
    case = {name: value for name, value in values.items() if name not in held}
    recorded: Recorded = {}
    for stage, name in _STAGES.items():
        outcome = _outcome(values.get(name), _BUILD[stage])
        if outcome is not None:
            recorded[stage] = outcome
    return case, recorded


def _outcome(value: Any, build: Callable[[Values], Any]) -> Outcome[Any] | None:
    if value is None:
        return None
    held, failure, reason = value["value"], value["failure"], value["reason"]
    return _recorded(
        Status(value["status"]),
        value=None if held is None else build(held),
        failure=None if failure is None else Failure(**failure),
        reason=reason,
        seconds=value["seconds"],
        sharing=int(value.get("sharing", 1)),
    )


def _recorded(
    status: Status,
    *,
    value: Any = None,
    failure: Failure | None = None,
    reason: str | None = None,
    seconds: float | None = None,
    sharing: int = 1,
) -> Outcome[Any] | None:
    if status is Status.SKIPPED and (reason or "").startswith(_UNKNOWN):
        return None
    return Outcome(
        status=status,
        value=value,
        failure=failure,
        reason=reason,
        seconds=None if seconds is None else float(seconds),
        sharing=sharing,
        known=Known.RECORDED,
    )


def _retrieval_of(held: Values) -> RetrievalResult[Any]:
    values = dict(held)
    if values["scores"] is not None:
        values["scores"] = [*as_numbers(values["scores"])]
    return RetrievalResult(**values)


def _generation_of(held: Values) -> GenerationResult[Any]:
    return GenerationResult(**held)


def _verdict_of(held: Values) -> Verdict:
    return Verdict(
        query_id=held["query_id"],
        relevant_chunk_ids=tuple(held["relevant_chunk_ids"]),
        relevance=held["relevance"],
        answer_present=held["answer_present"],
        answer_probability=held["answer_probability"],
        evidence=tuple(EvidenceQuote(**piece) for piece in held["evidence"]),
        retrieval_quality=RetrievalQuality(held["retrieval_quality"]),
        message=held["message"],
        validator=held["validator"],
        warnings=tuple(held["warnings"]),
    )


_BUILD: Mapping[str, Callable[[Values], Any]] = {
    "retrieve": _retrieval_of,
    "post_retrieve": _retrieval_of,
    "generate": _generation_of,
    "validate": _verdict_of,
}


# --- a case as a row of a table


def _table_row(values: Values, is_text: bool) -> tuple[Values, Recorded]:
    known = {
        name: _cell(kind, values.get(name, values.get(f"{name}_json")), is_text)
        for name, kind in TABLE_COLUMNS.items()
    }
    case = {name: known[name] for name in _CASE_COLUMNS}
    case["query"] = case.pop("user_input")
    others: Sequence[str] = case["alternative_references"] or ()
    if others and others[0] == case["reference"]:
        case["reference"] = None  # the table repeats the first of them there
    retrieved, contexts = None, known["retrieved_contexts"]
    if contexts is not None:
        retrieved = RetrievalResult(
            contexts,
            context_ids=known["retrieved_context_ids"],
            scores=known["retrieved_scores"],
            context_metadata=known["context_metadata"],
            metadata=known["retrieval_metadata"],
        )
    # The table holds what generation was given, not what stood before post-retrieval.
    last = "retrieve" if known["post_retrieval_status"] is None else "post_retrieve"
    held: dict[str, Any] = {last: retrieved, "generate": _table_generation(known)}
    recorded: Recorded = {}
    for stage in ("retrieve", "post_retrieve", "generate"):
        outcome = _table_outcome(_STAGES[stage], known, held.get(stage))
        if outcome is not None:
            recorded[stage] = outcome
    return case, recorded


_CASE_COLUMNS = (
    *("id", "user_input", "reference", "alternative_references", "reference_contexts"),
    *("reference_context_ids", "grades", "evidence", "answerable", "cluster", "tags"),
    *("language", "metadata"),
)


def _table_generation(known: Values) -> GenerationResult[Any] | None:
    status = known["generation_status"]
    if status not in (Status.MEASURED, Status.ABSTAINED):
        return None
    return GenerationResult(
        known["response"] or "",  # an empty cell is an empty answer where there was one
        multi_responses=known["multi_responses"],
        confidence=known["confidence"],
        abstained=known["abstained"],
        metadata=known["generation_metadata"],
    )


def _table_outcome(name: str, known: Values, value: Any) -> Outcome[Any] | None:
    if known[f"{name}_status"] is None:
        return None
    status, reason = Status(known[f"{name}_status"]), known[f"{name}_reason"]
    if status in (Status.MEASURED, Status.ABSTAINED) and value is None:
        return None
    failure = _failure_of(reason or "") if status is Status.FAILED else None
    return _recorded(
        status,
        value=value,
        failure=failure,
        reason=None if failure is not None else reason,
        seconds=known[f"{name}_seconds"],
    )


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


def _report_row(values: Values, _: bool) -> tuple[Values, Recorded]:
    names = ("id", "query", "language", "cluster", "tags", "reference")
    case = {name: values[name] for name in names}
    case["reference_context_ids"] = values["reference_ids"]
    stages, failures = values["stages"], values["failures"]
    recorded: Recorded = {}
    for stage in ("retrieve", "post_retrieve", "generate"):
        status = None if stages.get(stage) is None else Status(stages[stage])
        if status is Status.FAILED:
            recorded[stage] = _failed(stage, failures)
    if stages.get("generate") in (Status.MEASURED, Status.ABSTAINED):
        value = GenerationResult(values["response"])
        outcome = _recorded(Status(stages["generate"]), value=value)
        if outcome is not None:
            recorded["generate"] = outcome
    if values["retrieved_ids"] is not None and "retrieve" not in recorded:
        case["retrieved_context_ids"] = values["retrieved_ids"]
    if is_object(values.get("validation")):
        recorded["validate"] = _verdict(values["validation"])
    return case, recorded


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a quotation mark is put before in cases.csv, so that no spreadsheet runs it."""


def _report_cells(values: Values, is_text: bool) -> tuple[Values, Recorded]:
    """A row of cases.csv; a cell that is empty is not known."""

    def plain(name: str) -> str | None:
        text = str(values.get(name) or "")
        return text[1:] if text[:1] == "'" and text[1:].startswith(_FORMULA) else text or None

    stages = {stage: values[stage] or None for stage in ("retrieve", "generate")}
    failure = _failure_of((plain("failures") or "").partition(" | ")[0])
    return _report_row(
        {
            **{name: plain(name) for name in ("id", "query", "language", "cluster", "reference")},
            "tags": orjson.loads(values["tags"] or "[]"),
            "reference_ids": orjson.loads(values["reference_ids"] or "null"),
            "retrieved_ids": orjson.loads(values["retrieved_ids"] or "null"),
            "response": plain("response") or "",
            "stages": stages,
            "failures": [asdict(failure)],
        },
        is_text,
    )


def _failed(stage: str, failures: Sequence[Values]) -> Outcome[Any]:
    """The failure of a stage; its own, or that of an earlier one that it passes on."""
    own = [failure for failure in failures if failure["stage"] == stage]
    known = own or [failure for failure in failures if failure["stage"] in _STAGES]
    failure = Failure(type=ERROR, message="not recorded", stage=stage)
    if known:
        failure = Failure(**known[0])
    return Outcome(status=Status.FAILED, failure=failure, known=Known.RECORDED)


def _verdict_row(values: Values, _: bool) -> tuple[Values, Recorded]:
    return {"id": values["query_id"]}, {"validate": _verdict(values)}


def _verdict(values: Values) -> Outcome[Any]:
    if values["retrieval_quality"] is not None:
        return Outcome(status=Status.MEASURED, value=_verdict_of(values), known=Known.RECORDED)
    kind, _, message = str(values["message"]).removeprefix("Failed: ").partition(": ")
    failure = Failure(type=kind, message=message, stage="validate")
    return Outcome(status=Status.FAILED, failure=failure, known=Known.RECORDED)
