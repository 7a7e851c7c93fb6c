"""Arrow values to JSON values, for formats that keep their data in Arrow tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, cast

__all__ = ["json_rows"]

_PLAIN = frozenset({str, int, bool, type(None)})
_DROPPED = object()


def json_rows(batch: Any) -> Iterator[dict[str, object]]:
    """The rows of an Arrow table or record batch as JSON objects.

    Dates become ISO 8601 text, decimals text, NaN null. Binary values (images, sound) are left
    out: no JSON can hold them.
    """
    for row in cast("Iterable[dict[str, object]]", batch.to_pylist()):
        yield cast("dict[str, object]", _json_value(row))


def _json_value(value: object) -> object:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        pairs = ((str(k), _json_value(v)) for k, v in cast("dict[object, object]", value).items())
        return {key: item for key, item in pairs if item is not _DROPPED}
    if isinstance(value, (list, tuple)):
        items = map(_json_value, cast("list[object]", value))
        return [item for item in items if item is not _DROPPED]
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else _DROPPED
