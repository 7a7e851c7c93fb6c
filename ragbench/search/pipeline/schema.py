"""The JSON schema of a pipeline file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragbench.io.settings import schema_of_settings
from ragbench.llm.settings import SETTING_NAMES
from ragbench.plugins import Registry
from ragbench.post.build import OPERATORS, RERANKERS, WRITTEN
from ragbench.post.rerank import Rerank
from ragbench.search.pipeline.documents import CHUNKERS, ChunkSize, IndexingSettings
from ragbench.search.pipeline.pre_retrieval import QUERY_TRANSFORMS
from ragbench.search.pipeline.stages import GENERATIONS, ORCHESTRATIONS, RETRIEVALS

_OWN = r"^[^:]+:[^:]+$"


def pipeline_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of what `ragbench.search.pipeline.read.load_pipeline` reads.

    What other packages register is in it. It knows names, types and ranges; whether stages go
    together, only reading checks.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ragbench pipeline",
        "description": "The six stages of a RAG.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "description": "How reports call it."},
            "llm": _llm(),
            "indexing": _indexing(),
            "pre_retrieval": _listed(
                "transforms",
                "Query transforms, in order.",
                _choice(QUERY_TRANSFORMS, required=True, llm=True),
            ),
            "retrieval": _choice(RETRIEVALS, required=False),
            "post_retrieval": _listed(
                "operators",
                "Operators, in order; see docs/post_retrieval.md.",
                {"anyOf": _operators()},
                score_field={"type": "string"},
                now={"type": "string", "description": "What ages are counted from, a date."},
            ),
            "generation": _choice(GENERATIONS, required=False, llm=True),
            "orchestration": _choice(ORCHESTRATIONS, required=False),
        },
    }


def _llm() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "A language model; see docs/llm.md.",
        "additionalProperties": False,
        "properties": {name: {} for name in SETTING_NAMES},
    }


def _indexing() -> dict[str, Any]:
    schema = schema_of_settings(IndexingSettings)
    size = schema_of_settings(ChunkSize, WRITTEN)["properties"]
    text = {"type": "string"}
    named = {"type": "object", "required": ["name"]}
    chunkers = [{"enum": list(CHUNKERS.targets())}, {"type": "string", "pattern": _OWN}]
    forms: dict[str, tuple[list[Any], dict[str, Any]]]
    forms = {"chunker": (chunkers, size), "embedder": ([text], {})}
    for key, (names, settings) in forms.items():
        whole = {**named, "properties": {"name": text, **settings}}
        schema["properties"][key] |= {"anyOf": [*names, whole, {"type": "null"}]}
    return schema


def _listed(key: str, about: str, items: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """A list, or a mapping that holds it beside settings."""
    listed = {"type": "array", "items": items}
    properties = {key: listed, "on_error": {"enum": ["keep", "raise"]}, **settings}
    whole = {"type": "object", "additionalProperties": False, "properties": properties}
    return {"description": about, "anyOf": [listed, whole]}


def _operators() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in OPERATORS.targets():
        if name == "rerank":
            continue
        action, dot, kind = name.partition(".")
        named = {"action": {"const": action}} | ({"type": {"const": kind}} if dot else {})
        found.append(_with_names(schema_of_settings(OPERATORS.load(name), WRITTEN), named))
    common = schema_of_settings(Rerank)["properties"]
    for name in RERANKERS.targets():
        schema = schema_of_settings(RERANKERS.load(name), WRITTEN)
        schema["properties"] = schema.get("properties", {}) | common
        named = {"action": {"const": "rerank"}, "type": {"const": name}}
        found.append(_with_names(schema, named))
    place = {"type": "string", "pattern": _OWN}
    own = {"type": "object"}
    found.append(_with_names(own, {"action": place}))
    found.append(_with_names(own, {"action": {"const": "rerank"}, "type": place}))
    return found


def _with_names(schema: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    properties = {**named, **schema.get("properties", {})}
    return {**schema, "properties": properties, "required": [*named, *schema.get("required", [])]}


def _choice(registry: Registry, *, required: bool, llm: bool = False) -> dict[str, Any]:
    """A name, or a mapping with a ``type`` and the settings of that implementation."""
    names = list(registry.targets())
    options: list[dict[str, Any]] = [
        {"enum": names},
        {"type": "string", "pattern": _OWN},
        _with_names({"type": "object"}, {"type": {"type": "string", "pattern": _OWN}}),
    ]
    for place, name in enumerate(names):
        schema = schema_of_settings(registry.load(name))
        if llm:
            schema["properties"] = schema.get("properties", {}) | {"llm": _llm()}
        schema = _with_names(schema, {"type": {"const": name}})
        if not required and not place:  # the first is what is meant when no type is given
            schema["required"].remove("type")
        options.append(schema)
    return {"anyOf": options}
