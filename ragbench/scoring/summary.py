"""Cells to summaries, one case at a time, in little memory."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ragbench.records.cases import Case
from ragbench.records.cells import Cell, Status
from ragbench.records.metrics import Metric
from ragbench.records.summaries import Interval, Slice, Summary
from ragbench.registry import load_attribute
from ragbench.scoring.interval import mean_interval

__all__ = ["SummaryBuilder"]

Aggregate = Callable[[Metric, Sequence[float]], float]


class SummaryBuilder:
    """Collects the cells of a run and sums them up.

    Memory is eight bytes a case and metric, and a few more for its cluster, tags and language.
    """

    def __init__(self, metrics: Sequence[Metric]) -> None:
        """Starts with no case.

        Args:
            metrics: the columns of the rows that will be added.
        """
        self.metrics = tuple(metrics)
        self._columns = [array("d") for _ in self.metrics]
        self._statuses: list[Counter[Status]] = [Counter() for _ in self.metrics]
        self._reasons: list[Counter[str]] = [Counter() for _ in self.metrics]
        self._clusters = array("q")
        self._cluster_numbers: dict[str, int] = {}
        self._members: dict[tuple[str, str], array[int]] = {}

    def add(self, case: Case, cells: Sequence[Cell]) -> None:
        """Adds one case.

        Args:
            case: its cluster, tags and language are kept, nothing else of it.
            cells: one a metric, in their order.
        """
        row = len(self._clusters)
        for position, (column, cell) in enumerate(zip(self._columns, cells, strict=True)):
            column.append(math.nan if cell.value is None else cell.value)
            if cell.status is not Status.MEASURED:
                self._statuses[position][cell.status] += 1
                self._reasons[position][_reason(cell)] += 1
        # A lone case gets a number that no cluster has.
        named, cluster = self._cluster_numbers, case.cluster
        self._clusters.append(
            -1 - row if cluster is None else named.setdefault(cluster, len(named))
        )
        slices = [("tag", tag) for tag in dict.fromkeys(case.tags)]
        if case.language is not None:
            slices.append(("language", case.language))
        for key in slices:
            self._members.setdefault(key, array("q")).append(row)

    def summaries(self) -> tuple[Summary, ...]:
        """One summary a metric, in their order, of the cases added so far."""
        return tuple(self._summary(position) for position in range(len(self.metrics)))

    def _summary(self, position: int) -> Summary:
        metric, column = self.metrics[position], self._columns[position]
        statuses, total = self._statuses[position], len(column)
        aggregate = _aggregate(metric)
        values = _measured(column)
        reasons = self._reasons[position].items()
        return Summary(
            metric=metric,
            total=total,
            measured=len(values),
            abstained=statuses[Status.ABSTAINED],
            skipped=statuses[Status.SKIPPED],
            failed=statuses[Status.FAILED],
            score=aggregate(metric, values) if values else None,
            interval=self._interval(metric, column, values),
            reasons=tuple(sorted(reasons, key=lambda item: (-item[1], item[0]))[:10]),
            slices=tuple(
                _slice(key, metric, aggregate, [column[row] for row in self._members[key]])
                for key in sorted(self._members, key=lambda key: (key[0] != "tag", key[1]))
            ),
        )

    def _interval(
        self, metric: Metric, column: array[float], values: Sequence[float]
    ) -> Interval | None:
        if metric.definition.aggregate is not None:
            return None  # of a mean only
        rows = zip(column, self._clusters, strict=True)
        clusters = [cluster for value, cluster in rows if not math.isnan(value)]
        found = mean_interval(values, clusters)
        if found is None:
            return None
        low, high = metric.definition.low, metric.definition.high
        return Interval(
            low=max(found.low, low),
            high=found.high if high is None else min(found.high, high),
            level=found.level,
        )


def _measured(column: Iterable[float]) -> array[float]:
    return array("d", (value for value in column if not math.isnan(value)))


def _mean(_: Metric, values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _aggregate(metric: Metric) -> Aggregate:
    target = metric.definition.aggregate
    if target is None:
        return _mean
    aggregate: Aggregate = load_attribute(target)
    return aggregate


def _slice(
    key: tuple[str, str], metric: Metric, aggregate: Aggregate, column: Sequence[float]
) -> Slice:
    values = _measured(column)
    by, value = key
    return Slice(
        by=by,
        value=value,
        total=len(column),
        measured=len(values),
        score=aggregate(metric, values) if values else None,
    )


def _reason(cell: Cell) -> str:
    if cell.failure is not None:
        # Without its message, which may differ from case to case.
        return f"{cell.failure.stage}: {cell.failure.type}"
    return cell.reason or cell.status.value
