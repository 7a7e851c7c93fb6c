"""How a case of a report is written, in whichever form."""

from __future__ import annotations

from typing import Any

from ragbench.records.cells import Cell, Failure, Status
from ragbench.records.metrics import Metric
from ragbench.records.reports import CaseRow
from ragbench.reports.validation_json import validation_object

__all__ = ["case_object", "failure_object", "metric_object", "shown_columns"]


def shown_columns(metrics: tuple[Metric, ...]) -> tuple[tuple[str, int], ...]:
    """Name and position of each metric that gives the same value in every run."""
    return tuple(
        (metric.name, position)
        for position, metric in enumerate(metrics)
        if metric.definition.deterministic
    )


def case_object(row: CaseRow, columns: tuple[tuple[str, int], ...]) -> dict[str, Any]:
    """A case as a JSON object.

    Args:
        row: the case.
        columns: see `shown_columns`.
    """
    found = {
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
    if row.validation is not None:
        found["validation"] = validation_object(row.validation, row.validation.warnings)
    return found


def metric_object(metric: Metric) -> dict[str, Any]:
    """What a reader of a score must know of its metric."""
    definition = metric.definition
    return {
        "metric": metric.name,
        "version": definition.version,
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
