"""Limits given on the command line."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from ragbench.errors import DataError, Problem
from ragbench.gate.config import FIGURES, GateConfig, LatencyBudget, MetricGate

__all__ = ["with_options"]


def with_options(
    config: GateConfig,
    *,
    minimum: Iterable[str] = (),
    maximum: Iterable[str] = (),
    max_drop: Iterable[str] = (),
    max_latency: Iterable[str] = (),
) -> GateConfig:
    """The configuration with limits from the command line, which go before those of the file.

    Args:
        config: what the file says, or the defaults.
        minimum: ``METRIC=NUMBER`` each; likewise ``maximum`` and ``max_drop``.
        maximum: see above.
        max_drop: see above.
        max_latency: ``STAGE:FIGURE=SECONDS`` each.

    Raises:
        DataError: an entry cannot be understood; holds all of them.
    """
    problems: list[Problem] = []
    metrics = dict(config.metrics)
    for option, field_name, entries in (
        ("--min", "minimum", minimum),
        ("--max", "maximum", maximum),
        ("--max-drop", "max_drop", max_drop),
    ):
        for entry in entries:
            found = _assignment(entry, option, "recall@5=0.8", problems)
            if found is not None:
                name, number = found
                if option == "--max-drop" and number < 0:
                    problems.append(Problem(path=option, message=f"{entry}: give 0 or more"))
                known = metrics.get(name, MetricGate())
                metrics[name] = replace(known, limits=replace(known.limits, **{field_name: number}))
    budgets = {(budget.stage, budget.figure): budget for budget in config.latency}
    for entry in max_latency:
        budget = _budget(entry, problems)
        if budget is not None:
            budgets[budget.stage, budget.figure] = budget
    if problems:
        raise DataError(problems)
    return replace(config, metrics=metrics, latency=tuple(budgets.values()))


def _assignment(
    entry: str, option: str, example: str, problems: list[Problem]
) -> tuple[str, float] | None:
    """The name and the number; the last equals sign parts them, since a name may hold one."""
    name, equals, text = entry.rpartition("=")
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not equals or not name.strip() or not math.isfinite(number):
        message = f"'{entry}' is not understood: expected NAME=NUMBER, such as '{example}'"
        problems.append(Problem(path=option, message=message))
        return None
    return name.strip(), number


def _budget(entry: str, problems: list[Problem]) -> LatencyBudget | None:
    option, example = "--max-latency", "generate:p95=2.5"
    found = _assignment(entry, option, example, problems)
    if found is None:
        return None
    name, seconds = found
    stage, colon, figure = name.partition(":")
    if not colon or not stage or figure not in FIGURES or seconds <= 0:
        message = (
            f"'{entry}' is not understood: expected STAGE:FIGURE=SECONDS, such as '{example}'; "
            f"figures are {', '.join(FIGURES)}"
        )
        problems.append(Problem(path=option, message=message))
        return None
    return LatencyBudget(stage=stage, figure=figure, seconds=seconds)
