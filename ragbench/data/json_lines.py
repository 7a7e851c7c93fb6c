"""JSON Lines: one object a line, plain or gzip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import orjson

from ragbench.data.json_value import parse_line
from ragbench.data.problems import Problems
from ragbench.data.rows import Kind, Row
from ragbench.data.source import Source
from ragbench.data.text import read_lines

__all__ = ["read"]


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a line; blank lines are skipped. Memory holds one line."""
    path = source.name
    for line in read_lines(source, problems):
        try:
            value = orjson.loads(line.raw)
        except orjson.JSONDecodeError:
            if not line.raw.strip():
                continue
            known = len(problems)
            value = parse_line(line, path, problems)
            if len(problems) > known:
                continue
        if type(value) is dict:
            yield Row(path, line.number, cast("Mapping[str, object]", value))
        else:
            found = "a list: is it one JSON array? Then name the format json"
            found = found if isinstance(value, list) else f"{type(value).__name__} instead"
            problems.add(f"expected a JSON object, found {found}", path=path, line=line.number)
