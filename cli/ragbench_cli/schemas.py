"""JSON schemas of the YAML files that users write: editors complete and check by them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any


def _pipeline_schema() -> dict[str, Any]:
    """The JSON schema of a pipeline file, by which editors complete and check what users write.

    It is made of the code of the stages, so that it fits this version.
    """
    from ragbench.search.pipeline.schema import pipeline_schema

    return pipeline_schema()


def _post_retrieval_schema() -> dict[str, Any]:
    """The JSON schema of a file of operators, by which editors check what users write.

    It is made of the code of the operators, so that it fits this version.
    """
    from ragbench.post.schema import post_retrieval_schema

    return post_retrieval_schema()


def _ragbench_schema() -> dict[str, Any]:
    """The JSON schema of ``ragbench.yaml``, by which editors complete and check what users write.

    It allows further keys: a newer version may have more sections.
    """
    from ragbench.gate.schema import gate_schema
    from ragbench.llm.settings import SETTING_NAMES

    # The values of a model's settings depend on its provider.
    model_settings: dict[str, Any] = {name: {} for name in SETTING_NAMES}
    model: dict[str, Any] = {"type": "object", "properties": model_settings}
    # A list of "target=source" texts or an object: both are read.
    mapping = {"type": ["object", "array"], "items": {"type": "string"}}
    service = {"url": {"type": "string"}, "send": mapping, "take": mapping, "headers": mapping}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ragbench.yaml",
        "type": "object",
        "properties": {
            "gate": {**gate_schema(), "description": "Which runs may pass."},
            "llm": {**model, "description": "The language model; see docs/llm.md."},
            "embeddings": {**model, "description": "The model for embeddings."},
            "rag": {
                "description": "Your service over HTTP, in place of --rag.",
                "anyOf": [{"type": "string"}, {"type": "object", "properties": service}],
            },
            "judge": {"description": "The model that judges whether answers are right."},
            "rubrics": {
                "description": "Criteria in words, by name.",
                "type": "object",
            },
        },
    }


SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "post_retrieval": _post_retrieval_schema,
    "pipeline": _pipeline_schema,
    "ragbench": _ragbench_schema,
}
"""The schema of each kind of file, by the name of the file that ``ragbench init`` writes."""


def schema_path(name: str) -> str:
    """The path of a schema that ``ragbench init`` writes, from the folder of the YAML file.

    YAML files of users name it in their first line: another path breaks their editors' help.
    """
    return f"schemas/{name}.schema.json"


def schema_line(name: str) -> str:
    """The first line of a YAML file: it names the schema to editors with a YAML language server.

    Such servers know this comment; its form is theirs.
    """
    return f"# yaml-language-server: $schema={schema_path(name)}\n"


def schema_bytes(name: str) -> bytes:
    """The JSON schema of a kind of YAML file, as ``ragbench init`` writes it to its file.

    Indented, since users commit it with their project.
    """
    return (json.dumps(SCHEMAS[name](), indent=2) + "\n").encode()
