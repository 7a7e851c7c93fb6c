"""A verdict as workflow commands, which GitHub shows beside a change."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.records.verdicts import CheckKind, GateOutcome, Verdict
from ragbench.reports.escape import annotation_message, annotation_property

__all__ = ["github_annotations"]

_LEVELS = {
    GateOutcome.PASSED: "notice",
    GateOutcome.FAILED: "error",
    GateOutcome.INCONCLUSIVE: "warning",
}
_MOST = 9
"""GitHub shows ten of a level a step; the first one is the verdict's own."""


def github_annotations(verdict: Verdict) -> str:
    """A line for the verdict, then one for each check and refusal that stands against it."""
    lines = [_line(_LEVELS[verdict.outcome], f"ragbench {verdict.outcome.value}", verdict.headline)]
    lines += list(_refusals(verdict))[:_MOST]
    for outcome in (GateOutcome.FAILED, GateOutcome.INCONCLUSIVE):
        lines += list(_checks(verdict, outcome))[:_MOST]
    return "\n".join(lines) + "\n"


def _refusals(verdict: Verdict) -> Iterator[str]:
    for refusal in verdict.refusals:
        message = f"{refusal.reason}. To go on, {refusal.remedy}"
        yield _line("warning", f"ragbench {refusal.what}", message)


def _checks(verdict: Verdict, outcome: GateOutcome) -> Iterator[str]:
    for check in verdict.checks:
        is_quiet = check.kind is CheckKind.SLICE and outcome is GateOutcome.INCONCLUSIVE
        if check.outcome is outcome and not check.informational and not is_quiet:
            yield _line(_LEVELS[outcome], f"ragbench {check.name}", check.reason)


def _line(level: str, title: str, message: str) -> str:
    return f"::{level} title={annotation_property(title)}::{annotation_message(message)}"
