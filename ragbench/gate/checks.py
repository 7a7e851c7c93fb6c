"""Checks of one run: limits, failed cases, budgets, cases that must pass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import NamedTuple

from ragbench.core.gate_result import CaseChange, CheckKind, GateCheck, GateOutcome, Ground
from ragbench.core.outcome import Status
from ragbench.core.record import replace
from ragbench.core.report import Correction, Interval, Latency
from ragbench.core.run_scores import MetricColumn, RunScores, labels_of, unchanged
from ragbench.errors import ConfigError
from ragbench.gate.cases import interval_of, main_metrics, passes
from ragbench.gate.config import RISE, GateConfig
from ragbench.gate.demands import Demand, on_cases
from ragbench.gate.drops import has_lost, is_lower
from ragbench.gate.figures import ERROR_RATE
from ragbench.gate.labels import corrected, points_of
from ragbench.gate.words import figure, worded
from ragbench.plugins import Floats, np
from ragbench.safe_text import did_you_mean
from ragbench.stats.mean import mean_interval
from ragbench.stats.paired import paired_columns

_TOKENS = "total_tokens"
"""The metric of what the RAG says that it used, in tokens."""
_USAGE_METRICS = {"tokens": _TOKENS, "cost": "generation_cost"}
"""Metrics of what the RAG says that it used."""
_SLOWER = 1.5
"""From how many times the baseline's time on a note says so: times are noisy."""
_DEARER = 1.2
"""The same of tokens and cost."""
_NOTICEABLE = 0.01
"""Seconds more that somebody notices."""
_HALF = 0.5
"""With less of the cases that a metric applies to, a figure that holds says nothing."""


ComparableRuns = tuple[RunScores, RunScores] | None
"""A run and its baseline with the same cases in the same order; None where they do not compare."""


# --- a figure against a limit


def _against_limit(check: GateCheck, *, least: int = 0, is_worse: bool = False) -> GateCheck:
    """A check with its outcome and words: its figure held against an absolute limit.

    Beyond the limit it fails only where its interval lies beyond the limit too, or the baseline was
    better. A system that lies at its limit would else fail every other time.

    Args:
        check: its ground is why there may be no figure. Without an interval nothing is known of
            the figure's noise: then the figure decides.
        least: measured cases that are demanded.
        is_worse: whether nothing is left, or the baseline is shown to be better.
    """
    outcome = GateOutcome.INCONCLUSIVE
    if check.observed is None:
        ground = check.ground
    elif check.cases < least:
        ground = Ground.TOO_FEW_CASES
    elif check.holds and check.cases < _HALF * check.applies:
        # Only for a figure that holds: one that breaks its limit is bad on few cases as well.
        ground = Ground.HARDLY_MEASURED
    elif check.holds:
        outcome = GateOutcome.PASSED
        ground = Ground.HOLDS
    elif not is_worse and _reaches(check.interval, check.limit, check.bound):
        # Not with `is_worse`, where a loss is shown: that leaves no room for chance.
        ground = Ground.MAY_HOLD
    else:
        outcome = GateOutcome.FAILED
        ground = Ground.BROKEN
    decided = replace(check, outcome=outcome, ground=ground)
    return worded(decided, least=least)


def _reaches(interval: Interval | None, limit: float, bound: str) -> bool:
    """Whether a confidence interval reaches to the right side of a limit.

    Where it does, chance may explain that the figure itself lies on the wrong side, and the check
    does not fail.
    """
    if interval is None:
        return False
    if bound == "min":
        return interval.high >= limit
    return interval.low <= limit


# --- failed cases, and cases in common


def coverage_check(
    run: RunScores, comparable_runs: ComparableRuns, demands: Sequence[Demand], config: GateConfig
) -> GateCheck:
    """The check of whether too many cases failed for the scores of the others to speak for all.

    A system that crashes on its hard cases would else look better than one that answers them badly.
    """
    has_failed = _failed_cases(run, demands)
    count = len(has_failed)
    share = 0.0
    if count:
        share = float(has_failed.sum()) / count
    is_worse = False
    # Looked at only beyond the limit: a smaller share passes, whatever the baseline's was.
    if share > config.max_error_rate and comparable_runs is not None:
        run_on_common, baseline = comparable_runs
        sample = paired_columns(
            _failed_cases(baseline, demands),
            _failed_cases(run_on_common, demands),
            ids=run_on_common.table.ids,
            labels=run_on_common.clusters,
            higher_is_better=False,
        )
        # The scale of a case is 1: the case failed or not.
        is_worse = has_lost(sample, 1.0, config.alpha)
    mean = mean_interval(has_failed.tolist(), [*run.clusters], bounds=(0.0, 1.0))
    check = GateCheck(
        kind=CheckKind.COVERAGE,
        subject=ERROR_RATE,
        outcome=GateOutcome.INCONCLUSIVE,
        ground=Ground.NOTHING_MEASURED,
        observed=share,
        limit=config.max_error_rate,
        bound="max",
        cases=count,
        unit="share",
        counted="cases failed",
        interval=mean.reported,
    )
    return _against_limit(check, is_worse=is_worse)


def _failed_cases(run: RunScores, demands: Sequence[Demand]) -> Floats:
    """For each case of a run, 1 if a stage or a demanded metric failed on it, else 0.

    Numbers, because their mean is the error rate, and its change is tested like that of a metric.
    """
    has_failed = np.zeros(len(run.cases), bool)
    for place, stages in enumerate(run.table.fact("stages")):
        has_failed[place] = Status.FAILED in stages.values()
    for demand in demands:
        cells = run.cells(demand.column.name)
        has_failed |= cells.has(Status.FAILED)
    return has_failed.astype(float)


def common_check(common: int, baseline: RunScores, config: GateConfig) -> GateCheck:
    """The check of whether enough of the baseline's cases are in the run, unchanged.

    A verdict on a small rest of the cases would speak for data that are no longer there.

    Args:
        common: number of cases that both have unchanged.
    """
    count = len(baseline.cases)
    # `_against_limit` replaces outcome and ground: the share is known, so that it always decides.
    check = GateCheck(
        kind=CheckKind.COVERAGE,
        subject="cases in common",
        outcome=GateOutcome.INCONCLUSIVE,
        ground=Ground.NOTHING_MEASURED,
        observed=common / count if count else 0.0,
        limit=config.min_common,
        bound="min",
        cases=count,
        unit="share",
        counted="cases of the baseline are in this run, unchanged",
    )
    return _against_limit(check)


# --- time, cost and tokens

_NORMAL_95 = NormalDist().inv_cdf(0.95)
"""How many standard deviations the 95th percentile lies above the median."""
_NORMAL_975 = NormalDist().inv_cdf(0.975)
"""How many of them an interval of 95 % has on each side."""


def _time_interval(latency: Latency, name: str) -> Interval | None:
    """The 95 % interval of a stage's mean, median or 95th percentile; None of any other figure.

    The times are taken to be log-normal, and their spread is estimated from the median and the 95th
    percentile, because a report stores no single times. None also where these two are not known.
    The longest time and the sum are no estimates: they need no interval.

    Args:
        name: the figure: ``mean``, ``p50`` or ``p95``.
    """
    deviation = _log_deviation(latency)
    # `name` is that of a field of Latency, or of none, such as a total.
    observed = getattr(latency, name, None)
    # Each factor, over the root of the number of cases, is the error of the figure's logarithm.
    if deviation is None or observed is None:
        return None
    if name == "mean":
        # The relative error of a log-normal mean; the deviation is cut, so that one absurd time
        # does not overflow.
        factor = math.sqrt(math.expm1(min(deviation, 5.0) ** 2))
    elif name == "p50":
        # A median varies more than a mean of logarithms would, by this root.
        factor = deviation * math.sqrt(math.pi / 2.0)
    elif name == "p95":
        # The 95th percentile is made of centre and spread, which both err.
        factor = deviation * math.sqrt(1.0 + _NORMAL_95**2 / 2.0)
    else:
        return None
    # All times are alike: no interval can be made of them.
    if not factor:
        return None
    # As a factor: times are compared as shares.
    width = math.exp(_NORMAL_975 * factor / math.sqrt(latency.count))
    return Interval(low=observed / width, high=observed * width, level=0.95)


def _log_deviation(latency: Latency) -> float | None:
    """The standard deviation of the logarithms of a stage's times; None where not known.

    The deviation is estimated by the distance from the median to the 95th percentile, because a
    report stores these two figures and not the times.
    """
    if not latency.p50 or not latency.p95 or latency.count < 2:
        return None
    # Nothing is between the two percentiles: no spread can be read from them.
    if latency.p95 <= latency.p50:
        return None
    ratio = latency.p95 / latency.p50
    return math.log(ratio) / _NORMAL_95


def _rise_interval(run: RunScores, baseline: RunScores | None, stage: str) -> Interval | None:
    """The 95 % interval of a stage's rise: by which share its mean time lies above before.

    A limit on a rise is broken only where the whole interval lies beyond it. None where the times
    do not compare, since calls that are made at once take longer, or where their spread is not
    known.
    """
    now = _latency_of(run, stage)
    before = None if baseline is None else _latency_of(baseline, stage)
    if now is None or before is None or not before.mean:
        return None
    if now.concurrency != before.concurrency:
        return None
    interval_now = _time_interval(now, "mean")
    interval_before = _time_interval(before, "mean")
    if interval_now is None or interval_before is None:
        return None
    ratio = now.mean / before.mean
    # Logarithms of the two means are independent: their deviations add up as squares.
    log_width_now = math.log(interval_now.high / now.mean)
    log_width_before = math.log(interval_before.high / before.mean)
    width = math.exp(math.hypot(log_width_now, log_width_before))
    return Interval(low=ratio / width - 1.0, high=ratio * width - 1.0, level=0.95)


def _latency_of(run: RunScores, stage: str) -> Latency | None:
    """The times of a stage, such as ``generate``; None where the run stored none.

    Limits of time name a stage, and a run may have been without it.
    """
    for latency in run.latencies:
        if latency.stage == stage:
            return latency
    return None


def budget_checks(
    run: RunScores, baseline: RunScores | None, config: GateConfig
) -> Iterator[GateCheck]:
    """A check for each configured limit of time, cost and tokens, or of how much these may rise.

    A better answer that costs three times as much must not pass unseen.
    """
    rises = {usage.name: usage.rise for usage in _usages(run, baseline)}
    yield from _latency_checks(run, baseline, config, rises)

    count = len(run.cases)
    for extent, limit in config.max_cost.items():
        spent = run.judge_cost
        subject = "cost of judging (in all)"
        if extent != "all":
            subject = "cost of judging (per case)"
            # None stays None: the run does not store what judging cost.
            if spent is not None:
                spent /= max(count, 1)
        yield _budget_check(
            subject, spent, limit, count, unit=run.currency or "", missing="cost of judging"
        )

    # Cases whose answer reports its tokens.
    counts = [tokens for tokens in run.cells(_TOKENS).values.tolist() if not math.isnan(tokens)]
    for extent, limit in config.max_tokens.items():
        if extent == RISE:
            yield _rise_check("tokens rise", rises.get("tokens"), limit, len(counts))
            continue
        spent = None
        # Of the reported ones alone; without any, nothing is known.
        if counts:
            spent = math.fsum(counts)
        subject = "tokens (in all)"
        if extent != "all":
            subject = "tokens (per case)"
            if spent is not None:
                spent /= len(counts)
        yield _budget_check(
            subject,
            spent,
            limit,
            len(counts),
            unit="tokens",
            missing=f"tokens (metric {_TOKENS})",
        )


def _latency_checks(
    run: RunScores, baseline: RunScores | None, config: GateConfig, rises: dict[str, float]
) -> Iterator[GateCheck]:
    """A check for each configured limit of a stage's time, or of how much the time may rise.

    A limit is in seconds for one figure, such as the 95th percentile, or a share for a rise.

    Args:
        rises: by stage, the share by which its mean time lies above the baseline's.
    """
    for budget in config.latency:
        subject = f"{budget.stage} {budget.figure}"
        latency = _latency_of(run, budget.stage)
        count = 0 if latency is None else latency.count
        if budget.figure == RISE:
            interval = _rise_interval(run, baseline, budget.stage)
            rise = rises.get(budget.stage)
            missing = _times_missing(run, baseline, budget.stage)
            yield _rise_check(
                subject, rise, budget.seconds, count, interval=interval, missing=missing
            )
            continue
        observed = None
        interval = None
        missing = "times"
        if latency is not None:
            interval = _time_interval(latency, budget.figure)
            if budget.figure == "total":
                # Times of single cases are not stored: their sum is mean times count.
                observed = latency.mean * latency.count
            else:
                # None for a percentile where cases shared calls.
                observed = getattr(latency, budget.figure, None)
            if latency.sharing > 1:
                missing = f"times of single cases (up to {latency.sharing} shared a call)"
        yield _budget_check(
            subject,
            observed,
            budget.seconds,
            count,
            unit="s",
            missing=missing,
            interval=interval,
        )


_NO_FIGURE_BEFORE = "figure of it that the baseline holds, too"
"""What is missing where a rise has nothing to be compared with."""


def _times_missing(run: RunScores, baseline: RunScores | None, stage: str) -> str:
    """The words for what a run lacks where a stage's times do not compare with the baseline's.

    The words end a sentence that begins with "the run stores no", so that a user sees why no rise
    is judged.
    """
    now = _latency_of(run, stage)
    before = None if baseline is None else _latency_of(baseline, stage)
    if now is None or before is None or now.concurrency == before.concurrency:
        return _NO_FIGURE_BEFORE
    return (
        f"time to compare: this run's are of --concurrency {now.concurrency}, the baseline's of "
        f"{before.concurrency}, and calls that are made at once take longer"
    )


def _rise_check(
    subject: str,
    rise: float | None,
    limit: float,
    count: int,
    interval: Interval | None = None,
    missing: str = _NO_FIGURE_BEFORE,
) -> GateCheck:
    """A check of a rise: the share by which a time or an amount lies above the baseline's.

    A limit in seconds would depend on the machine; a share compares with the same system's past.

    Args:
        rise: None where the baseline has no such figure.
        limit: the largest share that is allowed, such as 0.2.
        count: number of cases of the figure.
    """
    return _budget_check(
        subject, rise, limit, count, unit="share", missing=missing, interval=interval
    )


def _budget_check(
    subject: str,
    observed: float | None,
    limit: float,
    count: int,
    *,
    unit: str,
    missing: str,
    interval: Interval | None = None,
) -> GateCheck:
    """A check of a time or an amount that has a largest allowed value.

    A run that does not store the figure is inconclusive: a limit must not pass unseen.

    Args:
        observed: None where the run does not store it.
        count: number of cases of the figure.
        missing: the end of "the run stores no", for a run without the figure.
    """
    # Outcome and ground stay where nothing is observed; else `_against_limit` decides.
    check = GateCheck(
        kind=CheckKind.BUDGET,
        subject=subject,
        outcome=GateOutcome.INCONCLUSIVE,
        ground=Ground.NOT_STORED,
        observed=observed,
        limit=limit,
        bound="max",
        cases=count,
        unit=unit,
        missing=missing,
        interval=interval,
    )
    return _against_limit(check)


class _Usage(NamedTuple):
    """What a case took on average, now and in the baseline."""

    name: str
    """A stage, whose seconds it is; or ``"tokens"`` or ``"cost"``."""
    now: float
    """The mean of a case in the run."""
    before: float
    """In the baseline."""
    noted_from: float
    """From how many times as much on a note says so."""

    @property
    def rise(self) -> float:
        """The share by which a case's time, tokens or cost lie above the baseline's.

        Limits and notes are of this share, since absolute times differ from machine to machine.
        """
        return self.now / self.before - 1.0


def _mean_times(run: RunScores) -> dict[tuple[str, str], float]:
    """The mean time of a case, by stage and by how many calls were made at once.

    Times with another number of calls at once do not compare, so that number is a part of the key.
    Where cases shared a call, the time of one case is not known, and the stage is left out.
    """
    times: dict[tuple[str, str], float] = {}
    for latency in run.latencies:
        if latency.sharing == 1:
            times[latency.stage, latency.concurrency] = latency.mean
    return times


def _usages(run: RunScores, baseline: RunScores | None) -> Iterator[_Usage]:
    """Each stage's seconds, the tokens and the cost of a mean case, now and in the baseline.

    A rise of these is limited or noted by callers. Tokens and cost are of the cases that both runs
    measured, since other cases need more or less; times are of whatever machine ran them.
    """
    if baseline is None:
        return
    times_before = _mean_times(baseline)
    for (stage, concurrency), time in _mean_times(run).items():
        time_before = times_before.get((stage, concurrency))
        # A time of 0 has no rise that could be given in times.
        if time_before:
            yield _Usage(stage, time, time_before, _SLOWER)
    for name, metric in _USAGE_METRICS.items():
        if metric not in run.table.cells or metric not in baseline.table.cells:
            continue
        amounts_before = baseline.values(metric)
        common_now: list[float] = []
        common_before: list[float] = []
        for id_, amount in run.values(metric).items():
            amount_before = amounts_before.get(id_)
            if amount is not None and amount_before is not None:
                common_now.append(amount)
                # Pairs of the same case, so that both means are of the same cases.
                common_before.append(amount_before)
        total_before = math.fsum(common_before)
        # Without tokens before, no rise can be given.
        if total_before:
            count = len(common_now)
            mean_now = math.fsum(common_now) / count
            yield _Usage(name, mean_now, total_before / count, _DEARER)


def dearer_notes(run: RunScores, baseline: RunScores | None) -> Iterator[str]:
    """A note for each time, token count or cost that clearly rose since the baseline.

    Without a configured budget too: a user should see that a better system became slower or dearer.
    """
    for usage in _usages(run, baseline):
        if usage.now <= usage.before * usage.noted_from:
            continue
        if usage.name == "tokens":
            title = "Tokens per case"
            now = figure(usage.now, "tokens")
            before = figure(usage.before, "tokens")
        elif usage.name == "cost":
            # Per thousand: the cost of one case would have too many zeros to be read.
            title = "Cost of the RAG per 1,000 cases"
            now = figure(1000 * usage.now)
            before = figure(1000 * usage.before)
        elif usage.now - usage.before > _NOTICEABLE:
            # A stage of milliseconds may be twice as slow, and nobody notices.
            title = f"Time of {usage.name} per case"
            now = figure(usage.now, "s")
            before = figure(usage.before, "s")
        else:
            continue
        yield f"{title}: {now}, before {before} (+{usage.rise:.0%})."


# --- min and max of a metric


def floor_checks(
    run: RunScores, comparable_runs: ComparableRuns, demands: Sequence[Demand], config: GateConfig
) -> Iterator[GateCheck]:
    """A check for each demanded ``min`` and ``max`` of a metric, on all cases and on slices.

    A slice is the cases of one tag or language.

    These checks fail a run that is too bad however bad the baseline is.
    """
    for demand, slice_, places in on_cases(demands, run):
        run_on_slice = run if places is None else run.at(places)
        limits = {"min": demand.limits.minimum, "max": demand.limits.maximum}
        for bound, limit in limits.items():
            if limit is not None:
                yield _floor_check(
                    demand.column, run_on_slice, slice_, bound, limit, comparable_runs, config
                )


def _floor_check(
    column: MetricColumn,
    run: RunScores,
    slice_: str | None,
    bound: str,
    limit: float,
    comparable_runs: ComparableRuns,
    config: GateConfig,
) -> GateCheck:
    """The check of a metric's figure against its ``min`` or ``max``.

    Where people labelled answers, the figure that their labels correct is held against the limit.

    A metric's mean is noisy: the check fails only where the loss is no chance.

    Args:
        run: with the cases of the slice alone.
        slice_: name of the slice; None for all cases.
        bound: ``"min"`` or ``"max"``.
        comparable_runs: the run and its baseline with all cases that compare.
    """
    is_whole = slice_ is None
    observed, interval, count = _figure_of_metric(column, run, whole=is_whole)
    correction: Correction | None = None
    # Labels of people decide over a judge's figure, where they are enough.
    if run.has_labels:
        corrected_figure = corrected(column, points_of(column, run))
        if corrected_figure is not None:
            _, correction = corrected_figure
            if correction.interval is None:  # too few labels to say anything
                correction = None
    if correction is not None:
        observed = correction.corrected
        interval = correction.interval

    is_worse = False
    if observed is not None and _is_beyond(observed, limit, bound):
        # A limit at the best value (the highest for a `min`, the lowest for a `max`) demands that
        # every case has it: one case that lacks it breaks the limit for sure.
        best_value = column.high if bound == "min" else column.low
        is_worse = limit == best_value or _has_nothing(column, observed)
        # Labels correct the mean as a whole, and not the single values: a test of these values
        # would judge the uncorrected figure.
        if not is_worse and is_whole and correction is None:
            is_worse = _was_better(column, comparable_runs, config)
    check = GateCheck(
        kind=CheckKind.FLOOR if is_whole else CheckKind.SLICE,
        subject=column.name,
        outcome=GateOutcome.INCONCLUSIVE,
        ground=Ground.NOTHING_MEASURED,
        observed=observed,
        limit=limit,
        bound=bound,
        cases=count,
        slice=slice_,
        unit=column.unit,
        interval=interval,
        corrected=correction,
        is_opinion=correction is None and column.is_judged,
        # The cases to which the metric applies, measured or not.
        applies=int((~np.isnan(run.cells(column.name).coverage)).sum()),
    )
    return _against_limit(check, least=config.min_cases, is_worse=is_worse)


def _is_beyond(observed: float, limit: float, bound: str) -> bool:
    """Whether a figure lies on the wrong side of a limit: below a ``min``, or above a ``max``.

    Only such a figure needs a look at whether the baseline was better.
    """
    if bound == "min":
        return observed < limit
    return observed > limit


def _has_nothing(column: MetricColumn, observed: float) -> bool:
    """Whether a metric's mean is its worst value, so that every case has that value.

    Where it is, a broken limit needs no test: no chance is left that could explain the figure.
    """
    worst_value = column.low if column.sign > 0.0 else column.high
    return observed == worst_value


def _was_better(column: MetricColumn, comparable_runs: ComparableRuns, config: GateConfig) -> bool:
    """Whether a test shows that the baseline was better in a metric.

    A figure beyond its limit then fails though its interval still reaches the limit: the loss is
    real.
    """
    # Without a mean over cases there is nothing to test.
    if comparable_runs is None or column.no_mean:
        return False
    run, baseline = comparable_runs
    return baseline.measures(column) and is_lower(column, run, baseline, config.alpha)


def _figure_of_metric(
    column: MetricColumn, run: RunScores, *, whole: bool
) -> tuple[float | None, Interval | None, int]:
    """A metric's figure, its confidence interval, and the number of cases that it rests on.

    A metric without values for each case has its figure alone, without an interval.

    Args:
        whole: whether the run has all its cases; of a slice, a figure that is no mean is not known.
    """
    # Only the figure is stored, and no cells, for instance of another package's metric.
    if not column.has_cells:
        return column.score, None, len(run.cases)
    if column.aggregate is not None:
        is_measured = ~np.isnan(run.cells(column.name).values)
        # What makes the figure of the values is not at hand, so that a slice has none.
        score = column.score if whole else None
        return score, None, int(is_measured.sum())
    interval = interval_of(run, column)
    return interval.mean, interval.reported, interval.cases


# --- cases that must pass

ASKS = 3
"""From so many times on that a case was asked, most of them say that it is lost."""


def must_pass_check(
    run: RunScores, baseline: RunScores | None, selectors: Sequence[str]
) -> Iterator[GateCheck]:
    """The check of cases that must pass: whether one fails that passed before or is new.

    A case passes where it does so by each of the run's main metrics, as in `ragbench.gate.cases`; a
    case that was asked repeatedly, where it passes at least half of the times.

    Args:
        selectors: ids of cases, ``tag:NAME`` or ``language:CODE``; without any, there is no check.
    """
    if not selectors:
        return
    # In both runs the main metrics of the judged one.
    main = main_metrics(run.metrics)
    ids = _selected(selectors, run, baseline)
    _refuse_undecidable(run, ids, main)
    failing = list(_failing(run, baseline, ids, main))
    lost = [change for change in failing if change.loss]  # 0: it failed in the baseline, too
    if not lost:
        outcome = GateOutcome.PASSED
        ground = Ground.HOLDS
    elif any(change.is_sure for change in lost):
        # A loss that was seen often enough; one that may be chance leaves the check open.
        outcome = GateOutcome.FAILED
        ground = Ground.BROKEN
    else:
        outcome = GateOutcome.INCONCLUSIVE
        ground = Ground.LOST_ONCE
    yield worded(
        GateCheck(
            kind=CheckKind.MUST_PASS,
            subject="must pass",
            outcome=outcome,
            ground=ground,
            observed=1.0 - len(lost) / len(ids),
            limit=1.0,
            bound="min",
            cases=len(ids),
            unit="share",
            lost=tuple(lost),
            failed_before=len(failing) - len(lost),
        )
    )


def _selected(selectors: Sequence[str], run: RunScores, baseline: RunScores | None) -> list[str]:
    """The ids of the cases that must pass: those with a named id, tag or language in either run.

    Raises:
        ConfigError: a selector names no case: a typing error would else guard nothing.
    """
    # Tags may be those of the baseline: a case that lost its tag must still pass.
    runs = [run] if baseline is None else [run, baseline]
    ids_of_run = set(run.table.ids)
    all_ids = set[str]().union(*(side.table.ids for side in runs))
    selected: dict[str, None] = {}
    for selector in selectors:
        ids: list[str] = []
        # A case of the run may have an id that begins like a label: then that case is meant.
        is_label = selector.startswith(("tag:", "language:")) and selector not in ids_of_run
        if is_label:
            for side in runs:
                for id_, labels in zip(side.table.ids, labels_of(side), strict=True):
                    if selector in labels:
                        ids.append(id_)
        elif selector in all_ids:
            ids = [selector]
        if not ids:
            meant = did_you_mean(selector, run.table.ids)
            raise ConfigError(f"must_pass: '{selector}' names no case of this run.{meant}")
        # A dict: each case once, in the order of the selectors.
        selected |= dict.fromkeys(ids)
    return list(selected)


def _refuse_undecidable(run: RunScores, ids: Sequence[str], main: Sequence[MetricColumn]) -> None:
    """Refuses must-pass cases of which no metric says whether they pass.

    The user relies on them, and a check that can never fail would seem to guard them.

    Args:
        ids: of the cases that must pass.
        main: the metrics by which a case passes.

    Raises:
        ConfigError: there is such a case.
    """
    undecidable: list[str] = []
    for id_, place in zip(ids, run.table.places(ids).tolist(), strict=True):
        # A case that the run does not have is lost, and needs no metric.
        if place >= 0 and all(passes(run, place, column) is None for column in main):
            undecidable.append(id_)
    if undecidable:
        metrics = ", ".join(column.name for column in main)
        raise ConfigError(
            f"must_pass: {', '.join(undecidable[:3])}: none of {metrics} "
            "decides whether it passes. Give it a reference answer, or relevant ids"
        )


def _failing(
    run: RunScores, baseline: RunScores | None, ids: Sequence[str], main: Sequence[MetricColumn]
) -> Iterator[CaseChange]:
    """How each case that must pass fails, with a loss of 1 where that is new and 0 where it is not.

    The gate fails by new losses alone. A question that was edited is a new one, and a case that the
    run no longer has is lost.
    """
    # -1 where the run does not have the case.
    places = run.table.places(ids).tolist()
    unchanged_ids: set[str] = set()
    earlier_places = places  # without a baseline they are not looked at
    if baseline is not None:
        unchanged_ids = unchanged(run, baseline)
        earlier_places = baseline.table.places(ids).tolist()
    for id_, place, earlier_place in zip(ids, places, earlier_places, strict=True):
        if place < 0:
            yield CaseChange(id=id_, metric="", before=None, after=None, loss=1.0, status="gone")
            continue
        changes: list[CaseChange] = []
        for column in main:
            # None, that the metric does not apply, is no failure.
            if passes(run, place, column) is not False:
                continue
            before = None
            failed_before = False
            # An edited case is new: the baseline's verdict was on another question.
            if baseline is not None and id_ in unchanged_ids:
                before = baseline.cells(column.name).cell(earlier_place).value
                failed_before = passes(baseline, earlier_place, column) is False
            cell = run.cells(column.name).cell(place)
            changes.append(
                CaseChange(
                    id=id_,
                    metric=column.name,
                    before=before,
                    after=cell.value,
                    loss=0.0 if failed_before else 1.0,
                    status=cell.status.value,
                    reason=cell.reason,
                    is_sure=_times_asked(run, place, column) >= ASKS,
                )
            )
        if changes:  # of several metrics the first that is newly lost
            yield max(changes, key=lambda change: change.loss)


def _times_asked(run: RunScores, place: int, column: MetricColumn) -> int:
    """How many times a case was asked where a metric had something to say of it.

    A loss that was seen in few of them may be chance, and is asked about again.

    Args:
        place: the case's position in the run.
    """
    cells = run.cells(column.name).asked(place).cells
    return sum(cell is not None and cell.status is not Status.SKIPPED for cell in cells)


def asked_again(check: GateCheck, asked: RunScores) -> GateCheck:
    """The check of cases that must pass, decided by asking again about those that were lost once.

    A system that answers at random loses some case in every run: with further asks the majority
    decides.

    Args:
        asked: the cases of the check that were lost once, each of them as often as `ASKS` lacks.
    """
    main = main_metrics(asked.metrics)
    # Each further ask is a case of its own, numbered in the order of the lost cases.
    numbered_ids = [str(number) for number in range(len(asked.cases))]
    has_passed: list[bool] = []
    for place in asked.table.places(numbered_ids).tolist():
        verdicts = [passes(asked, place, column) for column in main]
        has_passed.append(False not in verdicts)  # None: the metric does not apply

    # Consumed below in the order in which the cases were asked.
    results = iter(has_passed)
    lost: list[CaseChange] = []
    for change in check.lost:
        if change.is_sure:
            lost.append(change)
            continue
        # All further asks of one case come in a row.
        times_passed = sum(next(results) for _ in range(ASKS - 1))
        # With the first time, which was lost, most of the asks decide.
        if 2 * times_passed < ASKS:
            lost.append(replace(change, is_sure=True))
    outcome = GateOutcome.PASSED
    ground = Ground.HOLDS
    if lost:
        outcome = GateOutcome.FAILED
        ground = Ground.BROKEN
    observed = 1.0 - len(lost) / check.cases
    decided = replace(check, outcome=outcome, ground=ground, observed=observed, lost=tuple(lost))
    return worded(decided)
