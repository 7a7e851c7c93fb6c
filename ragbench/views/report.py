"""A report as report.json and timings.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any, BinaryIO

import orjson

from ragbench.core.attribution import CauseCount
from ragbench.core.biography import Biography, OperatorEffect, OperatorTable
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Failure, Status
from ragbench.core.report import CaseRow, JudgeReport, Latency, Report, Summary
from ragbench.core.validation import ValidationTable
from ragbench.ledger.codec import validation_object


def shown_columns(metrics: tuple[Metric, ...]) -> tuple[tuple[str, int], ...]:
    """Name and position of each metric that gives the same value in every run."""
    return tuple(
        (metric.name, position)
        for position, metric in enumerate(metrics)
        if metric.definition.deterministic
    )


def _values(record: object, names: str) -> dict[str, Any]:
    """Some fields of a record under their own names."""
    return {name: getattr(record, name) for name in names.split()}


_CASE = "id fingerprint query language cluster tags reference reference_ids retrieved_ids response"


def case_object(row: CaseRow, columns: tuple[tuple[str, int], ...]) -> dict[str, Any]:
    found = {
        **_values(row, f"{_CASE} stages"),
        "scores": {name: _cell_object(row.cells[position]) for name, position in columns},
        "failures": [failure_object(failure) for failure in row.failures],
    }
    if row.repeats:
        found["repeats"] = {
            name: [None if cell is None else _cell_object(cell) for cell in repeats.cells]
            for name, position in columns
            if (repeats := row.repeats[position]) is not None
        }
    if row.attribution is not None:
        found["attribution"] = row.attribution
    if row.validation is not None:
        found["validation"] = validation_object(row.validation)
    if row.biography is not None:
        found["post_retrieval"] = biography_object(row.biography)
    if row.location is not None:
        found["gold"] = _values(row.location, "cause golds retrieved depth")
    return found


def metric_object(metric: Metric) -> dict[str, Any]:
    """What a reader of a score must know of its metric."""
    shown = "version digest group direction low high unit aggregate"
    return {"metric": metric.name, **_values(metric.definition, shown)}


def failure_object(failure: Failure) -> dict[str, Any]:
    """A failure as a JSON object. Its traceback stays in the journal."""
    return _values(failure, "stage type message cause")


def _cell_object(cell: Cell) -> dict[str, Any]:
    """A cell: a value when measured, else why there is none."""
    if cell.status is Status.MEASURED:
        return {"status": cell.status, "value": cell.value}
    return {
        "status": cell.status,
        "value": None,
        "reason": str(cell.failure) if cell.failure is not None else cell.reason,
    }


def operator_object(table: OperatorTable) -> dict[str, Any]:
    return {
        **_values(table, "cases judged gold found kept"),
        "no_gold": [{"reason": reason, "cases": count} for reason, count in table.no_gold],
        "operators": [_effect(one) for one in table.operators],
    }


def _effect(one: OperatorEffect) -> dict[str, Any]:
    gold = {name: getattr(one, f"gold_{name}") for name in ("given", "lost", "added", "up", "down")}
    return {
        **_values(one, "operator cases acted examples"),
        "chunks": _values(one, "given dropped moved rewritten added"),
        "gold": {**gold, "lost_for_good": one.lost_for_good},
        "notes": [{"note": note, "cases": count} for note, count in one.notes],
    }


def biography_object(biography: Biography) -> dict[str, Any]:
    """What became of a case's gold contexts; what became of its other chunks is in the journal."""
    return {
        "no_gold": biography.no_gold,
        "gold": [
            {
                "gold": fate.gold,
                "chunk": fate.chunk,
                "ranks": list(fate.ranks),
                "lost_by": biography.lost_by(fate),
            }
            for fate in biography.gold
        ],
    }


SCHEMA_VERSION = 1


class JsonReport:
    """Writes the report: everything about the run, then a line a case.

    Durations are left out, so that the same inputs give the same bytes; they are in timings.json.
    """

    def __init__(self, report: Report, file: BinaryIO) -> None:
        self._file, self._columns = file, shown_columns(report.metrics)
        head = orjson.dumps(_head(report), option=orjson.OPT_INDENT_2)
        file.write(head.removesuffix(b"\n}") + b',\n  "cases": [')
        self._separator = b"\n    "

    def case(self, row: CaseRow) -> None:
        self._file.write(self._separator + orjson.dumps(case_object(row, self._columns)))
        self._separator = b",\n    "

    def finish(self) -> None:
        self._file.write(b"\n  ]\n}\n")


def _head(report: Report) -> dict[str, Any]:
    found = {
        "schema_version": SCHEMA_VERSION,
        "manifest": report.manifest,
        "summaries": [
            _summary(summary)
            for summary in report.summaries
            if summary.metric.definition.deterministic
        ],
        "stages": report.stages,
        "failures": report.failures,
        "judging": None if report.judging is None else _judging(report.judging),
        "notes": report.notes,
        "causes": [cause_object(count) for count in report.causes],
    }
    if report.validation is not None:
        found["validation"] = _validation(report.validation)
    if report.operators is not None:
        found["post_retrieval"] = operator_object(report.operators)
    if report.gold:
        found["gold"] = {cause.value: count for cause, count in report.gold.items()}
    return found


def cause_object(count: CauseCount) -> dict[str, Any]:
    return {
        "cause": count.cause,
        "label": count.cause.label,
        "cases": count.cases,
        "estimated": count.estimated,
        "stages": [{"stage": stage, "cases": cases} for stage, cases in count.stages],
        "examples": count.examples,
    }


def _validation(table: ValidationTable) -> dict[str, Any]:
    return {
        **_values(table, "validator verdicts answer_present unmatched"),
        "quality": dict(table.quality),
        "matrix": [
            {
                **_values(cell, "answer_present answered meaning rate"),
                "cases": cell.rate.count,
            }
            for cell in table.matrix
        ],
    }


def _summary(summary: Summary) -> dict[str, Any]:
    counts = "total measured abstained skipped failed unproved"
    return {
        **metric_object(summary.metric),
        **_values(summary, f"score interval {counts} slices"),
        "reasons": [{"reason": reason, "cases": count} for reason, count in summary.reasons],
    }


_JUDGED = (
    "metric answers prompt_tokens completion_tokens unreported not_sent quotes fabricated_quotes "
    "fabricated_rate steadiness jurors pairs"
)


def _judging(judging: JudgeReport) -> dict[str, Any]:
    """What judging took. Who judged stands in the manifest."""
    return {
        **_values(judging, "currency price_origin canaries"),
        "metrics": [
            {**_values(line, _JUDGED), "cost": None if line.cost is None else f"{line.cost:f}"}
            for line in judging.lines
        ],
    }


def report_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every report.json of this version meets."""
    schema: dict[str, Any] = orjson.loads(
        (files("ragbench.views") / "report.schema.json").read_bytes()
    )
    return schema


def sharing_remark(latencies: Sequence[Latency]) -> str | None:
    """Why there are no percentiles of stages whose cases shared calls."""
    shared = [latency for latency in latencies if latency.sharing > 1]
    if not shared:
        return None
    stages = (
        ""
        if len(shared) == len(latencies)
        else f"{', '.join(latency.stage for latency in shared)}: "
    )
    most = max(latency.sharing for latency in shared)
    return f"{stages}up to {most:,} cases shared a call; --batch-size 1 measures each alone"


def timings_report(report: Report) -> Iterator[bytes]:
    value = {
        "schema_version": 1,
        "latencies": report.latencies,
        "reused_from": report.reused_from,
        "summaries": [
            {**metric_object(summary.metric), **_values(summary, "score interval measured total")}
            for summary in report.summaries
            if not summary.metric.definition.deterministic
        ],
    }
    yield orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
