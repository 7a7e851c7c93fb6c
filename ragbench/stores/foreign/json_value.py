"""Values of databases as JSON knows them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, cast

from ragbench.data.values import MAX_DEPTH, ValueProblem

__all__ = ["json_value"]

_LEAST, _GREATEST = -(2**63), 2**64 - 1


def json_value(value: object, depth: int = 0) -> Any:
    """A value that any writer of JSON takes.

    Dates become ISO 8601 texts, decimals floats, NaN and infinity null, bytes hexadecimal digits,
    whole numbers of more than 64 bits and what JSON has no word for texts.

    Args:
        value: what a database gave.
        depth: how deep in other values it stands.

    Raises:
        ValueProblem: it is nested too deep.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return value if _LEAST <= value <= _GREATEST else str(value)
    if isinstance(value, (float, Decimal)):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, (Mapping, list, tuple, set, frozenset)):
        return _nested(cast("Iterable[object]", value), depth + 1)
    return _text(str(value))


def _nested(value: Iterable[object], depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueProblem(f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {_text(str(key)): json_value(item, depth) for key, item in items}
    return [json_value(item, depth) for item in value]


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate, which no file can hold
        return value.encode("utf-8", "replace").decode()
    return value
