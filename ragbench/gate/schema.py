"""The JSON schema of the section ``gate`` of ``ragbench.yaml``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ragbench.core.record import field_docs
from ragbench.gate.config import (
    EXTENTS,
    FIGURES,
    SINGLE_VALUES,
    TOKEN_EXTENTS,
    GateConfig,
)

_NUMBER: dict[str, Any] = {"type": "number"}
_LIMITS: dict[str, Any] = {
    "min": {**_NUMBER, "description": "The lowest mean that passes."},
    "max": {**_NUMBER, "description": "The highest mean that passes."},
    "max_drop": {**_NUMBER, "minimum": 0, "description": "The largest tolerated loss."},
}


def gate_schema() -> dict[str, Any]:
    """The JSON schema of the section that `ragbench.gate.config.read_gate_config` reads.

    Editors complete and check ``ragbench.yaml`` by it. The schema knows keys, types and ranges;
    whether a metric exists is only checked when the file is read.
    """
    # The record's own descriptions, so that editors and docs agree.
    descriptions = field_docs(GateConfig)
    properties: dict[str, Any] = {}
    for name, kind in SINGLE_VALUES.items():
        properties[name] = {**_schema_of(kind), "description": descriptions.get(name, "")}
    limits = _mapping(_LIMITS)
    slices = {
        "description": "tag, language, tag:NAME or language:CODE; or a mapping to their limits.",
        "anyOf": [
            {"type": "array", "items": {"type": "string"}},
            {"type": "object", "additionalProperties": limits},
        ],
    }
    metric = _mapping({**_LIMITS, "slices": slices})
    properties["metrics"] = {"type": "object", "additionalProperties": metric}
    latency = {"type": "object", "additionalProperties": _budget(FIGURES)}
    properties["max_latency"] = {**latency, "description": "Seconds, by stage and figure."}
    properties["max_cost"] = {**_budget(EXTENTS), "description": descriptions["max_cost"]}
    properties["max_tokens"] = {**_budget(TOKEN_EXTENTS), "description": descriptions["max_tokens"]}
    return _mapping(properties)


def _schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type, without references to definitions.

    A reference of an enumeration would lead to the definitions of a whole schema, and this schema
    is put into another one, which lacks them.
    """
    schema: dict[str, Any] = msgspec.json.schema(kind)
    definitions: dict[str, Any] = schema.pop("$defs", {})
    if "$ref" in schema:
        # An enumeration is the only definition; it takes the place of the reference.
        (schema,) = definitions.values()
    return schema


def _budget(names: Iterable[str]) -> dict[str, Any]:
    """The schema of a budget: limits above 0 by what each limits, such as ``case`` or ``p95``.

    A budget limits time, cost or tokens; an editor then offers the possible names.
    """
    limits: dict[str, Any] = {}
    for name in names:
        limits[name] = {**_NUMBER, "exclusiveMinimum": 0}
    return _mapping(limits)


def _mapping(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of a mapping with the given keys and no others: editors mark typing errors."""
    return {"type": "object", "additionalProperties": False, "properties": properties}
