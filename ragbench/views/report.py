"""A report as report.json and timings.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson
from msgspec import structs

from ragbench.core.attribution import CauseCount, RightShare
from ragbench.core.biography import OperatorTable
from ragbench.core.matched import GoldCause
from ragbench.core.metric import Direction, Group, Metric
from ragbench.core.outcome import Cell, Status
from ragbench.core.record import Record, replace
from ragbench.core.report import (
    CaseRow,
    Correction,
    Counted,
    FailureGroup,
    JudgeReport,
    Latency,
    Report,
    StageCount,
)
from ragbench.core.validation import ValidationTable
from ragbench.ledger.codec import validation_object


def shown_columns(metrics: Sequence[Metric]) -> tuple[tuple[str, int], ...]:
    """Name and position of each metric that gives the same value in every run."""
    return tuple(
        (metric.name, position)
        for position, metric in enumerate(metrics)
        if metric.definition.deterministic
    )


def values_of(record: object, names: str) -> dict[str, Any]:
    """Some fields of a record under their own names."""
    return {name: getattr(record, name) for name in names.split()}


_CASE = "id query language cluster tags reference reference_ids retrieved_ids response"


def case_object(row: CaseRow, metrics: Sequence[Metric]) -> dict[str, Any]:
    columns = shown_columns(metrics)
    found = {
        **values_of(row, f"{_CASE} stages"),
        "scores": {name: _cell_object(row.cells[position]) for name, position in columns},
        # A traceback stays in the journal.
        "failures": [values_of(failure, "stage type message cause") for failure in row.failures],
    }
    if row.repeats:
        found["repeats"] = {
            name: [None if cell is None else _cell_object(cell) for cell in repeats.cells]
            for name, position in columns
            if (repeats := row.repeats[position]) is not None
        }
    found["attribution"] = row.attribution
    if row.validation is not None:
        found["validation"] = validation_object(row.validation)
    if row.biography is not None:
        # What became of other chunks than the gold is in the journal.
        found["post_retrieval"] = {
            "no_gold": row.biography.no_gold,
            "gold": [
                {**values_of(fate, "gold chunk ranks"), "lost_by": row.biography.lost_by(fate)}
                for fate in row.biography.gold
            ],
        }
    if row.location is not None:
        found["gold"] = values_of(row.location, "cause golds retrieved depth")
    return found


def _cell_object(cell: Cell) -> dict[str, Any]:
    """A cell: a value when measured, else why there is none."""
    found: dict[str, Any] = {"status": cell.status, "value": cell.value}
    if cell.status is not Status.MEASURED:
        found["reason"] = cell.reason if cell.failure is None else str(cell.failure)
    return found


def metric_object(metric: Metric) -> dict[str, Any]:
    """What a reader of a score must know of its metric."""
    shown = "version digest group direction low high unit aggregate"
    return {"metric": metric.name, **values_of(metric.definition, shown)}


class ReportedMetric(Counted):
    """A metric's figure, with what a reader of it must know."""

    metric: str
    """With parameters and cutoff, such as ``"nDCG@10"``."""
    version: int
    digest: str
    """Of the source of a user's formula; empty for ragbench's own."""
    group: Group
    direction: Direction
    low: float | None
    high: float | None
    unit: str
    aggregate: str | None


class ReportFile(Record):
    """What report.json holds: everything about a run but its cases.

    Those are in the journal, in cases.csv, and in what ``ragbench export`` writes. Durations are
    left out, so that the same inputs give the same bytes; they are in timings.json.
    """

    manifest: Mapping[str, Any]
    summaries: tuple[ReportedMetric, ...]
    """Of the metrics that give the same values in every run."""
    stages: tuple[StageCount, ...]
    failures: tuple[FailureGroup, ...]
    judging: JudgeReport | None
    notes: tuple[str, ...]
    causes: tuple[CauseCount, ...]
    right: RightShare | None
    validation: ValidationTable | None
    post_retrieval: OperatorTable | None
    gold: Mapping[GoldCause, int]
    corrections: tuple[Correction, ...]


def json_bytes(value: object) -> bytes:
    """A file of JSON: indented, with a line end."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(msgspec.to_builtins(value), option=options)


def report_json(report: Report) -> bytes:
    counted = Counted.__struct_fields__
    own = ("summaries", "judging", "post_retrieval")
    names = [name for name in ReportFile.__struct_fields__ if name not in own]
    shared: dict[str, Any] = {name: getattr(report, name) for name in names}
    judging = report.judging
    found = ReportFile(
        **shared,
        summaries=tuple(
            ReportedMetric(
                **metric_object(one.metric), **{name: getattr(one, name) for name in counted}
            )
            for one in report.summaries
            if one.metric.definition.deterministic
        ),
        judging=None if judging is None else replace(judging, judge={}),  # the manifest has it
        post_retrieval=report.operators,
    )
    return json_bytes({"schema_version": 2, **structs.asdict(found)})


def sharing_remark(latencies: Sequence[Latency]) -> str | None:
    """Why there are no percentiles of stages whose cases shared calls."""
    shared = [latency for latency in latencies if latency.sharing > 1]
    if not shared:
        return None
    named = f"{', '.join(latency.stage for latency in shared)}: "
    stages = "" if len(shared) == len(latencies) else named
    most = max(latency.sharing for latency in shared)
    return f"{stages}up to {most:,} cases shared a call; --batch-size 1 measures each alone"


def timings_json(report: Report) -> bytes:
    value = {
        "schema_version": 1,
        **values_of(report, "latencies reused_from"),
        "summaries": [
            {**metric_object(summary.metric), **values_of(summary, "score interval measured total")}
            for summary in report.summaries
            if not summary.metric.definition.deterministic
        ],
    }
    return json_bytes(value)
