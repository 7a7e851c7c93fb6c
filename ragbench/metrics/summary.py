"""Cells to summaries, one case at a time."""

from __future__ import annotations

import inspect
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ragbench.core.case import Case
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Status
from ragbench.core.report import Interval, Slice, Summary
from ragbench.errors import ConfigError
from ragbench.stats.mean import mean_interval

NO_FIGURE = "no figure over the run: "
"""What a summary's reason begins with where there is no figure."""

_LEVEL = 0.95
"""Confidence of the intervals."""
_ALONE = -1
"""In place of the number of a cluster, for a case that has none."""

Aggregate = Callable[[Sequence[float]], float]


class SummaryBuilder:
    """Collects the cells of a run and sums them up.

    Memory is eight bytes a case and metric, and a few more for its cluster, tags and language.
    """

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = tuple(metrics)
        self._columns = [array("d") for _ in self.metrics]
        self._statuses: list[Counter[Status]] = [Counter() for _ in self.metrics]
        self._reasons: list[Counter[str]] = [Counter() for _ in self.metrics]
        self._clusters = array("q")
        self._cluster_numbers: dict[str, int] = {}
        self._members: dict[tuple[str, str], array[int]] = {}

    def add(self, case: Case, cells: Sequence[Cell]) -> None:
        row = len(self._clusters)
        for position, (column, cell) in enumerate(zip(self._columns, cells, strict=True)):
            column.append(math.nan if cell.value is None else cell.value)
            if cell.status is not Status.MEASURED:
                self._statuses[position][cell.status] += 1
                self._reasons[position][_reason(cell)] += 1
        named, cluster = self._cluster_numbers, case.cluster
        self._clusters.append(_ALONE if cluster is None else named.setdefault(cluster, len(named)))
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
        score, problem = _figure(aggregate, values)
        reasons = [*self._reasons[position].items()]
        if problem is not None:
            reasons.append((f"{NO_FIGURE}{problem}", len(values)))
        return Summary(
            metric=metric,
            total=total,
            measured=len(values),
            abstained=statuses[Status.ABSTAINED],
            skipped=statuses[Status.SKIPPED],
            failed=statuses[Status.FAILED],
            unproved=statuses[Status.UNPROVED],
            score=score,
            interval=_interval(metric, column, self._clusters),
            reasons=tuple(sorted(reasons, key=lambda item: (-item[1], item[0]))[:10]),
            slices=tuple(
                self._slice(key, metric, aggregate, column)
                for key in sorted(self._members, key=lambda key: (key[0] != "tag", key[1]))
            ),
        )

    def _slice(
        self,
        key: tuple[str, str],
        metric: Metric,
        aggregate: Aggregate | None,
        column: array[float],
    ) -> Slice:
        (by, value), rows = key, self._members[key]
        found = array("d", (column[row] for row in rows))
        values = _measured(found)
        return Slice(
            by=by,
            value=value,
            total=len(rows),
            measured=len(values),
            score=_figure(aggregate, values)[0],
            interval=_interval(metric, found, array("q", (self._clusters[row] for row in rows))),
        )


def _interval(metric: Metric, column: array[float], clusters: array[int]) -> Interval | None:
    """Student-t interval of a mean, robust against values of one cluster being alike.

    None when there are fewer than two clusters, or when all of them agree (on a scale without ends
    exactly, else but for the last digits): from those no spread can be estimated, and an interval
    without width would claim certainty.
    """
    if metric.definition.aggregate is not None:
        return None  # of a mean only
    labels = [
        None if cluster == _ALONE else cluster
        for value, cluster in zip(column, clusters, strict=True)
        if not math.isnan(value)
    ]
    low, high = metric.definition.low, metric.definition.high
    bounds = None if low is None or high is None else (low, high)
    found = mean_interval(_measured(column), labels, _LEVEL, bounds=bounds)
    if found.low is None or found.high is None or found.low == found.high:
        return None
    return Interval(
        low=found.low if low is None else max(found.low, low),
        high=found.high if high is None else min(found.high, high),
        level=_LEVEL,
    )


def _measured(column: Iterable[float]) -> array[float]:
    return array("d", (value for value in column if not math.isnan(value)))


def _figure(
    aggregate: Aggregate | None, values: Sequence[float]
) -> tuple[float | None, str | None]:
    """The figure of some values; None without any, and where it cannot be made, with the reason."""
    if aggregate is None or not values:
        return None, None
    try:
        figure = float(aggregate(values))
    except Exception as error:  # noqa: BLE001 - a user's function must not end a run
        return None, f"{type(error).__name__}: {error}"
    return (figure, None) if math.isfinite(figure) else (None, f"it is {figure}")


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _aggregate(metric: Metric) -> Aggregate | None:
    """What makes the figure of a metric; None where it is not at hand."""
    definition = metric.definition
    if definition.aggregate is None:
        return _mean
    if definition.formula is None and not definition.digest:
        from ragbench.metrics.registry import computable

        try:
            definition = computable(metric).definition
        except ConfigError:
            return None
    if definition.formula is None or definition.formula.aggregate is None:
        return None
    aggregate = definition.formula.aggregate
    try:
        takes = inspect.signature(aggregate).parameters
    except ValueError:  # max() has none that can be seen
        return aggregate
    names = [parameter.name for parameter in definition.parameters if parameter.name in takes]
    return partial(aggregate, **{name: metric.parameter(name) for name in names})


def _reason(cell: Cell) -> str:
    if cell.failure is not None:
        # Without its message, which may differ from case to case.
        return f"{cell.failure.stage}: {cell.failure.type}"
    return cell.reason or cell.status.value
