"""Which cases lost: what to look at first when a gate fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.gate.demands import Demand
from ragbench.records.cells import Cell, Status
from ragbench.records.run_scores import RunScores, ScoredCase
from ragbench.records.verdicts import CaseChange

__all__ = ["lost_cases"]


def lost_cases(
    run: RunScores, baseline: RunScores, demands: Sequence[Demand]
) -> tuple[CaseChange, ...]:
    """The cases that lost on one of the metrics, each with the metric on which it lost most.

    A case that is declined now loses what it had before, which is nothing where it was scored
    with the worst value.

    Returns:
        Newly failed ones first, then by loss; equal ones by id.
    """
    before = {case.id: case for case in baseline.cases}
    found: list[CaseChange] = []
    for case in run.cases:
        earlier = before.get(case.id)
        if earlier is not None:
            changes = sorted(_changes(case, earlier, demands), key=_place)
            found += changes[:1]
    return tuple(sorted(found, key=_place))


def _changes(
    case: ScoredCase, earlier: ScoredCase, demands: Sequence[Demand]
) -> Iterator[CaseChange]:
    for demand in demands:
        column = demand.column
        cell, old = case.scores.get(column.name), earlier.scores.get(column.name)
        if cell is None or old is None:
            continue
        loss = _loss(cell, old, demand) / (column.scale or 1.0)
        if not loss > 0 and not _newly_failed(cell, old):
            continue
        yield CaseChange(
            id=case.id,
            metric=column.name,
            before=old.value,
            after=cell.value,
            loss=loss,
            status=cell.status.value,
            reason=cell.reason,
            query=case.query,
        )


def _loss(cell: Cell, old: Cell, demand: Demand) -> float:
    if old.value is None:
        return 0.0
    worst = demand.column.low if demand.higher_is_better else demand.column.high
    now = worst if cell.status is Status.ABSTAINED else cell.value
    if now is None:
        return 0.0
    return old.value - now if demand.higher_is_better else now - old.value


def _newly_failed(cell: Cell, old: Cell) -> bool:
    return cell.status is Status.FAILED and old.status is not Status.FAILED


def _place(change: CaseChange) -> tuple[bool, float, str, str]:
    return change.status != Status.FAILED, -change.loss, change.id, change.metric
