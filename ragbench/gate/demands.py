"""What a configuration demands of the metrics that a run has."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from ragbench.errors import ConfigError
from ragbench.gate.config import GateConfig, Limits, MetricGate
from ragbench.records.metrics import Direction
from ragbench.records.run_scores import MetricColumn, RunScores

__all__ = ["Demand", "demands_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """A metric of the run with what is demanded of it."""

    column: MetricColumn
    gate: MetricGate

    @property
    def higher_is_better(self) -> bool:
        """Which way a loss goes."""
        return self.column.direction is Direction.HIGHER

    @property
    def drops(self) -> bool:
        """Whether a drop is looked for, on all cases or on a slice."""
        slices = (piece.limits for piece in self.gate.slices)
        limits = [self.gate.limits, *(found for found in slices if found is not None)]
        return any(limit.max_drop is not None for limit in limits)


def demands_of(
    run: RunScores, baseline: RunScores | None, config: GateConfig
) -> tuple[Demand, ...]:
    """What is demanded, in the order of the configuration.

    Where it names no metric and a baseline is named or given, every metric that is a mean over
    cases and has a better side is held to the configuration's ``max_drop``. One that neither run
    measured on any case is left out.

    Args:
        run: the run that is judged.
        baseline: the run that it is held against.
        config: what is demanded.

    Raises:
        ConfigError: nothing is demanded, or something that cannot be judged; holds all of it.
    """
    if config.metrics:
        demands = _named(run, config)
    else:
        compared = baseline is not None or config.baseline is not None
        demands = tuple(_all(run, baseline, config)) if compared else ()
    wrong = [text for demand in demands for text in _impossible(demand)]
    stages = [stage.stage for stage in run.stages]
    wrong += [
        f"max_latency: the run has no stage '{budget.stage}'; it has {', '.join(stages)}"
        for budget in config.latency
        if budget.stage not in stages
    ]
    if wrong:
        raise ConfigError("\n".join(wrong))
    if not demands and not config.latency:
        raise ConfigError(
            "nothing is demanded of this run. Name a baseline (--baseline) to look for drops, or "
            "limits (--min 'recall@5=0.8'), or write them into ragbench.yaml"
        )
    return demands


def _named(run: RunScores, config: GateConfig) -> tuple[Demand, ...]:
    by_name = {column.name.casefold(): column for column in run.metrics}
    found: list[Demand] = []
    wrong: list[str] = []
    for name, gate in config.metrics.items():
        column = by_name.get(name.casefold())
        if column is None:
            near = difflib.get_close_matches(name.casefold(), by_name, n=1)
            meant = f" Did you mean {by_name[near[0]].name}?" if near else ""
            wrong.append(f"{run.source} does not measure '{name}'.{meant}")
        else:
            found.append(Demand(column=column, gate=gate))
    if wrong:
        known = ", ".join(column.name for column in run.metrics)
        raise ConfigError("\n".join([*wrong, f"It measures: {known}"]))
    return tuple(found)


def _all(run: RunScores, baseline: RunScores | None, config: GateConfig) -> Iterator[Demand]:
    for column in run.metrics:
        earlier = None if baseline is None else baseline.column(column.name)
        is_measured = column.score is not None or (
            earlier is not None and earlier.score is not None
        )
        if is_measured and not _why_no_drop(column):
            drop = config.max_drop * (column.scale or 0.0)
            yield Demand(column=column, gate=MetricGate(limits=Limits(max_drop=drop)))


def _impossible(demand: Demand) -> Iterator[str]:
    """What can never be judged, or would never fail, or always."""
    column, name = demand.column, demand.column.name
    if demand.drops and (why := _why_no_drop(column)):
        yield f"{name}: a max_drop cannot be judged, since {why}"
    if demand.gate.slices and not column.has_cells:
        yield f"{name}: slices cannot be judged, since a report holds no value of it a case"
    for piece in (demand.gate.limits, *(piece.limits for piece in demand.gate.slices)):
        if piece is not None:
            yield from _out_of_range(piece, column)


def _why_no_drop(column: MetricColumn) -> str:
    if not column.has_cells:
        return "a report holds no value of it a case"
    if column.aggregate is not None:
        return "its figure is no mean over cases; give min or max"
    if column.direction is Direction.NEITHER:
        return "neither of its sides is better; give min or max"
    return ""


def _out_of_range(limits: Limits, column: MetricColumn) -> Iterator[str]:
    low, high, scale = column.low, column.high, column.scale
    if limits.minimum is not None and high is not None and limits.minimum > high:
        yield f"{column.name}: min is {limits.minimum:g}, and its largest value is {high:g}"
    if limits.maximum is not None and limits.maximum < low:
        yield f"{column.name}: max is {limits.maximum:g}, and its smallest value is {low:g}"
    if limits.max_drop is not None and scale is not None and limits.max_drop >= scale:
        yield (
            f"{column.name}: max_drop is {limits.max_drop:g}, and it cannot fall by more than "
            f"{scale:g}: nothing would ever fail"
        )
