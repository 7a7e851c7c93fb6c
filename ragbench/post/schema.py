"""The JSON schema of post-retrieval files, by which editors complete them."""

from __future__ import annotations

from typing import Any

from ragbench.io.settings import schema_of_settings
from ragbench.post.build import OPERATORS, RERANKERS, WRITTEN
from ragbench.post.rerank import Rerank

OWN_CLASS = r"^[^:]+:[^:]+$"
"""A class of the user's, such as ``my_module:Class``."""
STAGE_SETTINGS: dict[str, Any] = {
    "on_error": {
        "enum": ["keep", "raise"],
        "description": "What a failing operator does: it is skipped, or it fails the case.",
    },
    "score_field": {
        "type": "string",
        "description": "The metadata field that gets the last score of a chunk.",
    },
    "now": {"type": "string", "description": "What ages are counted from, a date."},
}
"""Settings of a stage besides its operators."""


def post_retrieval_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a stage's file, or of the variants of ``ragbench ablate``.

    Editors complete and check the file by it. What other packages register is in it.
    """
    resources = {
        "service": {"type": "string", "description": "A service of yours, as file.py:attribute."},
        "chat": {"type": "string", "description": "A language model, as file.py:attribute."},
    }
    operators = {
        "type": "array",
        "description": "Operators, in order; see ragbench show operators.",
        "items": {"anyOf": operator_schemas()},
    }
    stage = {"operators": {"$ref": "#/$defs/operators"}, **STAGE_SETTINGS}
    variant = _schema_of_mapping({"name": {"type": "string"}, **stage}, required=["name"])
    variants = {"type": "array", "items": variant, "description": "Stages to compare."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ragbench post-retrieval",
        "anyOf": [
            _schema_of_mapping({**stage, **resources}, required=["operators"]),
            _schema_of_mapping({"variants": variants, **resources}, required=["variants"]),
        ],
        "$defs": {"operators": operators},
    }


def _schema_of_mapping(properties: dict[str, Any], *, required: list[str]) -> dict[str, Any]:
    """The JSON schema of a mapping with these keys and no others.

    Args:
        required: the keys that must be there.
    """
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": required,
    }


def operator_schemas() -> list[dict[str, Any]]:
    """One JSON schema for each operator that is registered, and for those of the user's own.

    A name with a dot is written in a file as two fields: ``filter.top_k`` is ``action: filter``,
    ``type: top_k``.
    """
    schemas: list[dict[str, Any]] = []
    for name in OPERATORS.targets():
        if name == "rerank":
            continue  # each reranker has a schema of its own, below
        action, dot, type_ = name.partition(".")
        names: dict[str, Any] = {"action": {"const": action}}
        if dot:
            names["type"] = {"const": type_}
        schema = schema_of_settings(OPERATORS.load(name), WRITTEN)
        schemas.append(with_names(schema, names))
    # In a file a reranker's settings are beside those of the operator ``rerank`` itself.
    rerank_settings = schema_of_settings(Rerank)["properties"]
    for name in RERANKERS.targets():
        schema = schema_of_settings(RERANKERS.load(name), WRITTEN)
        schema["properties"] = schema.get("properties", {}) | rerank_settings
        names = {"action": {"const": "rerank"}, "type": {"const": name}}
        schemas.append(with_names(schema, names))
    # Of a class of the user's nothing is known: any settings may stand beside its name.
    own_class = {"type": "string", "pattern": OWN_CLASS}
    own_operator = {"action": own_class}
    own_reranker = {"action": {"const": "rerank"}, "type": own_class}
    schemas.append(with_names({"type": "object"}, own_operator))
    schemas.append(with_names({"type": "object"}, own_reranker))
    return schemas


def with_names(schema: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a mapping that must hold these names besides its settings.

    A name is a field with a fixed value, such as ``action: filter``, by which a file chooses.
    """
    properties = {**names, **schema.get("properties", {})}
    required = [*names, *schema.get("required", [])]
    return {**schema, "properties": properties, "required": required}
