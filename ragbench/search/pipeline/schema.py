"""The JSON schema of a pipeline file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragbench.io.settings import schema_of_settings
from ragbench.llm.settings import SETTING_NAMES
from ragbench.plugins import Registry
from ragbench.post.build import WRITTEN
from ragbench.post.schema import OWN_CLASS, STAGE_SETTINGS, operator_schemas, with_names
from ragbench.search.pipeline.documents import CHUNKERS, ChunkSize, IndexingSettings
from ragbench.search.pipeline.pre_retrieval import QUERY_TRANSFORMS
from ragbench.search.pipeline.stages import GENERATIONS, ORCHESTRATIONS, RETRIEVALS


def pipeline_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a pipeline file, for editors and checks before a run.

    Stages that other packages register are in it. The schema knows names, types and ranges; only
    `ragbench.search.pipeline.read.load_pipeline` checks whether stages go together.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ragbench pipeline",
        "description": "The six stages of a RAG.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "description": "How reports call it."},
            "llm": _llm_schema(),
            "indexing": _indexing_schema(),
            "pre_retrieval": _list_schema(
                "transforms",
                "Query transforms, in order.",
                _choice_schema(QUERY_TRANSFORMS, required=True, llm=True),
            ),
            "retrieval": _choice_schema(RETRIEVALS, required=False),
            "post_retrieval": _list_schema(
                "operators",
                "Operators, in order; see docs/post_retrieval.md.",
                {"anyOf": operator_schemas()},
                **STAGE_SETTINGS,
            ),
            "generation": _choice_schema(GENERATIONS, required=False, llm=True),
            "orchestration": _choice_schema(ORCHESTRATIONS, required=False),
        },
    }


def _llm_schema() -> dict[str, Any]:
    """The JSON Schema of a language model's settings.

    The schema knows the names of settings alone, as their values depend on the provider: so an
    editor marks an unknown name.
    """
    return {
        "type": "object",
        "description": "A language model; see docs/llm.md.",
        "additionalProperties": False,
        "properties": {name: {} for name in SETTING_NAMES},
    }


def _indexing_schema() -> dict[str, Any]:
    """The JSON Schema of the section ``indexing`` in a pipeline file.

    Chunkers are known by name; of an embedder any name is taken, as any hub's model may be one.
    The chunker and the embedder may each be written as a name, or as a mapping with settings.
    """
    schema = schema_of_settings(IndexingSettings)
    text = {"type": "string"}
    chunker_names = [{"enum": list(CHUNKERS.targets())}, {"type": "string", "pattern": OWN_CLASS}]
    chunker_settings = schema_of_settings(ChunkSize, WRITTEN)["properties"]
    properties = schema["properties"]
    properties["chunker"] |= _named_or_null_schema(chunker_names, chunker_settings)
    # An embedder's settings are not known: any hub's model may be named.
    properties["embedder"] |= _named_or_null_schema([text], {})
    return schema


def _named_or_null_schema(names: list[Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a part with a name: the name, a mapping with settings, or null.

    Args:
        names: schemas of the names.
        settings: schemas of the settings by name.
    """
    mapping = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, **settings},
    }
    return {"anyOf": [*names, mapping, {"type": "null"}]}


def _list_schema(key: str, about: str, items: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """The JSON Schema of a stage with several steps: a list, or a mapping that holds the list.

    Args:
        key: of the list in the mapping.
        about: the description that editors show.
        items: the schema of a step.
        settings: schemas of the other settings by name.
    """
    listed = {"type": "array", "items": items}
    properties = {key: listed, "on_error": {"enum": ["keep", "raise"]}, **settings}
    whole = {"type": "object", "additionalProperties": False, "properties": properties}
    return {"description": about, "anyOf": [listed, whole]}


def _choice_schema(registry: Registry, *, required: bool, llm: bool = False) -> dict[str, Any]:
    """The JSON Schema of a stage: a name, or a mapping with ``type`` and its settings.

    A user's own class may be named, too.

    Args:
        registry: the implementations of the stage by name.
        required: whether the mapping needs ``type``; else the first implementation is meant.
        llm: whether the stage may have a language model of its own.
    """
    names = list(registry.targets())
    options: list[dict[str, Any]] = [
        {"enum": names},
        {"type": "string", "pattern": OWN_CLASS},
        with_names({"type": "object"}, {"type": {"type": "string", "pattern": OWN_CLASS}}),
    ]
    for position, name in enumerate(names):
        schema = schema_of_settings(registry.load(name))
        if llm:
            schema["properties"] = schema.get("properties", {}) | {"llm": _llm_schema()}
        schema = with_names(schema, {"type": {"const": name}})
        if not required and position == 0:  # the first is meant when no type is given
            schema["required"].remove("type")
        options.append(schema)
    return {"anyOf": options}
