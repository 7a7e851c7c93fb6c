"""Checks of one run: limits, failed cases, budgets, cases that must pass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import NormalDist
from typing import Any

from ragbench.core.gate_result import CaseChange, CheckKind, GateCheck, GateOutcome, Ground
from ragbench.core.outcome import Status
from ragbench.core.record import replace
from ragbench.core.report import Interval, Latency
from ragbench.core.run_scores import MetricColumn, RunScores, labels_of, unchanged
from ragbench.errors import ConfigError
from ragbench.gate.cases import interval_of, main_metrics, passes
from ragbench.gate.config import RISE, GateConfig
from ragbench.gate.demands import Demand, on_cases
from ragbench.gate.drops import has_lost, is_lower
from ragbench.gate.labels import corrected, points_of
from ragbench.gate.words import figure, worded
from ragbench.plugins import Floats, np
from ragbench.safe_text import did_you_mean
from ragbench.stats.mean import mean_interval
from ragbench.stats.paired import paired_columns

_TOKENS = "total_tokens"
_TAKEN = {"tokens": _TOKENS, "cost": "generation_cost"}
"""Metrics of what the RAG says that it took."""
_SLOWER, _DEARER, _NOTICED = 1.5, 1.2, 0.01
"""From how many times as much a note says so; and seconds that somebody notices."""
_HALF = 0.5
"""With less of the cases that a metric applies to, a figure that holds says nothing."""


Both = tuple[RunScores, RunScores] | None
"""A run and its baseline with the same cases in the same order; None where they do not compare."""


def coverage_check(
    run: RunScores, both: Both, demands: Sequence[Demand], config: GateConfig
) -> GateCheck:
    """Whether too many cases failed for the scores of the others to speak for all."""
    broken = _broken(run, demands)
    count = len(broken)
    share = float(broken.sum()) / count if count else 0.0
    interval = mean_interval(broken.tolist(), [*run.clusters], bounds=(0.0, 1.0)).reported
    is_worse = False
    if share > config.max_error_rate and both is not None:
        now, before = (_broken(each, demands) for each in both)
        sample = paired_columns(
            before, now, ids=both[0].table.ids, labels=both[0].clusters, higher_is_better=False
        )
        is_worse = has_lost(sample, 1.0, config.alpha)
    return _limit_check(
        CheckKind.COVERAGE, "error rate", share, config.max_error_rate, count,
        counted="cases failed", unit="share", interval=interval, is_worse=is_worse,
    )  # fmt: skip


def _broken(run: RunScores, demands: Sequence[Demand]) -> Floats:
    """1 for each case of which a stage failed, or one of the demanded metrics; else 0."""
    broken = np.zeros(len(run.cases), bool)
    for place, stages in enumerate(run.table.fact("stages")):
        broken[place] = Status.FAILED in stages.values()
    for demand in demands:
        broken |= run.cells(demand.column.name).has(Status.FAILED)
    return broken.astype(float)


def common_check(common: int, baseline: RunScores, config: GateConfig) -> GateCheck:
    """Whether enough of the baseline's cases are in the run, unchanged, to speak for it."""
    count = len(baseline.cases)
    share = common / count if count else 0.0
    return _limit_check(
        CheckKind.COVERAGE, "cases in common", share, config.min_common, count, bound="min",
        counted="cases of the baseline are in this run, unchanged", unit="share",
    )  # fmt: skip


def _limit_check(
    kind: CheckKind,
    subject: str,
    observed: float | None,
    limit: float,
    count: int,
    *,
    bound: str = "max",
    lacking: Ground = Ground.NOTHING_MEASURED,
    least: int = 0,
    interval: Interval | None = None,
    is_worse: bool = False,
    **facts: Any,
) -> GateCheck:
    """A figure against an absolute limit.

    Beyond the limit it fails where its interval lies beyond, too, or the baseline was better. A
    system that lies at its limit would else fail every other time.

    Args:
        lacking: why there may be no figure.
        interval: None where nothing is known of its noise: then the figure decides.
        is_worse: whether nothing is left, or the baseline is shown to be better.
    """
    check = GateCheck(
        kind=kind, subject=subject, outcome=GateOutcome.INCONCLUSIVE, ground=lacking,
        observed=observed, limit=limit, bound=bound, cases=count, interval=interval, **facts,
    )  # fmt: skip
    if observed is not None and count < least:
        check = replace(check, ground=Ground.TOO_FEW_CASES)
    elif check.holds and count < _HALF * check.applies:
        check = replace(check, ground=Ground.HARDLY_MEASURED)
    elif check.holds:
        check = replace(check, ground=Ground.HOLDS, outcome=GateOutcome.PASSED)
    elif observed is not None and not is_worse and _reaches(interval, limit, bound):
        check = replace(check, ground=Ground.MAY_HOLD)
    elif observed is not None:
        check = replace(check, ground=Ground.BROKEN, outcome=GateOutcome.FAILED)
    return worded(check, least=least)


def _reaches(interval: Interval | None, limit: float, bound: str) -> bool:
    """Whether an interval reaches to the right side of a limit."""
    if interval is None:
        return False
    return interval.high >= limit if bound == "min" else interval.low <= limit


_TAIL = NormalDist().inv_cdf(0.95)
_TWO_SIDED = NormalDist().inv_cdf(0.975)


def _time_interval(latency: Latency, figure_: str) -> Interval | None:
    """Of a stage's mean, median or 95th percentile, as times spread whose logarithms are normal.

    The median and the 95th percentile say how much they spread. None where they are not known, and
    of figures that are no estimates: the longest time and the sum are what they are.
    """
    deviation = _log_deviation(latency)
    factor = {
        "mean": 0.0 if deviation is None else math.sqrt(math.expm1(min(deviation, 5.0) ** 2)),
        "p50": (deviation or 0.0) * math.sqrt(math.pi / 2.0),
        "p95": (deviation or 0.0) * math.sqrt(1.0 + _TAIL**2 / 2.0),
    }.get(figure_)
    observed = getattr(latency, figure_, None)
    if deviation is None or not factor or observed is None:
        return None
    width = math.exp(_TWO_SIDED * factor / math.sqrt(latency.count))
    return Interval(low=observed / width, high=observed * width, level=0.95)


def _log_deviation(latency: Latency) -> float | None:
    if not latency.p50 or not latency.p95 or latency.count < 2:
        return None
    return math.log(latency.p95 / latency.p50) / _TAIL if latency.p95 > latency.p50 else None


def _rise_interval(run: RunScores, baseline: RunScores | None, stage: str) -> Interval | None:
    """Of the share by which a stage's mean lies above the baseline's."""
    pairs = [
        (latency, _time_interval(latency, "mean"))
        for one in (run, baseline)
        if one is not None
        for latency in one.latencies
        if latency.stage == stage
    ]
    if len(pairs) != 2 or pairs[0][1] is None or pairs[1][1] is None or not pairs[1][0].mean:
        return None
    ratio = pairs[0][0].mean / pairs[1][0].mean
    widths = [math.log(ends.high / time.mean) for time, ends in pairs if ends is not None]
    width = math.exp(math.hypot(*widths))
    return Interval(low=ratio / width - 1.0, high=ratio * width - 1.0, level=0.95)


def budget_checks(
    run: RunScores, baseline: RunScores | None, config: GateConfig
) -> Iterator[GateCheck]:
    check = partial(_limit_check, CheckKind.BUDGET, lacking=Ground.NOT_STORED)
    by_stage = {latency.stage: latency for latency in run.latencies}
    rises = {what: now / before - 1.0 for what, now, before, _ in _spent(run, baseline)}
    rise = partial(check, unit="share", missing="figure of it that the baseline holds, too")
    for budget in config.latency:
        subject, observed, count, missing = f"{budget.stage} {budget.figure}", None, 0, "times"
        if (latency := by_stage.get(budget.stage)) is not None:
            total = latency.mean * latency.count
            observed = total if budget.figure == "total" else getattr(latency, budget.figure, None)
            count = latency.count
            if latency.sharing > 1:
                missing = f"times of single cases (up to {latency.sharing} shared a call)"
        if budget.figure == RISE:
            ends = _rise_interval(run, baseline, budget.stage)
            yield rise(subject, rises.get(budget.stage), budget.seconds, count, interval=ends)
        else:
            ends = None if latency is None else _time_interval(latency, budget.figure)
            yield check(
                subject, observed, budget.seconds, count, unit="s", missing=missing, interval=ends
            )
    cost, cases = run.judge_cost, len(run.cases)
    tokens = [value for value in run.cells(_TOKENS).values.tolist() if value == value]
    used = math.fsum(tokens) if tokens else None
    for what, missing, limits, spent, count, unit in (
        ("cost of judging", "cost of judging", config.max_cost, cost, cases, run.currency or ""),
        ("tokens", f"tokens (metric {_TOKENS})", config.max_tokens, used, len(tokens), "tokens"),
    ):
        for extent, limit in limits.items():
            subject = f"{what} ({'in all' if extent == 'all' else 'per case'})"
            share = spent if spent is None or extent == "all" else spent / max(count, 1)
            if extent == RISE:
                yield rise("tokens rise", rises.get("tokens"), limit, count)
            else:
                yield check(subject, share, limit, count, unit=unit, missing=missing)


def _spent(run: RunScores, baseline: RunScores | None) -> Iterator[tuple[str, float, float, float]]:
    """By stage, of tokens and cost: what a case took now and before; from which rise on it shows.

    Times are those of any machine that ran them; the others are of the cases that both runs have.
    """
    if baseline is None:
        return
    earlier = {one.stage: one.mean for one in baseline.latencies if one.sharing == 1}
    for one in run.latencies:
        if one.sharing == 1 and earlier.get(one.stage):
            yield one.stage, one.mean, earlier[one.stage], _SLOWER
    for what, metric in _TAKEN.items():
        if metric not in run.table.cells or metric not in baseline.table.cells:
            continue
        before = baseline.values(metric)
        both = [
            (now, old)
            for id_, now in run.values(metric).items()
            if now is not None and (old := before.get(id_)) is not None
        ]
        if both and (total := math.fsum(old for _, old in both)):
            yield what, math.fsum(now for now, _ in both) / len(both), total / len(both), _DEARER


def dearer_notes(run: RunScores, baseline: RunScores | None) -> Iterator[str]:
    """What a case takes more than in the baseline, whether or not there is a budget for it."""
    for what, now, before, least in _spent(run, baseline):
        name, unit, times = {
            "tokens": ("Tokens per case", "tokens", 1),
            "cost": ("Cost of the RAG per 1,000 cases", "", 1000),
        }.get(what, (f"Time of {what} per case", "s", 1))
        if now > before * least and (unit != "s" or now - before > _NOTICED):
            ends = f"{figure(now * times, unit)}, before {figure(before * times, unit)}"
            yield f"{name}: {ends} (+{now / before - 1.0:.0%})."


def floor_checks(
    run: RunScores, both: Both, demands: Sequence[Demand], config: GateConfig
) -> Iterator[GateCheck]:
    """A check for each of ``min`` and ``max`` that is given, on all cases and on slices."""
    for demand, slice_, places in on_cases(demands, run):
        column, limits = demand.column, demand.limits
        for bound, limit in (("min", limits.minimum), ("max", limits.maximum)):
            if limit is None:
                continue
            own = run if places is None else run.at(places)
            observed, interval, count = _figure(column, own, whole=slice_ is None)
            people = corrected(column, points_of(column, own)) if own.has_labels else None
            told = None if people is None or people[1].interval is None else people[1]
            if told is not None:
                interval, observed = told.interval, told.corrected
            is_beyond = observed is not None and _is_beyond(observed, limit, bound)
            # A mean of the best value means that every case has it: one that has not disproves it.
            is_best = limit == (column.high if bound == "min" else column.low)
            is_worse = is_beyond and (is_best or _has_nothing(column, observed))
            if is_beyond and not is_worse and slice_ is None and told is None:
                is_worse = _was_better(column, both, config)
            yield _limit_check(
                CheckKind.FLOOR if slice_ is None else CheckKind.SLICE,
                column.name, observed, limit, count, bound=bound,
                applies=int((~np.isnan(own.cells(column.name).coverage)).sum()),
                least=config.min_cases, slice=slice_, unit=column.unit, interval=interval,
                corrected=told, is_opinion=told is None and column.is_judged,
                is_worse=is_worse,
            )  # fmt: skip


def _is_beyond(observed: float, limit: float, bound: str) -> bool:
    return observed < limit if bound == "min" else observed > limit


def _has_nothing(column: MetricColumn, observed: float | None) -> bool:
    """Whether every case has the worst value: no test is needed."""
    return observed is not None and observed == (column.low if column.sign > 0.0 else column.high)


def _was_better(column: MetricColumn, both: Both, config: GateConfig) -> bool:
    """Whether the baseline is shown to be better in a metric."""
    if both is None or column.no_mean or not both[1].measures(column):
        return False
    return is_lower(column, *both, config.alpha)


def _figure(
    column: MetricColumn, run: RunScores, *, whole: bool
) -> tuple[float | None, Interval | None, int]:
    """The figure, its interval, and the number of cases that it rests on."""
    if not column.has_cells:
        return column.score, None, len(run.cases)
    if column.aggregate is not None:
        measured = int((~np.isnan(run.cells(column.name).values)).sum())
        return (column.score if whole else None), None, measured
    found = interval_of(run, column)
    return found.mean, found.reported, found.cases


def must_pass_check(
    run: RunScores, baseline: RunScores | None, selectors: Sequence[str]
) -> Iterator[GateCheck]:
    """Whether a case fails that passed in the baseline, or that is new and must pass.

    A case passes where each of the run's main metrics does, as in `ragbench.gate.cases`; one that
    was asked repeatedly, where it passes at least half of the time.
    """
    if not selectors:
        return
    main, ids = main_metrics(run.metrics), _meant(selectors, run, baseline)
    places = run.table.places(ids).tolist()
    silent = [
        id_
        for id_, at in zip(ids, places, strict=True)
        if at >= 0 and all(passes(run, at, each) is None for each in main)
    ]
    if silent:
        raise ConfigError(
            f"must_pass: {', '.join(silent[:3])}: none of {', '.join(c.name for c in main)} "
            "decides whether it passes. Give it a reference answer, or relevant ids"
        )
    failing = [*_failing(run, baseline, ids, main)]
    lost = [change for change in failing if change.loss]
    is_sure = any(change.is_sure for change in lost)
    outcome, ground = GateOutcome.PASSED, Ground.HOLDS
    if lost and is_sure:
        outcome, ground = GateOutcome.FAILED, Ground.BROKEN
    elif lost:
        outcome, ground = GateOutcome.INCONCLUSIVE, Ground.LOST_ONCE
    share = 1.0 - len(lost) / len(ids)
    yield worded(
        GateCheck(
            kind=CheckKind.MUST_PASS,
            subject="must pass",
            outcome=outcome,
            ground=ground,
            observed=share,
            limit=1.0,
            bound="min",
            cases=len(ids),
            unit="share",
            lost=tuple(lost),
            failed_before=len(failing) - len(lost),
        )
    )


ASKS = 3
"""From so many times on that a case was asked, most of them say that it is lost."""


def _times(run: RunScores, place: int, column: MetricColumn) -> int:
    """How often a metric said something of a case."""
    cells = run.cells(column.name).asked(place).cells
    return sum(cell is not None and cell.status is not Status.SKIPPED for cell in cells)


def asked_again(check: GateCheck, asked: RunScores) -> GateCheck:
    """Cases that must pass and were lost once, with what further asks gave.

    Args:
        asked: the cases of the check that were lost once, each of them as often as `ASKS` lacks.
    """
    main = main_metrics(asked.metrics)
    marks = [
        all(passes(asked, place, column) is not False for column in main)
        for place in asked.table.places([str(at) for at in range(len(asked.cases))]).tolist()
    ]
    again = iter(marks)
    lost: list[CaseChange] = []
    for change in check.lost:
        if change.is_sure:
            lost.append(change)
            continue
        passed = sum(next(again) for _ in range(ASKS - 1))
        if 2 * passed < ASKS:
            lost.append(replace(change, is_sure=True))
    return worded(
        replace(
            check,
            outcome=GateOutcome.FAILED if lost else GateOutcome.PASSED,
            ground=Ground.BROKEN if lost else Ground.HOLDS,
            observed=1.0 - len(lost) / check.cases,
            lost=tuple(lost),
        )
    )


def _meant(selectors: Sequence[str], run: RunScores, baseline: RunScores | None) -> list[str]:
    """The ids of the cases that are named, or have the tag or language, in either run."""
    found: dict[str, None] = {}
    both = [run] if baseline is None else [run, baseline]
    known = [{*one.table.ids} for one in both]
    for selector in selectors:
        if selector.startswith(("tag:", "language:")) and selector not in known[0]:
            ids = [
                id_
                for one in both
                for id_, labels in zip(one.table.ids, labels_of(one), strict=True)
                if selector in labels
            ]
        else:
            ids = [selector] if any(selector in there for there in known) else []
        if not ids:
            meant = did_you_mean(selector, run.table.ids)
            raise ConfigError(f"must_pass: '{selector}' names no case of this run.{meant}")
        found |= dict.fromkeys(ids)
    return list(found)


def _failing(
    run: RunScores, baseline: RunScores | None, ids: Sequence[str], main: Sequence[MetricColumn]
) -> Iterator[CaseChange]:
    """How each case that fails does so: with a loss of 1 where that is new, of 0 where it is not.

    A question that was edited is a new one.
    """
    same = {*()} if baseline is None else unchanged(run, baseline)
    places = run.table.places(ids).tolist()
    before = places if baseline is None else baseline.table.places(ids).tolist()
    for id_, at, then in zip(ids, places, before, strict=True):
        if at < 0:
            yield CaseChange(id=id_, metric="", before=None, after=None, loss=1.0, status="gone")
            continue
        changes: list[CaseChange] = []
        for column in (column for column in main if passes(run, at, column) is False):
            cell, old, is_old = run.cells(column.name).cell(at), None, False
            if baseline is not None and id_ in same:
                old = baseline.cells(column.name).cell(then).value
                is_old = passes(baseline, then, column) is False
            changes.append(
                CaseChange(
                    id=id_, metric=column.name, before=old, after=cell.value,
                    loss=float(not is_old), status=cell.status.value, reason=cell.reason,
                    is_sure=_times(run, at, column) >= ASKS,
                )
            )  # fmt: skip
        yield from sorted(changes, key=lambda change: -change.loss)[:1]
