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

_JSON_TYPES = frozenset({str, int, bool, type(None)})


def json_bytes(value: object) -> bytes:
    r"""Compact JSON of a value in UTF-8, with keys in the order of their mappings.

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
    """Compact JSON of a value, as `json_bytes` writes it, as text: for a cell of a table.

    Tables and spreadsheets hold text only, so a list in a cell must be spelled.
    """
    return json_bytes(value).decode()


@contextmanager
def in_case(case: str) -> Generator[None, None, None]:
    """Puts the case's id before errors of writing in the block: a value does not know its case.

    A user finds by it which answer of the RAG holds the value that cannot be written.
    """
    try:
        yield
    except InputError as error:
        raise InputError(f"case '{case}': {error}") from error


def plain(value: object, place: str = "") -> Any:
    """A value in JSON's own types, so that any parser can read what a RAG returned.

    Args:
        value: mappings, sequences, sets (sorted), dataclasses, pydantic models, enums, dates, numpy
            values ...
        place: the value's path in its record, for errors, such as ``.metadata.scores[2]``.

    Raises:
        InputError: something in it has no JSON form; says where.
    """
    # Exact types first: nearly everything is one of these. An enum of strings is none of them.
    if type(value) in _JSON_TYPES:
        return value
    if isinstance(value, float):
        return _plain_number(float(value))
    if isinstance(value, Mapping):
        members: dict[str, Any] = {}
        for key, item in cast("Mapping[object, object]", value).items():
            if type(key) is str:
                name = key
            elif isinstance(key, Enum):
                name = str(key.value)
            else:
                name = str(key)
            members[name] = plain(item, f"{place}.{key}")
        return members
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[object]", value)
        if _JSON_TYPES.issuperset(map(type, items)):  # most are: nothing is built anew
            return items
        return [plain(item, f"{place}[{position}]") for position, item in enumerate(items)]
    return _plain_of_rare_type(value, place)


def _plain_number(number: float) -> float | str:
    """A float as JSON has it; ``"NaN"``, ``"Infinity"`` or ``"-Infinity"`` for one that JSON lacks.

    Exports and reports hold these words: as null, a broken score would look like a missing one.
    """
    if math.isfinite(number):
        return number
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def _plain_of_rare_type(value: object, place: str) -> Any:
    """A value of a rarer type in JSON's own types: an enum, a date, a decimal, a set, a record.

    A subtype comes before its base: an enum of texts is also a text, and a datetime a date.

    Args:
        place: the value's path in its record, for errors.
    """
    if isinstance(value, Enum):
        return plain(value.value, place)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (UUID, PurePath, Decimal)):
        return str(value)
    if isinstance(value, Set):
        members = [plain(item, place) for item in cast("Set[object]", value)]
        # A set has no order of its own: sorted, the same value gives the same bytes.
        return sorted(members, key=json.dumps)
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise _refusal("bytes", place)
    # Behind texts and bytes, which are sequences, too.
    if isinstance(value, Sequence):
        return plain(list(cast("Sequence[object]", value)), place)
    return _plain_of_record(value, place)


def _plain_of_record(value: object, place: str) -> Any:
    """A dataclass, a pydantic model or a numpy value in JSON's own types.

    The packages are not imported for it: a value is known by its methods.

    Args:
        place: the value's path in its record, for errors.
    """
    if isinstance(value, type):  # a class itself has the methods of its values
        raise _refusal(f"a {type(value).__name__}", place)
    if is_dataclass(value):
        members: dict[str, object] = {}
        for field in fields(value):
            members[field.name] = getattr(value, field.name)
        return plain(members, place)
    # Values of NumPy and pydantic are known by a method, so that neither package is imported.
    method_name = "tolist" if type(value).__module__ == "numpy" else "model_dump"
    method: object = getattr(value, method_name, None)
    if callable(method):
        return plain(method(), place)
    raise _refusal(f"a {type(value).__name__}", place)


def _refusal(kind: str, place: str) -> InputError:
    """The error of a value that has no JSON form, with its place in what the RAG returned.

    An image, for example: the user learns which part of the metadata to return in another form.
    """
    return InputError(
        f"'{place.lstrip('.') or 'value'}' holds {kind}, which has no JSON form; "
        "have the RAG return it as text, numbers, lists or mappings"
    )
