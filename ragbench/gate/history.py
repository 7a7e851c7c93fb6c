"""The runs of main that a baseline remembers: what became of each metric?"""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.core.history import Break, Change, History, MainRun, MetricHistory
from ragbench.gate.baseline_file import Baseline
from ragbench.stats.trend import LEAST, Trend, trends


def history_of(
    baseline: Baseline, *, alpha: float = 0.05, resamples: int = 10_000, seed: int = 0
) -> History:
    """What became of each metric over the runs of main.

    Only runs on the same cases, with the same judge and matching, are compared: since the last of
    them that differs. A change is shown where `ragbench.stats.trend.trends` says so, over all
    metrics together.
    """
    runs = baseline.runs
    breaks = tuple(_breaks(runs))
    start = breaks[-1].at if breaks else 0
    columns = sorted(baseline.metrics, key=lambda column: column.name)
    series = [[run.scores.get(column.name) for run in runs] for column in columns]
    found = trends([figures[start:] for figures in series], resamples=resamples, seed=seed)
    return History(
        dataset=baseline.dataset,
        rag=baseline.rag,
        runs=runs,
        breaks=breaks,
        metrics=tuple(
            MetricHistory(
                metric=column.name,
                direction=column.direction,
                scale=column.scale,
                figures=tuple(figures),
                change=None if trend is None else _change(trend, start, alpha),
            )
            for column, figures, trend in zip(columns, series, found, strict=True)
        ),
        alpha=alpha,
        least=LEAST,
    )


def _change(trend: Trend, start: int, alpha: float) -> Change:
    return Change(
        is_shown=trend.p_value <= alpha,
        at=None if trend.step is None else start + trend.step,
        before=trend.before,
        after=trend.after,
        p_value=trend.p_value,
    )


def _breaks(runs: Sequence[MainRun]) -> list[Break]:
    found: list[Break] = []
    for at in range(1, len(runs)):
        before, run = runs[at - 1], runs[at]
        reasons = [
            reason
            for reason, differs in (
                ("other cases", before.cases != run.cases),
                ("another judge", before.judge != run.judge),
                (
                    "chunks matched another way",
                    None not in (before.matching, run.matching) and before.matching != run.matching,
                ),
            )
            if differs
        ]
        if reasons:
            found.append(Break(at=at, reason=", ".join(reasons)))
    return found
