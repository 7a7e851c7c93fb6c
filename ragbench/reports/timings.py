"""timings.json: everything about a run that differs from one time to the next."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from ragbench.records.reports import Report
from ragbench.reports.rows import metric_object

__all__ = ["timings_report"]


def timings_report(report: Report) -> Iterator[bytes]:
    """Latencies a stage, and the metrics that measure time."""
    value = {
        "schema_version": 1,
        "latencies": report.latencies,
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
