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
from ragbench.data.values import describe

__all__ = ["read"]


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a line; blank lines are skipped. Memory holds one line."""
    path = source.name
    for line in read_lines(source, problems):
        value: object
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
            message = f"expected a JSON object, found {describe(value)}"
            if line.raw.lstrip().startswith(b"["):
                message += " (for one JSON array, name the format json)"
            problems.add(message, path=path, line=line.number)
