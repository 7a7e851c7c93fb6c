"""Unstable cases for programs. The schema stands beside this file: flakiness.schema.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ragbench.records.flakiness import Flakiness

__all__ = ["SCHEMA_VERSION", "flakiness_object"]

SCHEMA_VERSION = 1


def flakiness_object(flakiness: Flakiness) -> dict[str, Any]:
    """What several runs say of the noise, as a JSON object: the same runs give the same object."""
    found = asdict(flakiness)
    found["fingerprints"] = dict(flakiness.fingerprints)
    return {"schema_version": SCHEMA_VERSION, **found}
