"""What the tests of the gate read from its verdicts."""

from __future__ import annotations

from ragbench import GateConfig
from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, GateResult
from ragbench.core.run_scores import RunScores
from ragbench.gate.gate import gate

PASSED = GateOutcome.PASSED
FAILED = GateOutcome.FAILED
CANNOT_TELL = GateOutcome.INCONCLUSIVE


def check_of(verdict: GateResult, subject: str, slice: str | None = None) -> GateCheck:
    """The only check on the metric, stage or share, or on one slice of it."""
    (check,) = [
        check for check in verdict.checks if (check.subject, check.slice) == (subject, slice)
    ]
    return check


def checks_of_kind(verdict: GateResult, kind: CheckKind) -> list[GateCheck]:
    return [check for check in verdict.checks if check.kind is kind]


def drop_of(now: RunScores, before: RunScores, demands: GateConfig, subject: str = "m") -> Drop:
    """The drop that the gate tested of a metric."""
    drop = check_of(gate(now, before, demands), subject).drop
    assert drop is not None
    return drop
