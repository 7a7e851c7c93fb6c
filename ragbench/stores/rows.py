"""Rows as chunks, and what was repaired."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, time
from decimal import Decimal
from enum import StrEnum
from typing import Any, cast

from ragbench.core.chunk import Chunk
from ragbench.io.dumps.form import Getter, getter
from ragbench.io.values import MAX_DEPTH, ValueProblem, as_id, is_missing, is_object
from ragbench.safe_text import shortened_line
from ragbench.stores.base import Row
from ragbench.stores.mapping import METADATA_NAMES, FieldMapping

_LEAST, _GREATEST = -(2**63), 2**64 - 1


def json_value(value: object, depth: int = 0) -> Any:
    """A value that any writer of JSON takes.

    Dates become ISO 8601 texts, decimals floats, NaN and infinity null, bytes hexadecimal digits,
    whole numbers of more than 64 bits and what JSON has no word for texts.
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


class _Trouble(StrEnum):
    """What a row can lack."""

    TEXT = "no text under '{text}': kept with an empty one"
    ID = "no id under '{id}': the store's own id is used"
    DOCUMENT_ID = "what is not a document id under '{document_id}': skipped"
    DUPLICATE = "an id that a better row of the same result has: a number was added"
    METADATA = "metadata nested too deep to be written: skipped"


@dataclass(slots=True)
class AttachedRows:
    """Makes chunks of rows, and remembers which rows something was wrong with."""

    mapping: FieldMapping
    """Complete: it names the text."""
    _places: dict[str, tuple[str, ...]] = field(init=False)
    _getters: dict[str, Getter] = field(init=False)
    _troubled: dict[_Trouble, dict[str, None]] = field(init=False)

    def __post_init__(self) -> None:
        self._places = self.mapping.places()
        self._getters = {
            name: getter(path) for name, (path, *_) in self._places.items() if name != "metadata"
        }
        self._troubled = {}

    def chunks(self, rows: Sequence[Row]) -> list[Chunk]:
        """The rows of one result, best first, each as a chunk with an id of its own."""
        used: set[str] = set()
        return [self._chunk(row, place, used) for place, row in enumerate(rows, start=1)]

    def warnings(self) -> list[str]:
        """What was wrong with how many rows so far, a line each."""
        named: dict[str, str | None] = asdict(self.mapping)
        names = {name: shortened_line(path or "") for name, path in named.items()}
        return [
            counted(ids, trouble.value.format(**names)) for trouble, ids in self._troubled.items()
        ]

    def _chunk(self, row: Row, place: int, used: set[str]) -> Chunk:
        own = row.id or f"#{place}"
        text = self._value(row, "text")
        if not isinstance(text, str):
            self._note(_Trouble.TEXT, own)
            text = ""
        return Chunk(
            id=self._id(row, own, used),
            text=json_value(text),
            score=row.score,
            document_id=self._document_id(row, own),
            metadata=self._metadata(row, own),
        )

    def _id(self, row: Row, own: str, used: set[str]) -> str:
        found = own
        if self.mapping.id is not None:
            named = _identifier(self._value(row, "id"))
            if named is None:
                self._note(_Trouble.ID, own)
            found = named or own
        if found in used:
            self._note(_Trouble.DUPLICATE, found)
            number = 2
            while f"{found}#{number}" in used:
                number += 1
            found = f"{found}#{number}"
        used.add(found)
        return found

    def _document_id(self, row: Row, own: str) -> str | None:
        value = self._value(row, "document_id")
        found = _identifier(value)
        if found is None and not is_missing(value):
            self._note(_Trouble.DOCUMENT_ID, own)
        return found

    def _metadata(self, row: Row, own: str) -> dict[str, Any]:
        fields = row.fields
        for name, (path, *_) in self._places.items():
            if name != "metadata":
                fields = _without(fields, path)
        found: dict[str, object] = {}
        title = self._value(row, "title")
        if not is_missing(title):
            found["title"] = title
        wanted = self._places.get("metadata")
        for within, held in _all(fields) if wanted is None else _picked(fields, wanted):
            for name, value in held.items():
                _put(found, name, value, within)
        try:
            kept: dict[str, Any] = json_value(found)
            return kept
        except ValueProblem:
            self._note(_Trouble.METADATA, own)
            return {}

    def _value(self, row: Row, name: str) -> object:
        find = self._getters.get(name)
        return None if find is None else find(row.fields)

    def _note(self, trouble: _Trouble, id: str) -> None:
        self._troubled.setdefault(trouble, {})[id] = None


def counted(ids: Collection[str], what: str) -> str:
    """A warning: how many rows have what, and one of them."""
    rows = "1 row has" if len(ids) == 1 else f"{len(ids):,} rows have"
    return f"{rows} {what} (such as '{shortened_line(next(iter(ids)))}')"


def _identifier(value: object) -> str | None:
    if isinstance(value, Decimal):
        return str(value)
    try:
        found = as_id(json_value(value))
    except ValueProblem:
        return None
    return None if found.isspace() else found or None


def _without(fields: Mapping[str, object], path: str) -> Mapping[str, object]:
    if path in fields:
        return {name: value for name, value in fields.items() if name != path}
    name, dot, rest = path.partition(".")
    inner = fields.get(name)
    if not dot or inner is None:
        return fields
    if not is_object(inner):  # a JSON text that the path leads into
        return {key: value for key, value in fields.items() if key != name}
    return {**fields, name: _without(inner, rest)}


def _all(fields: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """All fields, then those of the usual objects; before each lot, where it is."""
    lifted = {name: inner for name in METADATA_NAMES if is_object(inner := fields.get(name))}
    yield "row", {name: value for name, value in fields.items() if name not in lifted}
    yield from lifted.items()


def _picked(
    fields: Mapping[str, object], paths: Iterable[str]
) -> Iterator[tuple[str, Mapping[str, object]]]:
    for path in paths:
        value = getter(path)(fields)
        within, _, name = path.rpartition(".")
        if is_object(value):
            yield path, value
        elif value is not None:
            yield within or "row", {name: value}


def _put(found: dict[str, object], name: str, value: object, within: str) -> None:
    """Keeps a value, where its name is taken under a longer one."""
    while name in found:
        name = f"{within}.{name}"
    found[name] = value
