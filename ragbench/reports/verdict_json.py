"""A verdict for programs. Its schema stands beside this file: verdict.schema.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ragbench.records.verdicts import Check, Verdict

__all__ = ["SCHEMA_VERSION", "verdict_object"]

SCHEMA_VERSION = 1


def verdict_object(verdict: Verdict) -> dict[str, Any]:
    """The verdict as a JSON object: the same verdict gives the same object."""
    return {
        "schema_version": SCHEMA_VERSION,
        "outcome": verdict.outcome.value,
        "exit_code": verdict.outcome.exit_code,
        "headline": verdict.headline,
        "run": asdict(verdict.run),
        "baseline": None if verdict.baseline is None else asdict(verdict.baseline),
        "checks": [_check(check) for check in verdict.checks],
        "refusals": [asdict(refusal) for refusal in verdict.refusals],
        "notes": list(verdict.notes),
        "lost_cases": [asdict(change) for change in verdict.lost],
        "quarantined": [asdict(case) for case in verdict.quarantined],
        "settings": dict(verdict.settings),
    }


def _check(check: Check) -> dict[str, Any]:
    found = asdict(check)
    found["kind"], found["outcome"] = check.kind.value, check.outcome.value
    return {"name": check.name, **found}
