"""Cells to summaries, one case at a time."""

from __future__ import annotations

import inspect
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from ragbench.core.case import Case
from ragbench.core.case_table import clusters_of
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Status
from ragbench.core.report import Interval, Slice, Summary, has_known_level
from ragbench.errors import ConfigError
from ragbench.stats.mean import mean_interval

KeyT = TypeVar("KeyT", str, tuple[str, str, str])
NO_FIGURE = "no figure over the run: "
"""What a summary's reason begins with where there is no figure."""
_MOST_REASONS = 10
"""Reasons without a value that a summary holds: an error may differ in each case."""


class SummaryBuilder:
    """Collects the cells of a run and sums them up.

    Memory is eight bytes a case and metric, and a few more for its cluster, gold, tags and
    language.
    """

    clusters: Sequence[str | None] = ()
    """What each case shares with others, known from `summaries` on; empty where none does."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        """Begins with no case.

        Cases are added one by one, so that a run of any length fits into memory.

        Args:
            metrics: in the order in which cells of cases are added.
        """
        # All columns pair with the metrics by position, and their rows with the cases as added.
        self.metrics = tuple(metrics)
        self._columns = [array("d") for _ in self.metrics]
        """By metric the values of the cases; NaN where a case has none."""
        self._reasons: list[Counter[tuple[Status, str]]] = [Counter() for _ in self.metrics]
        """By metric the reasons why cells have no value, each with the number of cells."""
        self._named_clusters: list[str | None] = []
        """The cluster that each case names itself."""
        self.names: dict[str, str] = {}
        """Clusters that cases name, each with itself."""
        self._gold = array("q")
        """Two numbers for each case (`Case.gold_pair`): cases with equal ones share gold, and are
        one cluster."""
        self._members: dict[tuple[str, str], array[int]] = defaultdict(partial(array, "q"))
        """The rows of the cases of each slice; a slice is "tag" or "language", and the name of
        one."""

    def add(self, case: Case, cells: Sequence[Cell]) -> None:
        """Takes in a case: its cells, its cluster or gold, its tags and its language.

        Only values and counts are kept of it, and no cell: memory stays small.

        Args:
            cells: one for each of the metrics.
        """
        for column, reasons, cell in zip(self._columns, self._reasons, cells, strict=True):
            value = cell.value
            if value is None:
                value = math.nan
                reason = cell.reason or cell.status.value
                failure = cell.failure
                if failure is not None:  # without its message, which may differ from case to case
                    reason = f"{failure.stage}: {failure.type}"
                reasons[cell.status, reason] += 1
            column.append(value)
        row = len(self._named_clusters)
        cluster = case.cluster
        if cluster:
            # One object for all cases of a cluster: 100,000 equal texts would take memory.
            cluster = self.names.setdefault(cluster, cluster)
        self._named_clusters.append(cluster)
        # Once a case has named its cluster, shared gold no longer makes clusters.
        if self.names:
            self._gold.extend((-1, -1))
        else:
            self._gold.extend(case.gold_pair)
        for tag in dict.fromkeys(case.tags):
            self._members["tag", tag].append(row)
        if case.language is not None:
            self._members["language", case.language].append(row)

    def summaries(self) -> tuple[Summary, ...]:
        """The summary of each metric over the cases so far: figure, interval, reasons, slices.

        A slice is the cases of one tag or language. Reports show reasons and slices in this order.
        """
        summaries: list[Summary] = []
        # Tags before languages, each in the order of names.
        slice_keys = sorted(self._members, key=_tags_first)
        # With one case there is nothing to group.
        if len(self._named_clusters) > 1:
            clusters = clusters_of(self._named_clusters, self._gold)
            # Kept for the caller; empty where no two cases share anything, so that the interval is
            # of single cases.
            self.clusters = clusters if any(clusters) else ()
        for metric, column, counts in zip(self.metrics, self._columns, self._reasons, strict=True):
            whole, problem = _figures_of_cases(metric, column, self.clusters)
            statuses: Counter[Status] = Counter()
            reasons: Counter[str] = Counter()
            for (status, reason), count in counts.items():
                statuses[status] += count
                reasons[reason] += count
            # A figure that could not be made is a reason as well: its cases were measured.
            if problem is not None:
                reasons[f"{NO_FIGURE}{problem}"] = whole.measured
            slices: list[Slice] = []
            for by, value in slice_keys:
                rows = self._members[by, value]
                values_of_slice = [column[row] for row in rows]
                clusters_of_slice: Sequence[str | None] = ()
                if self.clusters:
                    clusters_of_slice = [self.clusters[row] for row in rows]
                # The problem of a slice is that of the whole, which is reported once.
                part, _ = _figures_of_cases(metric, values_of_slice, clusters_of_slice)
                slices.append(
                    Slice(
                        by=by,
                        value=value,
                        total=part.total,
                        measured=part.measured,
                        score=part.score,
                        interval=part.interval,
                        clusters=part.clusters,
                    )
                )
            # One reason, as most metrics have, is in order already.
            if len(reasons) > 1:
                reason_counts = most_frequent(reasons)[:_MOST_REASONS]
            else:
                reason_counts = tuple(reasons.items())
            summary = Summary(
                metric=metric,
                total=whole.total,
                measured=whole.measured,
                score=whole.score,
                interval=whole.interval,
                clusters=whole.clusters,
                abstained=statuses[Status.ABSTAINED],
                skipped=statuses[Status.SKIPPED],
                failed=statuses[Status.FAILED],
                unproved=statuses[Status.UNPROVED],
                reasons=reason_counts,
                slices=tuple(slices),
            )
            summaries.append(summary)
        return tuple(summaries)


def _tags_first(slice_key: tuple[str, str]) -> tuple[bool, str]:
    """The sort key of a slice in a report: tags before languages, each by name.

    A slice is the cases of one tag or language.
    """
    by, name = slice_key
    return by != "tag", name


def most_frequent(counts: Mapping[KeyT, int]) -> tuple[tuple[KeyT, int], ...]:
    """Counted things with their numbers, the most frequent first; equal ones in their own order.

    The second order keeps reports the same in any order of the cases.
    """
    return tuple(sorted(counts.items(), key=_highest_count_first))


def _highest_count_first(item: tuple[KeyT, int]) -> tuple[int, KeyT]:
    """The sort key of a counted thing: the highest count first, then the things' own order.

    Things of equal counts have a fixed order by it, so that two reports of the same run are equal.

    Args:
        item: the thing and its count.
    """
    thing, count = item
    return -count, thing


class _Figures(NamedTuple):
    """What a summary and a slice say of their cases, under the names of their fields."""

    total: int
    measured: int
    score: float | None
    interval: Interval | None
    clusters: int


def _figures_of_cases(
    metric: Metric, column: Sequence[float], clusters: Sequence[str | None]
) -> tuple[_Figures, str | None]:
    """The figures of a metric over some cases, and why there is no score where one was due.

    The interval of a mean is None when there are fewer than two clusters, or when all of them agree
    on a scale without ends: from those no spread can be estimated.

    Args:
        clusters: what each case shares with others; empty where none does.
    """
    values = [value for value in column if not math.isnan(value)]
    definition = metric.definition
    score: float | None = None
    problem: str | None = None
    # The figure of an aggregate has no interval: its spread does not follow from the cases'.
    is_mean = definition.aggregate is None
    if values:
        try:
            score = fmean(values) if is_mean else _aggregate_score(metric, values)
        except Exception as error:  # noqa: BLE001 - a user's function must not end a run
            problem = f"{type(error).__name__}: {error}"
        # A user's function may return infinity: that is no figure.
        if score is not None and not math.isfinite(score):
            problem = f"it is {score}"
            score = None
    interval: Interval | None = None
    cluster_count = 0
    if is_mean and len(values) > 1:
        labels = clusters or None
        # The clusters of the values only, in their order, as the mean pairs them.
        if clusters and len(values) < len(column):
            pairs = zip(column, clusters, strict=True)
            labels = [label for value, label in pairs if not math.isnan(value)]
        mean = mean_interval(
            values,
            labels,
            bounds=(definition.low, definition.high),
            probability=definition.probability,
        )
        # A metric by words ranks answers, and misses the share of right ones: its interval would
        # claim to hold that share.
        if has_known_level(metric.name):
            interval = mean.reported
        if interval is not None:
            cluster_count = mean.clusters
    figures = _Figures(
        total=len(column),
        measured=len(values),
        score=score,
        interval=interval,
        clusters=cluster_count,
    )
    return figures, problem


def _aggregate_score(metric: Metric, values: Sequence[float]) -> float | None:
    """The figure of a metric that is no mean, by the metric's own function over all values.

    None where the function cannot be had: a run that is read again stores no functions. Those of
    ragbench's metrics are found by their names. A user's file is not executed for a report.
    """
    definition = metric.definition
    is_own_and_stored = definition.formula is None and not definition.digest
    if is_own_and_stored:
        from ragbench.metrics.registry import computable  # late: only stored metrics need it

        try:
            definition = computable(metric).definition
        except ConfigError:  # this version has no such metric
            return None
    if definition.formula is None or definition.formula.aggregate is None:
        return None
    aggregate = definition.formula.aggregate
    try:
        accepted_names = {*inspect.signature(aggregate).parameters}
    except ValueError:  # Python's own functions, as max(), may show no signature
        accepted_names = set[str]()
    # The function is given the parameters of the metric that it has a parameter for.
    arguments: dict[str, Any] = {}
    for parameter in definition.parameters:
        if parameter.name in accepted_names:
            arguments[parameter.name] = metric.parameter(parameter.name)
    return float(aggregate(values, **arguments))
