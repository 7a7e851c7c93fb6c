"""The published schema of report.json."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import orjson

__all__ = ["report_schema"]


def report_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every report.json of this version meets."""
    schema: dict[str, Any] = orjson.loads(
        (files("ragbench.reports") / "report.schema.json").read_bytes()
    )
    return schema
