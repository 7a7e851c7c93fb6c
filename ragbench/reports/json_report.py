"""report.json: the whole report for programs. Its schema stands beside this file."""

from __future__ import annotations

from typing import Any, BinaryIO

import orjson

from ragbench.records.judging import JudgeReport
from ragbench.records.reports import CaseRow, Report
from ragbench.records.summaries import Summary
from ragbench.records.validation_tables import ValidationTable
from ragbench.reports.rows import case_object, metric_object, shown_columns

__all__ = ["SCHEMA_VERSION", "JsonReport"]

SCHEMA_VERSION = 1


class JsonReport:
    """Writes the report: everything about the run, then a line a case.

    Durations are left out, so that the same inputs give the same bytes; they are in timings.json.
    """

    def __init__(self, report: Report, file: BinaryIO) -> None:
        """Writes what stands before the cases."""
        self._file, self._columns = file, shown_columns(report.metrics)
        head = orjson.dumps(_head(report), option=orjson.OPT_INDENT_2)
        file.write(head.removesuffix(b"\n}") + b',\n  "cases": [')
        self._separator = b"\n    "

    def case(self, row: CaseRow) -> None:
        """Writes a case."""
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
    }
    if report.validation is not None:
        found["validation"] = _validation(report.validation)
    return found


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
                "steadiness": line.steadiness,
            }
            for line in judging.lines
        ],
    }
