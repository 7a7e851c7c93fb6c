"""Checks that ask no statistics: limits, coverage, budgets, cases that must pass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from ragbench.core.gate_result import CaseChange, CheckKind, GateCheck, GateOutcome, Ground
from ragbench.core.outcome import Status
from ragbench.core.record import replace
from ragbench.core.report import Interval
from ragbench.core.run_scores import MetricColumn, RunScores, labels_of, unchanged
from ragbench.errors import ConfigError
from ragbench.gate.cases import interval_of, main_metrics, passes
from ragbench.gate.config import RISE, GateConfig
from ragbench.gate.demands import Demand, on_cases
from ragbench.gate.labels import corrected, points_of
from ragbench.gate.words import figure, worded
from ragbench.plugins import np
from ragbench.safe_text import did_you_mean

_TOKENS = "total_tokens"
_TAKEN = {"tokens": _TOKENS, "cost": "generation_cost"}
"""Metrics of what the RAG says that it took."""
_SLOWER, _DEARER, _NOTICED = 1.5, 1.2, 0.01
"""From how many times as much a note says so; and seconds that somebody notices."""
_HALF = 0.5
"""With less of the cases that a metric applies to, a figure that holds says nothing."""


def coverage_check(run: RunScores, demands: Sequence[Demand], config: GateConfig) -> GateCheck:
    """Whether too many cases failed for the scores of the others to speak for all.

    A case counts when one of its stages failed, or one of the demanded metrics for it.
    """
    broken = np.zeros(len(run.cases), bool)
    for place, stages in enumerate(run.table.fact("stages")):
        broken[place] = Status.FAILED in stages.values()
    for demand in demands:
        broken |= run.cells(demand.column.name).has(Status.FAILED)
    failed = int(broken.sum())
    share = failed / len(run.cases) if run.cases else 0.0
    return _limit_check(
        CheckKind.COVERAGE, "error rate", share, config.max_error_rate, len(run.cases),
        counted="cases failed", unit="share",
    )  # fmt: skip


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
    **facts: Any,
) -> GateCheck:
    """A figure against an absolute limit; ``lacking`` says why there may be none."""
    check = GateCheck(
        kind=kind, subject=subject, outcome=GateOutcome.INCONCLUSIVE, ground=lacking,
        observed=observed, limit=limit, bound=bound, cases=count, **facts,
    )  # fmt: skip
    if observed is not None and count < least:
        check = replace(check, ground=Ground.TOO_FEW_CASES)
    elif check.holds and count < _HALF * check.applies:
        check = replace(check, ground=Ground.HARDLY_MEASURED)
    elif check.holds:
        check = replace(check, ground=Ground.HOLDS, outcome=GateOutcome.PASSED)
    elif observed is not None:
        check = replace(check, ground=Ground.BROKEN, outcome=GateOutcome.FAILED)
    return worded(check, least=least)


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
            yield rise(subject, rises.get(budget.stage), budget.seconds, count)
        else:
            yield check(subject, observed, budget.seconds, count, unit="s", missing=missing)
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
    run: RunScores, demands: Sequence[Demand], config: GateConfig
) -> Iterator[GateCheck]:
    """A check for each of ``min`` and ``max`` that is given, on all cases and on slices.

    The observed figure decides, as a reader of the limit expects; the reason says when its interval
    reaches across the limit.
    """
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
            yield _limit_check(
                CheckKind.FLOOR if slice_ is None else CheckKind.SLICE,
                column.name, observed, limit, count, bound=bound,
                applies=int((~np.isnan(own.cells(column.name).coverage)).sum()),
                least=config.min_cases, slice=slice_, unit=column.unit, interval=interval,
                corrected=told, is_opinion=told is None and column.is_judged,
            )  # fmt: skip


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
    share = 1.0 - len(lost) / len(ids)
    yield worded(
        GateCheck(
            kind=CheckKind.MUST_PASS,
            subject="must pass",
            outcome=GateOutcome.FAILED if lost else GateOutcome.PASSED,
            ground=Ground.BROKEN if lost else Ground.HOLDS,
            observed=share,
            limit=1.0,
            bound="min",
            cases=len(ids),
            unit="share",
            lost=tuple(lost),
            failed_before=len(failing) - len(lost),
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
                )
            )  # fmt: skip
        yield from sorted(changes, key=lambda change: -change.loss)[:1]
