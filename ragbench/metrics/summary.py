"""Cells to summaries, one case at a time."""

from __future__ import annotations

import inspect
import math
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import Any

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
        self._reasons: list[Counter[tuple[Status, str]]] = [Counter() for _ in self.metrics]
        """Of the cells that have no value."""
        self._clusters = array("q")
        self._cluster_numbers: dict[str, int] = {}
        self._members: dict[tuple[str, str], array[int]] = {}

    def add(self, case: Case, cells: Sequence[Cell]) -> None:
        row = len(self._clusters)
        for column, reasons, cell in zip(self._columns, self._reasons, cells, strict=True):
            column.append(math.nan if cell.value is None else cell.value)
            if cell.status is not Status.MEASURED:
                reason, failure = cell.reason or cell.status.value, cell.failure
                if failure is not None:  # without its message, which may differ from case to case
                    reason = f"{failure.stage}: {failure.type}"
                reasons[cell.status, reason] += 1
        named, cluster = self._cluster_numbers, case.cluster
        self._clusters.append(_ALONE if cluster is None else named.setdefault(cluster, len(named)))
        slices = [("tag", tag) for tag in dict.fromkeys(case.tags)]
        if case.language is not None:
            slices.append(("language", case.language))
        for key in slices:
            self._members.setdefault(key, array("q")).append(row)

    def summaries(self) -> tuple[Summary, ...]:
        """One summary a metric, in their order, of the cases added so far."""
        return tuple(map(self._summary, self.metrics, self._columns, self._reasons))

    def _summary(
        self, metric: Metric, column: array[float], counts: Counter[tuple[Status, str]]
    ) -> Summary:
        aggregate = fmean if metric.definition.aggregate is None else _aggregate(metric)
        whole, problem = _figures(metric, aggregate, column, self._clusters)
        statuses: Counter[Status] = Counter()
        reasons: Counter[str] = Counter()
        for (status, reason), count in counts.items():
            statuses[status] += count
            reasons[reason] += count
        if problem is not None:
            reasons[f"{NO_FIGURE}{problem}"] = whole["measured"]
        slices: list[Slice] = []
        for by, value in sorted(self._members, key=lambda key: (key[0] != "tag", key[1])):
            rows = self._members[by, value]
            clusters = [self._clusters[row] for row in rows]
            part, _ = _figures(metric, aggregate, [column[row] for row in rows], clusters)
            slices.append(Slice(by=by, value=value, **part))
        return Summary(
            metric=metric,
            abstained=statuses[Status.ABSTAINED],
            skipped=statuses[Status.SKIPPED],
            failed=statuses[Status.FAILED],
            unproved=statuses[Status.UNPROVED],
            reasons=tuple(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:10]),
            slices=tuple(slices),
            **whole,
        )


def _figures(
    metric: Metric, aggregate: Aggregate | None, column: Sequence[float], clusters: Sequence[int]
) -> tuple[dict[str, Any], str | None]:
    """What a summary and a slice say of some cases; why there is no figure, where one was due."""
    values = [value for value in column if not math.isnan(value)]
    score, problem = None, None
    if aggregate is not None and values:
        try:
            score = float(aggregate(values))
        except Exception as error:  # noqa: BLE001 - a user's function must not end a run
            problem = f"{type(error).__name__}: {error}"
        if score is not None and not math.isfinite(score):
            score, problem = None, f"it is {score}"
    interval = None
    if metric.definition.aggregate is None and len(values) > 1:  # of a mean only
        labels = [
            None if cluster == _ALONE else cluster
            for value, cluster in zip(column, clusters, strict=True)
            if not math.isnan(value)
        ]
        interval = _interval(metric, values, labels)
    found = {"total": len(column), "measured": len(values), "score": score, "interval": interval}
    return found, problem


def _interval(
    metric: Metric, values: Sequence[float], labels: Sequence[int | None]
) -> Interval | None:
    """Student-t interval of a mean, robust against values of one cluster being alike.

    None when there are fewer than two clusters, or when all of them agree (on a scale without ends
    exactly, else but for the last digits): from those no spread can be estimated, and an interval
    without width would claim certainty.
    """
    low, high = metric.definition.low, metric.definition.high
    bounds = None if low is None or high is None else (low, high)
    found = mean_interval(values, labels, _LEVEL, bounds=bounds)
    if found.low is None or found.high is None or found.low == found.high:
        return None
    return Interval(
        low=found.low if low is None else max(found.low, low),
        high=found.high if high is None else min(found.high, high),
        level=_LEVEL,
    )


def _aggregate(metric: Metric) -> Aggregate | None:
    """What makes the figure of a metric; None where it is not at hand."""
    definition = metric.definition
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
