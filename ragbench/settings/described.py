"""Settings as plain values: what distinguishes one configured thing from another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any, cast

from ragbench.interface.identity import describe_class
from ragbench.interface.masking import MASK, is_secret, mask_text

__all__ = ["described"]


def described(value: object) -> Any:
    """A value as JSON knows it.

    Credentials are masked. Records become mappings of their type and their public fields. Of
    anything else (a model, a service) its type, and its name and its identity where it has them,
    are all that can be known. A class of a user's has a digest of its source, too.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {str(key): _setting(str(key), item) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [described(item) for item in cast("list[Any]", value)]
    return _told(value)


def _told(value: object) -> dict[str, Any]:
    kind = type(value)
    told: dict[str, Any] = {"type": f"{kind.__module__}.{kind.__qualname__}"}
    name = getattr(value, "name", None)
    if isinstance(name, str):
        told["name"] = name
    if kind.__module__.partition(".")[0] != "ragbench":
        told["sources"] = describe_class(kind)["sources"]
    identity = getattr(value, "identity", None)
    if isinstance(identity, Mapping):
        told["identity"] = described(cast("Mapping[Any, Any]", identity))
    if is_dataclass(value):
        for field in fields(value):
            if field.metadata.get("setting", True) and not field.name.startswith("_"):
                told[field.name] = _setting(field.name, getattr(value, field.name))
    return told


def _setting(name: str, value: object) -> Any:
    if is_secret(name) and isinstance(value, str):
        return MASK
    return described(value)
