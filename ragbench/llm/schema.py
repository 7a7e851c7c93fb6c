"""The structure that an answer must have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from ragbench.errors import LLMReplyError
from ragbench.extras import require
from ragbench.llm.json_text import json_values

__all__ = ["Schema", "read_structure", "schema_of"]

T_co = TypeVar("T_co", covariant=True)
ValueT = TypeVar("ValueT")
_SHOWN = 600


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema(Generic[T_co]):
    """A JSON schema, and what makes a checked value of JSON."""

    definition: Mapping[str, Any]
    """The JSON schema. Part of the cache key: equal schemas share answers."""
    check: Callable[[object], T_co]
    """Gives the value for parsed JSON, or raises `ValueError` saying what is wrong."""


def schema_of(kind: type[ValueT]) -> Schema[ValueT]:
    """The schema of a dataclass, a `TypedDict`, a pydantic model or any type that pydantic knows.

    Every field is asked for, also those with a default, and objects are closed: servers that hold
    a model to a schema demand both.

    Args:
        kind: the type.

    Raises:
        MissingExtraError: pydantic is not installed.
    """
    pydantic = require("pydantic", extra="llm")
    adapter: Any = pydantic.TypeAdapter(kind)
    definition = cast("dict[str, Any]", _closed(adapter.json_schema()))
    definition.setdefault("title", kind.__name__)

    def check(value: object) -> ValueT:
        try:
            return cast("ValueT", adapter.validate_python(value))
        except pydantic.ValidationError as error:
            told = [f"{_place(item['loc'])}: {item['msg']}" for item in error.errors()[:5]]
            raise ValueError("; ".join(told)) from None

    return Schema(definition=definition, check=check)


def read_structure(text: str, schema: Schema[ValueT]) -> ValueT:
    """The value in what a model said.

    Args:
        text: what it said.
        schema: what it should have said.

    Raises:
        LLMReplyError: there is no JSON in it, or none that fits; tells what is wrong.
    """
    problem = "it holds no JSON"
    for position, candidate in enumerate(json_values(text)):
        try:
            return schema.check(candidate)
        except ValueError as error:
            if position == 0:
                problem = str(error)
    raise LLMReplyError(
        f"the model's answer is not as asked: {problem}: {_shown(text)}", reply=text
    )


def _place(location: tuple[object, ...]) -> str:
    return ".".join(str(part) for part in location) or "the value"


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return f"'{line[:_SHOWN]} ...'" if len(line) > _SHOWN else f"'{line}'"


def _closed(schema: object) -> object:
    """Objects allow no other fields and demand all of theirs; defaults are left out."""
    if isinstance(schema, list):
        return [_closed(item) for item in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    known = cast("dict[str, Any]", schema)
    found: dict[str, Any] = {}
    for key, value in known.items():
        if key in ("properties", "$defs"):  # their keys are names, not words of the schema
            found[key] = {name: _closed(inner) for name, inner in value.items()}
        elif key != "default":
            found[key] = _closed(value)
    if isinstance(found.get("properties"), dict):
        found["required"] = list(found["properties"])
        found.setdefault("additionalProperties", False)
    return found
