"""A report as report.json, cases.csv and timings.json."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any, BinaryIO

import orjson

from ragbench.core.attribution import CauseCount
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Failure, Status
from ragbench.core.report import CaseRow, JudgeReport, Latency, Report, Summary
from ragbench.core.validation import ValidationTable, Verdict
from ragbench.ledger.codec import validation_object
from ragbench.views.operators import biography_object, operator_object


def shown_columns(metrics: tuple[Metric, ...]) -> tuple[tuple[str, int], ...]:
    """Name and position of each metric that gives the same value in every run."""
    return tuple(
        (metric.name, position)
        for position, metric in enumerate(metrics)
        if metric.definition.deterministic
    )


def case_object(row: CaseRow, columns: tuple[tuple[str, int], ...]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": row.id,
        "fingerprint": row.fingerprint,
        "query": row.query,
        "language": row.language,
        "cluster": row.cluster,
        "tags": row.tags,
        "reference": row.reference,
        "reference_ids": row.reference_ids,
        "retrieved_ids": row.retrieved_ids,
        "response": row.response,
        "stages": row.stages,
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
        found["gold"] = {
            "cause": row.location.cause,
            "golds": row.location.golds,
            "retrieved": row.location.retrieved,
            "depth": row.location.depth,
        }
    return found


def metric_object(metric: Metric) -> dict[str, Any]:
    """What a reader of a score must know of its metric."""
    definition = metric.definition
    return {
        "metric": metric.name,
        "version": definition.version,
        "digest": definition.digest,
        "group": definition.group,
        "direction": definition.direction,
        "low": definition.low,
        "high": definition.high,
        "unit": definition.unit,
        "aggregate": definition.aggregate,
    }


def failure_object(failure: Failure) -> dict[str, str | None]:
    """A failure as a JSON object. Its traceback stays in the journal."""
    return {
        "stage": failure.stage,
        "type": failure.type,
        "message": failure.message,
        "cause": failure.cause,
    }


def _cell_object(cell: Cell) -> dict[str, Any]:
    """A cell: a value when measured, else why there is none."""
    if cell.status is Status.MEASURED:
        return {"status": cell.status, "value": cell.value}
    return {
        "status": cell.status,
        "value": None,
        "reason": str(cell.failure) if cell.failure is not None else cell.reason,
    }


_COLUMNS = (
    "id", "query", "language", "cluster", "tags", "reference", "response", "reference_ids",
    "retrieved_ids", "retrieve", "generate", "failures",
)  # fmt: skip
_VERDICT_COLUMNS = (
    "verdict_answer_present", "verdict_probability", "verdict_quality", "verdict_message",
    "verdict_reasons", "verdict_conflicts",
)  # fmt: skip
"""Only in runs that have a validator."""


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What spreadsheets take for the beginning of a formula (OWASP, "CSV Injection")."""


class CsvCases:
    """Writes the cases, a header first.

    Lists are JSON. A cell that was not measured holds its status instead of a number, so that
    none is taken for a 0.
    """

    def __init__(self, report: Report, file: BinaryIO) -> None:
        self._columns = shown_columns(report.metrics)
        self._text = io.TextIOWrapper(
            file, encoding="utf-8", errors="backslashreplace", newline="", write_through=True
        )
        # RFC 4180's line end; with another, Python 3.11 leaves a lone carriage return unquoted.
        self._writer = csv.writer(self._text, lineterminator="\r\n")
        self._validated = report.validation is not None
        verdict = _VERDICT_COLUMNS if self._validated else ()
        self._writer.writerow([*_COLUMNS, *(name for name, _ in self._columns), *verdict])

    def case(self, row: CaseRow) -> None:
        verdict = _verdict_fields(row.validation) if self._validated else []
        self._writer.writerow([*_fields(row, self._columns), *verdict])

    def finish(self) -> None:
        """Hands the file back, everything written."""
        self._text.detach()


def _fields(row: CaseRow, columns: tuple[tuple[str, int], ...]) -> list[str]:
    return [
        *(_safe(text) for text in (row.id, row.query, row.language, row.cluster)),
        _list(row.tags),
        _safe(row.reference),
        _safe(row.response),
        _list(row.reference_ids),
        _list(row.retrieved_ids),
        row.stages["retrieve"],
        row.stages["generate"],
        _safe(" | ".join(str(failure) for failure in row.failures)),
        *(_cell(row.cells[position]) for _, position in columns),
    ]


def _verdict_fields(verdict: Verdict | None) -> list[str]:
    """What the validator says of a case's chunks; nothing of one that it was not asked about."""
    if verdict is None:
        return [""] * len(_VERDICT_COLUMNS)
    return [
        "yes" if verdict.answer_present else "no",
        repr(verdict.answer_probability),
        verdict.retrieval_quality.value,
        _safe(verdict.message),
        _safe(" | ".join(verdict.reasons)),
        _safe(" | ".join(one.detail for one in verdict.conflicts)),
    ]


def _safe(text: str | None) -> str:
    """A text that a spreadsheet does not run as a formula."""
    if text is None:
        return ""
    text = text.replace("\x00", "\\0")  # readers end a row there
    return f"'{text}" if text.startswith(_FORMULA) else text


def _list(values: tuple[str, ...] | None) -> str:
    return "" if values is None else orjson.dumps(values).decode()


def _cell(cell: Cell) -> str:
    return repr(cell.value) if cell.status is Status.MEASURED else cell.status.value


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
        """Writes what stands behind the cases."""
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
    """How many cases have a cause, as a JSON object."""
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
        "validator": table.validator,
        "verdicts": table.verdicts,
        "quality": dict(table.quality),
        "answer_present": table.answer_present,
        "matrix": [
            {
                "answer_present": cell.answer_present,
                "answered": cell.answered,
                "meaning": cell.meaning,
                "cases": cell.rate.count,
                "rate": cell.rate,
            }
            for cell in table.matrix
        ],
        "unmatched": table.unmatched,
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        **metric_object(summary.metric),
        "score": summary.score,
        "interval": summary.interval,
        "total": summary.total,
        "measured": summary.measured,
        "abstained": summary.abstained,
        "skipped": summary.skipped,
        "failed": summary.failed,
        "unproved": summary.unproved,
        "reasons": [{"reason": reason, "cases": count} for reason, count in summary.reasons],
        "slices": summary.slices,
    }


def _judging(judging: JudgeReport) -> dict[str, Any]:
    """What judging took. Who judged stands in the manifest."""
    return {
        "currency": judging.currency,
        "price_origin": judging.price_origin,
        "metrics": [
            {
                "metric": line.metric,
                "answers": line.answers,
                "prompt_tokens": line.prompt_tokens,
                "completion_tokens": line.completion_tokens,
                "unreported": line.unreported,
                "cost": None if line.cost is None else f"{line.cost:f}",
                "not_sent": line.not_sent,
                "quotes": line.quotes,
                "fabricated_quotes": line.fabricated_quotes,
                "fabricated_rate": line.fabricated_rate,
                "steadiness": line.steadiness,
                "jurors": line.jurors,
                "pairs": line.pairs,
            }
            for line in judging.lines
        ],
        "canaries": judging.canaries,
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
    """Latencies a stage, and the metrics that measure time."""
    value = {
        "schema_version": 1,
        "latencies": report.latencies,
        "reused_from": report.reused_from,
        "summaries": [
            {
                **metric_object(summary.metric),
                "score": summary.score,
                "interval": summary.interval,
                "measured": summary.measured,
                "total": summary.total,
            }
            for summary in report.summaries
            if not summary.metric.definition.deterministic
        ],
    }
    yield orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
