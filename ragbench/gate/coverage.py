"""How many cases failed, and how long the stages took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.gate.config import GateConfig
from ragbench.gate.demands import Demand
from ragbench.gate.wording import cases as told_cases
from ragbench.gate.wording import figure
from ragbench.records.cells import Status
from ragbench.records.run_scores import RunScores, ScoredCase
from ragbench.records.verdicts import Check, CheckKind, GateOutcome

__all__ = ["budget_checks", "coverage_check"]


def coverage_check(run: RunScores, demands: Sequence[Demand], config: GateConfig) -> Check:
    """Whether too many cases failed for the scores of the others to speak for all.

    A case counts when one of its stages failed, or one of the demanded metrics for it.
    """
    names = [demand.column.name for demand in demands]
    failed = sum(_has_failed(case, names) for case in run.cases)
    share = failed / len(run.cases) if run.cases else 0.0
    exceeds = share > config.max_error_rate
    told = f"{failed:,} of {told_cases(len(run.cases))} failed ({share:.1%})"
    return Check(
        kind=CheckKind.COVERAGE,
        subject="error rate",
        outcome=GateOutcome.FAILED if exceeds else GateOutcome.PASSED,
        reason=f"{told}, {'more than' if exceeds else 'at most'} {config.max_error_rate:.1%}",
        observed=share,
        limit=config.max_error_rate,
        bound="max",
        cases=len(run.cases),
    )


def budget_checks(run: RunScores, config: GateConfig) -> Iterator[Check]:
    """A check for each budget of time."""
    by_stage = {latency.stage: latency for latency in run.latencies}
    for budget in config.latency:
        latency = by_stage.get(budget.stage)
        observed = None
        outcome, reason = GateOutcome.INCONCLUSIVE, "no times are stored with this run"
        if latency is not None:
            observed = float(getattr(latency, budget.figure))
            holds = observed <= budget.seconds
            outcome = GateOutcome.PASSED if holds else GateOutcome.FAILED
            side = "at most" if holds else "above"
            reason = f"{figure(observed, 's')} is {side} {figure(budget.seconds, 's')}"
        yield Check(
            kind=CheckKind.BUDGET,
            subject=f"{budget.stage} {budget.figure}",
            outcome=outcome,
            reason=reason,
            observed=observed,
            limit=budget.seconds,
            bound="max",
            cases=0 if latency is None else latency.count,
            unit="s",
        )


def _has_failed(case: ScoredCase, metrics: Sequence[str]) -> bool:
    cells = (case.scores.get(metric) for metric in metrics)
    return Status.FAILED in case.stages.values() or any(
        cell is not None and cell.status is Status.FAILED for cell in cells
    )
