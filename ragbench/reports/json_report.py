"""report.json: the whole report for programs. Its schema stands beside this file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from ragbench.records.reports import Report
from ragbench.records.summaries import Summary
from ragbench.reports.rows import case_object

__all__ = ["SCHEMA_VERSION", "json_report"]

SCHEMA_VERSION = 1

_OPTIONS = orjson.OPT_INDENT_2


def json_report(report: Report) -> Iterator[bytes]:
    """The report in pieces: everything about the run, then a line a case.

    Durations are left out, so that the same inputs give the same bytes; they are in timings.json.
    """
    head = orjson.dumps(_head(report), option=_OPTIONS)
    yield head.removesuffix(b"\n}")
    yield b',\n  "cases": ['
    separator = b"\n    "
    for row in report.rows():
        yield separator
        yield orjson.dumps(case_object(row, report.metrics))
        separator = b",\n    "
    yield b"\n  ]\n}\n"


def _head(report: Report) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "manifest": report.manifest,
        "summaries": [
            _summary(summary)
            for summary in report.summaries
            if summary.metric.definition.deterministic
        ],
        "stages": report.stages,
        "failures": report.failures,
        "notes": report.notes,
    }


def _summary(summary: Summary) -> dict[str, Any]:
    definition = summary.metric.definition
    return {
        "metric": summary.metric.name,
        "version": definition.version,
        "group": definition.group,
        "direction": definition.direction,
        "aggregate": definition.aggregate,
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
