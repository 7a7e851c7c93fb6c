"""A field inside of nested values, named as ``payload.metadata.source``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import orjson

from ragbench.data.dumps.form import is_list, is_object

__all__ = ["Getter", "getter", "text_paths"]

Getter = Callable[[object], object]
"""What stands at a place in a value; None where there is nothing."""

_DEEPEST = 4


def getter(path: str) -> Getter:
    """The function that finds what stands at a path.

    A key that holds dots itself is tried first; a number is a place in a list; a text that is JSON
    is looked into (stores that keep only flat values write objects so). The empty path is the
    value itself.
    """
    if not path:
        return lambda value: value
    if "." not in path:
        return lambda value: value.get(path) if is_object(value) else None

    def find(value: object) -> object:
        if is_object(value) and path in value:
            return value[path]
        for part in path.split("."):
            value = _step(value, part)
            if value is None:
                return None
        return value

    return find


def _step(value: object, part: str) -> object:
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    if is_object(value):
        return value.get(part)
    if is_list(value) and part.isdecimal() and int(part) < len(value):
        return value[int(part)]
    return None


def text_paths(value: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every text in nested objects, with its path."""
    if not is_object(value) or prefix.count(".") >= _DEEPEST:
        return
    for key, item in value.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(item, str):
            yield path, item
        else:
            yield from text_paths(item, path)
