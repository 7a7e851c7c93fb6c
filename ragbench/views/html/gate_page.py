"""The page of a gate."""

from __future__ import annotations

from ragbench.core.comparison import Against
from ragbench.core.gate_result import CaseChange, GateCheck, GateOutcome, GateResult
from ragbench.views.gate import (
    after_text,
    change_lines,
    change_title,
    interval_text,
    limit_text,
    number_text,
    observed_text,
)
from ragbench.views.html.comparison_page import change_groups, flow_rows
from ragbench.views.html.page import Page, facts_page, section

_TONES = {
    GateOutcome.PASSED: "passes",
    GateOutcome.FAILED: "fails",
    GateOutcome.INCONCLUSIVE: "undecided",
}


def gate_page(result: GateResult, against: Against | None = None) -> Page:
    sections = [
        section(
            "Checks",
            ("Check", "outcome", "observed", "limit", "interval", "cases", "why"),
            list(map(_check, result.checks)),
        ),
        section(
            change_title("the baseline", "this run").capitalize(),
            ("What",),
            [] if result.system is None else [[line] for line in change_lines(result.system)],
        ),
        *([] if against is None else _changes(against)),
        section(
            "Cases that lost",
            ("Case", "metric", "before", "now", "question"),
            list(map(_lost, result.lost_cases)),
        ),
        section(
            "Settings",
            ("Setting", "value"),
            [[name, str(value)] for name, value in result.settings.items()],
        ),
    ]
    run, baseline = result.run, result.baseline
    return facts_page(
        kind="ragbench gate",
        title=f"{result.outcome.value.capitalize()}: {run.rag} on {run.dataset}",
        headline=result.headline,
        tone=_TONES[result.outcome],
        notes=[
            *(f"{refusal.reason}. To go on, {refusal.remedy}" for refusal in result.refusals),
            *result.notes,
            *([f"Baseline: {baseline.source}, {baseline.rag}"] if baseline is not None else []),
        ],
        sections=[each for each in sections if each["rows"] or each["groups"]],
    )


def _changes(against: Against) -> list[dict[str, object]]:
    return [
        section(
            "Cases that went another way",
            (),
            (),
            groups=list(change_groups([against.pair], against.changed)),
        ),
        section(
            "How causes changed",
            ("Before", "After", "Cases", "Run", "For example"),
            flow_rows(against.flows),
        ),
    ]


def _lost(change: CaseChange) -> list[object]:
    return [
        change.id,
        change.metric,
        number_text(change.before),
        after_text(change),
        change.query or "",
    ]


def _check(check: GateCheck) -> list[object]:
    return [
        check.name,
        check.outcome.value,
        observed_text(check),
        limit_text(check),
        interval_text(check),
        f"{check.cases:,}",
        check.reason,
    ]
