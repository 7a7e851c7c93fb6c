"""What a configuration demands of each metric of a run, and on which of its cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ragbench.core.metric import Direction
from ragbench.core.run_scores import MetricColumn, RunScores, labels_of
from ragbench.errors import ConfigError
from ragbench.gate.cases import named_columns
from ragbench.gate.config import FigureLimits, GateConfig, SliceGate
from ragbench.gate.figures import figures_of, is_measured
from ragbench.plugins import Integers, np


class Demand(NamedTuple):
    """Limits of a metric of the run, on all cases, one slice, or each slice of a kind."""

    column: MetricColumn
    limits: FigureLimits
    slice: SliceGate | None = None
    """None: on all cases."""

    @property
    def drops(self) -> bool:
        """Whether the demand limits the metric's loss against the baseline.

        Such a demand needs a baseline; one of ``min`` or ``max`` does not.
        """
        return self.limits.max_drop is not None


def demands_of(
    run: RunScores, baseline: RunScores | None, config: GateConfig
) -> tuple[Demand, ...]:
    """The demands on a run's metrics, in the order of the configuration.

    With a baseline, the figures of `ragbench.gate.figures` are held to the configuration's
    ``max_drop``, where no metric that says the same has a ``max_drop`` of its own. A run that has
    none of these figures is held by all of its metrics that can be compared.

    Raises:
        ConfigError: a demand can never be judged, a budget is of a stage that the run lacks, or
            nothing is demanded: such a gate would pass every run.
    """
    demands = list(_configured_demands(run, config))
    # A baseline that is named and not there: the gate then says which drops it cannot judge.
    lacks_baseline = baseline is None and config.baseline is not None
    # Without metrics named, or with a baseline: else limits alone are demanded.
    if baseline is not None or (lacks_baseline and not config.metrics):
        demands += _default_demands(run, baseline, config, demands)
    problems: list[str] = []
    for demand in demands:
        problems += _impossible_limits(demand)
    stages = [stage.stage for stage in run.stages]
    for budget in config.latency:
        if budget.stage not in stages:
            problems.append(
                f"max_latency: the run has no stage '{budget.stage}'; it has {', '.join(stages)}"
            )
    if problems:
        # The same problem may come of several slices: each is given once.
        raise ConfigError("\n".join(dict.fromkeys(problems)))
    # Budgets and cases that must pass count as demands, too: a gate of a budget alone checks
    # something.
    budgets = config.latency or config.max_cost or config.max_tokens or config.must_pass
    if not demands and not budgets:
        raise ConfigError(
            "no checks are configured. Name a baseline (--baseline RUN) to check for drops, set "
            "limits (--min 'recall@5=0.8'), or write either into ragbench.yaml"
        )
    return tuple(demands)


def _configured_demands(run: RunScores, config: GateConfig) -> Iterator[Demand]:
    """The demands on the metrics that the configuration names, on all cases and on slices.

    A name that the run does not measure is refused: its demand would never be checked.

    A demand is a limit on a metric: on all cases, or on a slice, the cases of a tag or language.
    """
    if not config.metrics:
        return
    lacks = f"{run.source} does not measure"
    columns = named_columns(run.metrics, tuple(config.metrics), lacks, "It measures")
    # The order is that of the configuration: columns pair with their demands.
    for column, gate in zip(columns, config.metrics.values(), strict=True):
        yield Demand(column, gate.limits)
        # A slice without limits of its own is held to the metric's max_drop, not to its min.
        default_limits = FigureLimits(max_drop=gate.limits.max_drop)
        for slice_gate in gate.slices:
            yield Demand(column, slice_gate.limits or default_limits, slice_gate)


def _default_demands(
    run: RunScores, baseline: RunScores | None, config: GateConfig, demands: Sequence[Demand]
) -> Iterator[Demand]:
    """The demands that a gate makes by itself, so that losses are found without a configuration.

    Each is a ``max_drop`` on a metric of retrieval or answers, as a share of the metric's scale.

    Args:
        demands: those of the configuration; a metric with a ``max_drop`` of its own needs no other.
    """
    # Metrics with a `max_drop` of their own are held already.
    columns_held = [demand.column for demand in demands if demand.drops]
    columns = list(figures_of(run, baseline, columns_held))
    if not columns and not columns_held:  # a run that measures none of these figures
        columns = list(comparable_columns(run, baseline))
    # A metric without two ends has no share that could be tolerated.
    for column in columns:
        if column.scale:
            yield Demand(column, FigureLimits(max_drop=config.max_drop * column.scale))


def comparable_columns(run: RunScores, baseline: RunScores | None) -> Iterator[MetricColumn]:
    """The metrics of a run of which a drop can be judged.

    These are means over cases, with a better side and a bounded scale, that were measured.

    Other metrics have no loss that could be tested.
    """
    for column in run.metrics:
        can_drop = bool(column.scale) and not _why_no_drop(column)
        if can_drop and is_measured(column, baseline):
            yield column


def on_cases(
    demands: Sequence[Demand], run: RunScores
) -> Iterator[tuple[Demand, str | None, Integers | None]]:
    """The demands, each with the name of its slice and the positions of the slice's cases.

    A slice is the cases of one tag or language. A demand on all cases comes with None for both; a
    demand on each slice of a kind comes once for each slice.

    A demand is a limit on a metric.

    Checks are made of these pairs, so that every slice is judged like the whole.
    """
    # Only filled where some demand is on a slice: labels of all cases take time.
    slices: dict[str, list[int]] = defaultdict(list)
    if any(demand.slice for demand in demands):
        for place, labels in enumerate(labels_of(run)):
            for label in labels:
                slices[label].append(place)
    for demand in demands:
        if demand.slice is None:
            yield demand, None, None
            continue
        prefix = f"{demand.slice.by}:"
        if demand.slice.value:
            names = [f"{prefix}{demand.slice.value}"]
        else:
            # Sorted, so that the checks are in the same order in every run.
            names = sorted(name for name in slices if name.startswith(prefix))
        for name in names:
            places = slices.get(name, [])  # a slice that is named may have no case
            yield demand, name, np.array(places, np.int64)


def _impossible_limits(demand: Demand) -> Iterator[str]:
    """The problems of a demand that can never be judged, would never fail, or would always fail.

    A typing error in a limit would pass, or fail, every run unseen.
    """
    column = demand.column
    limits = demand.limits
    name = column.name
    low = column.low
    high = column.high
    scale = column.scale
    reason = _why_no_drop(column)
    if demand.drops and reason:
        yield f"{name}: a max_drop cannot be judged, since {reason}"
    # A metric over the whole run has no values of single cases.
    if demand.slice is not None and not column.has_cells:
        yield f"{name}: slices cannot be judged, since a report holds no per-case values of it"
    if limits.minimum is not None and high is not None and limits.minimum > high:
        yield f"{name}: min is {limits.minimum:g}, and its largest value is {high:g}"
    if limits.maximum is not None and low is not None and limits.maximum < low:
        yield f"{name}: max is {limits.maximum:g}, and its smallest value is {low:g}"
    # The whole scale: no case can lose more.
    if limits.max_drop is not None and scale is not None and limits.max_drop >= scale:
        yield (
            f"{name}: max_drop is {limits.max_drop:g}, and it cannot fall by more than "
            f"{scale:g}: nothing would ever fail"
        )


def _why_no_drop(column: MetricColumn) -> str:
    """The reason why no drop of a metric can be judged; empty where it can be.

    A test of drops needs a mean over cases, with a better side.
    """
    # With values of each case, the figure itself can still be held to a limit.
    if column.no_mean and column.has_cells:
        return f"{column.no_mean}; give min or max"
    if column.no_mean:
        return column.no_mean
    if column.direction is Direction.NEITHER:
        return "neither of its sides is better; give min or max"
    return ""
