"""A report as report.json and timings.json.

What is the same in every run on the same inputs is in report.json, so that two runs can be compared
byte by byte; durations, and metrics made of them, are in timings.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson
from msgspec import structs

from ragbench.core.attribution import AnswerCounts, CauseCount
from ragbench.core.biography import Biography, OperatorTable
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
    Summary,
)
from ragbench.core.validation import ValidationTable
from ragbench.ledger.codec import validation_object
from ragbench.safe_text import counted


def shown_columns(metrics: Sequence[Metric]) -> tuple[tuple[str, int], ...]:
    """The names of metrics that give the same value in every run, each with its position in a row.

    Files that are compared byte by byte, such as report.json and cases.csv, have only these: times
    differ from run to run.
    """
    columns: list[tuple[str, int]] = []
    for position, metric in enumerate(metrics):
        # The position is that among all cells of a row, as left-out metrics have cells, too.
        if metric.definition.deterministic:
            columns.append((metric.name, position))
    return tuple(columns)


def values_of(record: object, names: str) -> dict[str, Any]:
    """Some fields of a record under their own names, for a JSON object.

    JSON that ragbench prints or stores lists its fields this way, so a renamed field changes it.

    Args:
        names: of the fields, with spaces between them.
    """
    return {name: getattr(record, name) for name in names.split()}


_CASE = "id query language cluster tags reference reference_ids retrieved_ids response"
"""The fields of a case that JSON has as they are."""


def case_object(row: CaseRow, metrics: Sequence[Metric]) -> dict[str, Any]:
    """A case as a JSON object, with the metrics that give the same value in every run.

    ``ragbench cases`` and ``ragbench explain`` print it. Parts that a run does not have, such as a
    validation, are left out.
    """
    columns = shown_columns(metrics)
    scores = {name: _cell_object(row.cells[position]) for name, position in columns}
    # A traceback stays in the journal.
    failures = [values_of(failure, "stage type message cause") for failure in row.failures]
    case = {**values_of(row, f"{_CASE} stages"), "scores": scores, "failures": failures}
    # Only where the RAG was asked repeatedly.
    if row.repeats:
        case["repeats"] = _repeats_object(row, columns)
    case["attribution"] = row.attribution
    if row.validation is not None:
        case["validation"] = validation_object(row.validation)
    if row.biography is not None:
        case["post_retrieval"] = _gold_object(row.biography)
    if row.location is not None:
        case["gold"] = values_of(row.location, "cause golds retrieved depth")
    return case


def _repeats_object(row: CaseRow, columns: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """The JSON of the cells that each score of a case is the mean of, by metric.

    There are several where the RAG was asked the same question several times.
    """
    objects: dict[str, Any] = {}
    for name, position in columns:
        repeats = row.repeats[position]
        if repeats is None:
            continue
        cells: list[dict[str, Any] | None] = []
        for cell in repeats.cells:
            if cell is None:  # the case was not asked this time
                cells.append(None)
            else:
                cells.append(_cell_object(cell))
        objects[name] = cells
    return objects


def _gold_object(biography: Biography) -> dict[str, Any]:
    """The JSON of how post-retrieval treated a case's gold (the relevant chunks).

    It has the ranks of each, and the operator that lost it. The other chunks' ways are in the
    journal of the run alone.
    """
    gold: list[dict[str, Any]] = []
    for fate in biography.gold:
        gold.append({**values_of(fate, "gold chunk ranks"), "lost_by": biography.lost_by(fate)})
    return {"no_gold": biography.no_gold, "gold": gold}


def _cell_object(cell: Cell) -> dict[str, Any]:
    """The JSON of one score of a case: its value, or the reason why it was not measured.

    A case without a value must not read as a 0.
    """
    cell_object: dict[str, Any] = {"status": cell.status, "value": cell.value}
    if cell.status is not Status.MEASURED:
        # A failure says more than the reason of the cell.
        reason = cell.reason
        if cell.failure is not None:
            reason = str(cell.failure)
        cell_object["reason"] = reason
    return cell_object


def metric_object(metric: Metric) -> dict[str, Any]:
    """The JSON that goes with each figure of a metric: its version, direction, range and unit.

    Two reports with other versions of a formula cannot be compared: programs see it here.
    """
    names = "version digest group direction low high unit aggregate"
    return {"metric": metric.name, **values_of(metric.definition, names)}


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
    answers: AnswerCounts | None
    validation: ValidationTable | None
    post_retrieval: OperatorTable | None
    gold: Mapping[GoldCause, int]
    corrections: tuple[Correction, ...]


def json_bytes(value: object) -> bytes:
    """A value as the bytes of a JSON file: indented, with a line end.

    Reports are compared byte by byte, and are read as differences in version control.
    """
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(msgspec.to_builtins(value), option=options)


def report_json(report: Report) -> bytes:
    """The bytes of report.json: the fields of `ReportFile` in their order.

    Programs and later runs read it: another meaning of a field needs another ``schema_version``.
    """
    summaries: list[ReportedMetric] = []
    for summary in report.summaries:
        # Times would make the file another one in each run.
        if summary.metric.definition.deterministic:
            summaries.append(_reported_metric(summary))
    judging = report.judging
    if judging is not None:
        judging = replace(judging, judge={})  # the manifest names the judge already
    file = ReportFile(
        manifest=report.manifest,
        summaries=tuple(summaries),
        stages=report.stages,
        failures=report.failures,
        judging=judging,
        notes=report.notes,
        causes=report.causes,
        answers=report.answers,
        validation=report.validation,
        post_retrieval=report.operators,
        gold=report.gold,
        corrections=report.corrections,
    )
    return json_bytes({"schema_version": 3, **structs.asdict(file)})


def _reported_metric(summary: Summary) -> ReportedMetric:
    """The summary of a metric in the form of report.json.

    It has the figures, and the metric's definition.
    """
    # By the names of the fields, so that report.json has every figure that a summary has.
    figures = {name: getattr(summary, name) for name in Counted.__struct_fields__}
    return ReportedMetric(**figures, **metric_object(summary.metric))


def sharing_remark(latencies: Sequence[Latency]) -> str | None:
    """A remark on why stages have no percentiles of time: their cases shared calls.

    It is None where no stage shared calls. Terminal and page show it below their times.
    """
    shared = [latency for latency in latencies if latency.sharing > 1]
    if not shared:
        return None
    most = max(latency.sharing for latency in shared)
    cases = counted(most, "case")
    remark = f"up to {cases} shared a call; --batch-size 1 measures each alone"
    # All stages shared calls: naming them would say nothing.
    if len(shared) < len(latencies):
        stages = [latency.stage for latency in shared]
        remark = f"{', '.join(stages)}: {remark}"
    return remark


def timings_json(report: Report) -> bytes:
    """The bytes of timings.json: the durations of a run, and the metrics that are made of times.

    They differ from run to run, and so are kept out of report.json.
    """
    summaries: list[dict[str, Any]] = []
    for summary in report.summaries:
        # Metrics whose values differ on the same inputs, mostly times.
        if not summary.metric.definition.deterministic:
            figures = values_of(summary, "score interval measured total")
            summaries.append({**metric_object(summary.metric), **figures})
    return json_bytes(
        {
            "schema_version": 1,
            **values_of(report, "latencies reused_from"),
            "summaries": summaries,
        }
    )
