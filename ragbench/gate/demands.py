"""What a configuration demands of each metric of a run, and on which of its cases."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ragbench.core.metric import Direction
from ragbench.core.run_scores import MetricColumn, RunScores, labels_of
from ragbench.errors import ConfigError
from ragbench.gate.config import FigureLimits, GateConfig, SliceGate
from ragbench.plugins import Integers, np


class Demand(NamedTuple):
    """Limits of a metric of the run, on all cases, one slice, or each slice of a kind."""

    column: MetricColumn
    limits: FigureLimits
    slice: SliceGate | None = None

    @property
    def drops(self) -> bool:
        return self.limits.max_drop is not None


def named_columns(
    columns: Sequence[MetricColumn], names: Sequence[str], lacks: str, measured: str
) -> tuple[MetricColumn, ...]:
    """The metrics of these names, in their order; names are matched without regard to case."""
    known = {column.name.casefold(): column for column in columns}
    wrong: list[str] = []
    for name in names:
        if name.casefold() not in known:
            near = difflib.get_close_matches(name.casefold(), known, n=1)
            meant = f" Did you mean {known[near[0]].name}?" if near else ""
            wrong.append(f"{lacks} '{name}'.{meant}")
    if wrong:
        listed = ", ".join(column.name for column in columns) or "nothing"
        raise ConfigError("\n".join([*wrong, f"{measured}: {listed}"]))
    return tuple(known[name.casefold()] for name in names)


def demands_of(
    run: RunScores, baseline: RunScores | None, config: GateConfig
) -> tuple[Demand, ...]:
    """What is demanded, in the order of the configuration.

    Where it names no metric and a baseline is named or given, every metric that is a mean over
    cases and has a better side and a scale is held to the configuration's ``max_drop``: of times
    there is no share, and another machine is no loss. One that neither run measured on any case is
    left out.
    """
    demands: list[Demand] = []
    if config.metrics:
        lacks, all_ = f"{run.source} does not measure", "It measures"
        columns = named_columns(run.metrics, tuple(config.metrics), lacks, all_)
        for column, gate in zip(columns, config.metrics.values(), strict=True):
            demands.append(Demand(column, gate.limits))
            own = FigureLimits(max_drop=gate.limits.max_drop)
            demands += [Demand(column, piece.limits or own, piece) for piece in gate.slices]
    elif baseline is not None or config.baseline is not None:
        demands = [
            Demand(column, FigureLimits(max_drop=config.max_drop * column.scale))
            for column in run.metrics
            if column.scale and not _why_no_drop(column) and _is_measured(column, baseline)
        ]
    wrong = [text for demand in demands for text in _impossible(demand)]
    stages = [stage.stage for stage in run.stages]
    wrong += [
        f"max_latency: the run has no stage '{budget.stage}'; it has {', '.join(stages)}"
        for budget in config.latency
        if budget.stage not in stages
    ]
    if wrong:
        raise ConfigError("\n".join(dict.fromkeys(wrong)))
    others = config.latency or config.max_cost or config.max_tokens or config.must_pass
    if not demands and not others:
        raise ConfigError(
            "no checks are configured. Name a baseline (--baseline RUN) to check for drops, set "
            "limits (--min 'recall@5=0.8'), or write either into ragbench.yaml"
        )
    return tuple(demands)


def on_cases(
    demands: Sequence[Demand], run: RunScores
) -> Iterator[tuple[Demand, str | None, Integers | None]]:
    """The demands by the slices that they mean, with the places of their cases, if any."""
    slices: dict[str, list[int]] = defaultdict(list)
    if any(demand.slice for demand in demands):
        for place, labels in enumerate(labels_of(run)):
            for label in labels:
                slices[label].append(place)
    for demand in demands:
        if demand.slice is None:
            yield demand, None, None
            continue
        kind = f"{demand.slice.by}:"
        occurring = sorted(name for name in slices if name.startswith(kind))
        for name in [f"{kind}{demand.slice.value}"] if demand.slice.value else occurring:
            yield demand, name, np.array(slices.get(name, ()), np.int64)


def _is_measured(column: MetricColumn, baseline: RunScores | None) -> bool:
    earlier = None if baseline is None else baseline.column(column.name)
    return column.score is not None or (earlier is not None and earlier.score is not None)


def _impossible(demand: Demand) -> Iterator[str]:
    """What can never be judged, or would never fail, or always."""
    column, limits, name = demand.column, demand.limits, demand.column.name
    low, high, scale = column.low, column.high, column.scale
    if demand.drops and (why := _why_no_drop(column)):
        yield f"{name}: a max_drop cannot be judged, since {why}"
    if demand.slice is not None and not column.has_cells:
        yield f"{name}: slices cannot be judged, since a report holds no per-case values of it"
    if limits.minimum is not None and high is not None and limits.minimum > high:
        yield f"{name}: min is {limits.minimum:g}, and its largest value is {high:g}"
    if limits.maximum is not None and low is not None and limits.maximum < low:
        yield f"{name}: max is {limits.maximum:g}, and its smallest value is {low:g}"
    if limits.max_drop is not None and scale is not None and limits.max_drop >= scale:
        yield (
            f"{name}: max_drop is {limits.max_drop:g}, and it cannot fall by more than "
            f"{scale:g}: nothing would ever fail"
        )


def _why_no_drop(column: MetricColumn) -> str:
    if column.no_mean:
        return f"{column.no_mean}; give min or max" if column.has_cells else column.no_mean
    if column.direction is Direction.NEITHER:
        return "neither of its sides is better; give min or max"
    return ""
