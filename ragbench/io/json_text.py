"""JSON text of anything that a trace may hold.

Numbers that JSON lacks are written as the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``
(as protobuf's JSON mapping does), so that they differ from null and every parser reads the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

import orjson

from ragbench.errors import InputError

_PLAIN = frozenset({str, int, bool, type(None)})


def json_bytes(value: object) -> bytes:
    r"""Compact JSON in UTF-8, keys in the order given.

    A text with lone surrogates, which UTF-8 cannot hold, comes out with ``\u`` escapes.

    Raises:
        InputError: something in it has no JSON form; says where.
    """
    tree = plain(value)
    try:
        return orjson.dumps(tree)
    except TypeError:
        # Lone surrogates, or whole numbers beyond 64 bits: both are well-formed JSON.
        return json.dumps(tree, allow_nan=False, separators=(",", ":")).encode("ascii")


def json_text(value: object) -> str:
    return json_bytes(value).decode()


@contextmanager
def in_case(case: str) -> Generator[None, None, None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"case '{case}': {error}") from error


def plain(value: object, where: str = "") -> Any:
    """A value in JSON's own types.

    Args:
        value: mappings, sequences, sets (sorted), dataclasses, pydantic models, enums, dates,
            numpy values ...
    """
    # Exact types first: nearly everything is one of these. An enum of strings is none of them.
    if type(value) in _PLAIN:
        return value
    if isinstance(value, float):
        number = float(value)
        special = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
        return number if math.isfinite(number) else special
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for key, item in cast("Mapping[object, object]", value).items():
            name = key if type(key) is str else str(key.value if isinstance(key, Enum) else key)
            found[name] = plain(item, f"{where}.{key}")
        return found
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[object]", value)
        if _PLAIN.issuperset(map(type, items)):
            return items
        return [plain(item, f"{where}[{position}]") for position, item in enumerate(items)]
    return _other(value, where)


def _other(value: object, where: str) -> Any:
    """The rarer types, in an order in which a subtype comes before its base."""
    if isinstance(value, Enum):
        return plain(value.value, where)
    if isinstance(value, (str, int)):
        return str(value) if isinstance(value, str) else int(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (UUID, PurePath, Decimal)):
        return str(value)
    if isinstance(value, Set):
        members = [plain(item, where) for item in cast("Set[object]", value)]
        return sorted(members, key=json.dumps)
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise _refusal("bytes", where)
    if isinstance(value, Sequence):
        return plain(list(cast("Sequence[object]", value)), where)
    return _record(value, where)


def _record(value: object, where: str) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in fields(value)}, where)
    # pydantic's models; numpy's arrays and scalars, without importing numpy.
    name = "tolist" if type(value).__module__ == "numpy" else "model_dump"
    dump: object = getattr(value, name, None)
    if callable(dump) and not isinstance(value, type):
        return plain(dump(), where)
    raise _refusal(f"a {type(value).__name__}", where)


def _refusal(kind: str, where: str) -> InputError:
    return InputError(
        f"'{where.lstrip('.') or 'value'}' holds {kind}, which has no JSON form; "
        "have the RAG return it as text, numbers, lists or mappings"
    )
