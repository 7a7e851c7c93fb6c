"""JSON: one array of objects, or an object that holds the array. Loads the whole file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from ragbench.data.json_value import parse_json
from ragbench.data.problems import Problems
from ragbench.data.rows import Kind, Row
from ragbench.data.source import Source
from ragbench.data.text import Line, decode_line, read_bytes
from ragbench.data.values import ValueProblem, describe

__all__ = ["load", "read"]

_ARRAY_KEYS: Mapping[Kind, tuple[str, ...]] = {
    "cases": ("cases", "data", "questions", "examples", "samples"),
    "documents": ("documents", "corpus", "passages", "data"),
}


def load(source: Source, problems: Problems) -> object | None:
    """The file's JSON value; None, and a problem, when it is not JSON."""
    raw = read_bytes(source, problems)
    if raw is None or not raw.strip():
        return None
    try:
        return parse_json(raw)
    except ValueProblem as problem:
        if decode_line(Line(1, 0, raw), source.name, problems) is not None:
            problems.add(str(problem), path=source.name)
    return None


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row an object of the array; the row's line is its place in the array."""
    known = len(problems)
    value = load(source, problems)
    if value is None and len(problems) > known:
        return
    path = source.name
    items = _array(value, kind)
    if items is None:
        if value is not None:
            keys = ", ".join(f"'{key}'" for key in _ARRAY_KEYS[kind])
            problems.add(f"expected a JSON array, or an object with one under {keys}", path=path)
        return
    for number, item in enumerate(items, start=1):
        if isinstance(item, dict):
            yield Row(path, number, cast("Mapping[str, object]", item))
        else:
            message = f"expected a JSON object, found {describe(item)}"
            problems.add(message, path=path, line=number)


def _array(value: object, kind: Kind) -> list[object] | None:
    if isinstance(value, dict):
        mapping = cast("dict[str, object]", value)
        arrays = [mapping[key] for key in _ARRAY_KEYS[kind] if isinstance(mapping.get(key), list)]
        value = arrays[0] if arrays else None
    return cast("list[object]", value) if isinstance(value, list) else None
