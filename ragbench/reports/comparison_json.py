"""A comparison for programs. Its schema stands beside this file: comparison.schema.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ragbench.records.comparisons import CaseDifference, Comparison, IdChange

__all__ = ["SCHEMA_VERSION", "comparison_object"]

SCHEMA_VERSION = 1


def comparison_object(comparison: Comparison) -> dict[str, Any]:
    """The comparison as a JSON object: the same comparison gives the same object."""
    found = asdict(comparison)
    found["changed"] = [_case(case) for case in comparison.changed]
    return {"schema_version": SCHEMA_VERSION, **found}


def _case(case: CaseDifference) -> dict[str, Any]:
    return {**asdict(case), "ids": None if case.ids is None else _ids(case.ids)}


def _ids(change: IdChange) -> dict[str, Any]:
    return {
        "gained": [{"id": id_, "rank": rank} for id_, rank in change.gained],
        "lost": [{"id": id_, "rank": rank} for id_, rank in change.lost],
        "moved": [{"id": id_, "before": old, "after": new} for id_, old, new in change.moved],
        "kept": change.kept,
    }
