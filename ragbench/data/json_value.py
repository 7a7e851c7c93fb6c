"""JSON text to values, with messages that a user can act on."""

from __future__ import annotations

import json

import orjson

from ragbench.data.problems import Problems
from ragbench.data.text import Line, decode_line
from ragbench.data.values import ValueProblem

__all__ = ["parse_json", "parse_line"]


def parse_json(raw: bytes) -> object:
    """Parses one JSON text. NaN, which Python writes for a missing value, is read as null.

    Raises:
        ValueProblem: it is not JSON; the message says where.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if b"NaN" not in raw and b"Infinity" not in raw:
            place = f"line {error.lineno} column {error.colno}" if error.lineno > 1 else ""
            where = place or f"column {error.colno}"
            raise ValueProblem(f"not valid JSON at {where}: {error.msg}") from error
    return _parse_with_nan(raw)


def parse_line(line: Line, path: str, problems: Problems) -> object | None:
    """Parses one line of JSON; None, and a problem, when it is none."""
    try:
        return parse_json(line.raw)
    except ValueProblem as problem:
        message = str(problem)
    if decode_line(line, path, problems) is None:
        return None
    if b"\x00" in line.raw:
        message = "the line holds NUL bytes: the file is damaged, or UTF-16 without a mark"
    elif not line.raw.endswith(b"\n"):
        message = f"the last line is cut off or is {message}"
    problems.add(message, path=path, line=line.number)
    return None


def _parse_with_nan(raw: bytes) -> object:
    try:
        value: object = json.loads(raw, parse_constant=_parse_constant)
        # The standard library lets lone surrogates and endless integers through: this does not.
        return orjson.loads(orjson.dumps(value))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueProblem(f"not valid JSON: {error}") from error


def _parse_constant(name: str) -> None:
    if name != "NaN":
        raise ValueError(f"{name} is no JSON number")
