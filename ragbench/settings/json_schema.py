"""Settings as a JSON schema: what editors complete and check."""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

from ragbench.settings.field_docs import field_docs

__all__ = ["schema_of_settings", "summary_of"]

_KINDS: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def schema_of_settings(target: Any, special: Mapping[Any, Any] | None = None) -> dict[str, Any]:
    """The JSON schema of what `ragbench.settings.from_settings` builds a dataclass of.

    Args:
        target: the dataclass. Of anything else nothing is known: any mapping will do.
        special: schemas of types that a file writes in a way of its own.

    Returns:
        A schema of a closed object; descriptions are those that stand below the fields.
    """
    if not (isinstance(target, type) and dataclasses.is_dataclass(target)):
        return {"type": "object"}
    hints = typing.get_type_hints(target)
    told = field_docs(target)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in dataclasses.fields(target):
        if not field.init or field.metadata.get("given") or field.metadata.get("setting") is False:
            continue
        schema = _schema(hints[field.name], special or {})
        if schema is None:  # made of what no file can hold
            continue
        described: dict[str, Any] = {}
        if field.name in told:
            described["description"] = told[field.name]
        missing = dataclasses.MISSING
        if field.default is missing and field.default_factory is missing:
            required.append(field.name)
        elif isinstance(field.default, (bool, int, float, str)):
            described["default"] = field.default
        properties[field.name] = {**schema, **described}
    found: dict[str, Any] = {
        "type": "object",
        "description": summary_of(target),
        "properties": properties,
        "additionalProperties": False,
    }
    return {**found, "required": required} if required else found


def summary_of(target: object) -> str:
    """The first paragraph of what a class says of itself, in one line."""
    text = inspect.getdoc(target) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _schema(hint: Any, special: Mapping[Any, Any]) -> dict[str, Any] | None:
    if hint in special:
        return dict(special[hint])
    if hint in _KINDS:
        return {"type": _KINDS[hint]}
    if hint is type(None):
        return {"type": "null"}
    if hint is Any or hint is object:
        return {}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        options = [_schema(one, special) for one in arguments]
        known = [option for option in options if option is not None]
        return {"anyOf": known} if len(known) == len(options) else None
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is collections.abc.Sequence:
        items = _schema(arguments[0], special)
        return None if items is None else {"type": "array", "items": items}
    if origin is collections.abc.Mapping:
        return {"type": "object"}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return schema_of_settings(hint, special)
    return None
