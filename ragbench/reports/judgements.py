"""judgements.jsonl: what judges said for each cell, a line a case and metric."""

from __future__ import annotations

from typing import BinaryIO

import orjson

from ragbench.records.reports import CaseRow, Report
from ragbench.runs.judgement_codec import judgement_object

__all__ = ["JudgementLines"]


class JudgementLines:
    """Writes the statements, verdicts and reasons that the cells of a run rest on."""

    def __init__(self, report: Report, file: BinaryIO) -> None:
        """Writes nothing yet."""
        self._file = file
        self._names = [metric.name for metric in report.metrics]

    def case(self, row: CaseRow) -> None:
        """Writes a case's lines; none for a metric that nobody was asked about."""
        for name, judgements in zip(self._names, row.judgements, strict=True):
            if judgements:
                line = {
                    "case": row.id,
                    "metric": name,
                    "judgements": [judgement_object(judgement) for judgement in judgements],
                }
                self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    def finish(self) -> None:
        """Nothing is left to write."""
