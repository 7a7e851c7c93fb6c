"""Which cases lost: what to look at first when a gate fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.gate.demands import Demand
from ragbench.records.cells import Cell, Status
from ragbench.records.run_scores import RunScores, ScoredCase
from ragbench.records.verdicts import CaseChange

__all__ = ["lost_cases"]

_FIRST = (Status.FAILED, Status.ABSTAINED)
"""Cases that were measured before and ended so now stand before those with a smaller score."""


def lost_cases(
    run: RunScores, baseline: RunScores, demands: Sequence[Demand]
) -> tuple[CaseChange, ...]:
    """The cases that lost on one of the metrics, each with the metric on which it lost most.

    Returns:
        Newly failed ones first, then newly abstained ones, then by loss; equal ones by id.
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
        loss = _loss(cell, old, higher_is_better=demand.higher_is_better)
        if not (loss is not None and loss > 0) and not _newly_unmeasured(cell, old):
            continue
        yield CaseChange(
            id=case.id,
            metric=column.name,
            before=old.value,
            after=cell.value,
            loss=None if loss is None else loss / (column.scale or 1.0),
            status=cell.status.value,
            reason=cell.reason,
            query=case.query,
        )


def _loss(cell: Cell, old: Cell, *, higher_is_better: bool) -> float | None:
    if cell.value is None or old.value is None:
        return None
    return old.value - cell.value if higher_is_better else cell.value - old.value


def _newly_unmeasured(cell: Cell, old: Cell) -> bool:
    if cell.status is Status.FAILED:
        return old.status is not Status.FAILED
    return cell.status is Status.ABSTAINED and old.status is Status.MEASURED


def _place(change: CaseChange) -> tuple[int, float, str, str]:
    rank = _FIRST.index(Status(change.status)) if change.status in _FIRST else len(_FIRST)
    return rank, -(change.loss or 0.0), change.id, change.metric
