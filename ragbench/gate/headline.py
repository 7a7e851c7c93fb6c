"""A verdict in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.gate.config import Undecided
from ragbench.records.verdicts import Check, CheckKind, GateOutcome, Refusal

__all__ = ["headline"]

_SHOWN = 2
"""How many reasons a headline has room for."""


def headline(
    outcome: GateOutcome,
    checks: Sequence[Check],
    refusals: Sequence[Refusal],
    undecided: Undecided,
) -> str:
    """The decision with its main ground."""
    counted = [check for check in checks if not check.informational]
    if outcome is GateOutcome.PASSED:
        passed = sum(check.outcome is GateOutcome.PASSED for check in counted)
        return "1 check passed" if passed == 1 else f"{passed:,} checks passed"
    wanted = outcome
    if outcome is GateOutcome.FAILED and not any(c.outcome is outcome for c in counted):
        wanted = GateOutcome.INCONCLUSIVE  # undecided: fail
    found = [check for check in counted if check.outcome is wanted]
    if outcome is GateOutcome.INCONCLUSIVE:
        if refusals:
            return _refused(refusals)
        found = [check for check in found if check.kind is not CheckKind.SLICE]
        if undecided is Undecided.PASS:
            found = [check for check in found if check.drop is None]
    told = [f"{check.name} {_ground(check)}" for check in found[:_SHOWN]]
    rest = len(found) - _SHOWN
    return "; ".join(told) + (f"; and {rest:,} more" if rest > 0 else "")


def _refused(refusals: Sequence[Refusal]) -> str:
    differing = [refusal.what for refusal in refusals]
    if "baseline" in differing:
        return "there is no baseline"
    return f"this run and the baseline do not compare ({', '.join(differing)})"


def _ground(check: Check) -> str:
    """The main part of a check's reason; its interval is in the table below."""
    if check.drop is None:
        return check.reason.partition(", but ")[0]
    return check.reason.partition(" (")[0].partition(":")[0]
