"""Rows of a collection as chunks, and what had to be mended for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from ragbench.data.dumps.paths import Getter, getter
from ragbench.data.values import ValueProblem, as_id, is_missing, is_object
from ragbench.records.corpus import Chunk
from ragbench.stores.foreign.engine import ForeignRow
from ragbench.stores.foreign.guess import METADATA_NAMES
from ragbench.stores.foreign.json_value import json_value
from ragbench.stores.foreign.mapping import FieldMapping

__all__ = ["RowReader", "told"]

_LONGEST = 60


class _Trouble(StrEnum):
    """What a row can lack."""

    TEXT = "no text under '{text}': kept with an empty one"
    ID = "no id under '{id}': the store's own stands for it"
    DOCUMENT_ID = "what is no document id under '{document_id}': left out"
    DUPLICATE = "an id that a better row of the same result has: a number was added"
    METADATA = "metadata nested too deep to be written: left out"


@dataclass(slots=True)
class RowReader:
    """Makes chunks of rows, and remembers which rows something was wrong with."""

    mapping: FieldMapping
    """Complete: it names the text."""
    _getters: dict[str, Getter] = field(init=False)
    _troubled: dict[_Trouble, dict[str, None]] = field(init=False)

    def __post_init__(self) -> None:
        """Looks up how each field is found."""
        places = self.mapping.places()
        self._getters = {
            name: getter(paths[0]) for name, paths in places.items() if name != "metadata"
        }
        self._troubled = {}

    def chunks(self, rows: Sequence[ForeignRow]) -> list[Chunk]:
        """The rows of one result, best first, each as a chunk with an id of its own."""
        used: set[str] = set()
        return [self._chunk(row, place, used) for place, row in enumerate(rows, start=1)]

    def warnings(self) -> list[str]:
        """What was wrong with how many rows so far, a line each."""
        names = asdict(self.mapping)
        found: list[str] = []
        for trouble, ids in self._troubled.items():
            rows = "1 row has" if len(ids) == 1 else f"{len(ids):,} rows have"
            found.append(told(f"{rows} {trouble.value.format(**names)}", next(iter(ids))))
        return found

    def _chunk(self, row: ForeignRow, place: int, used: set[str]) -> Chunk:
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

    def _id(self, row: ForeignRow, own: str, used: set[str]) -> str:
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

    def _document_id(self, row: ForeignRow, own: str) -> str | None:
        value = self._value(row, "document_id")
        found = _identifier(value)
        if found is None and not is_missing(value):
            self._note(_Trouble.DOCUMENT_ID, own)
        return found

    def _metadata(self, row: ForeignRow, own: str) -> dict[str, Any]:
        places = self.mapping.places()
        fields = row.fields
        for name, (path, *_) in places.items():
            if name != "metadata":
                fields = _without(fields, path)
        wanted = places.get("metadata")
        found = _all(fields) if wanted is None else _picked(fields, wanted)
        title = self._value(row, "title")
        if not is_missing(title):
            found["title"] = title
        try:
            kept: dict[str, Any] = json_value(found)
            return kept
        except ValueProblem:
            self._note(_Trouble.METADATA, own)
            return {}

    def _value(self, row: ForeignRow, name: str) -> object:
        find = self._getters.get(name)
        return None if find is None else find(row.fields)

    def _note(self, trouble: _Trouble, id: str) -> None:
        self._troubled.setdefault(trouble, {})[id] = None


def told(what: str, example: str) -> str:
    """A warning of rows with the id of one of them, in one line whatever the id holds."""
    shown = example if len(example) <= _LONGEST else f"{example[:_LONGEST]}..."
    return "".join(at if at.isprintable() else "?" for at in f"{what} (such as '{shown}')")


def _identifier(value: object) -> str | None:
    """An id as text; None for what is none."""
    try:
        return as_id(json_value(value)).strip() or None
    except ValueProblem:
        return None


def _without(fields: Mapping[str, object], path: str) -> Mapping[str, object]:
    """The fields but for what stands at a path."""
    if path in fields:
        return {name: value for name, value in fields.items() if name != path}
    name, dot, rest = path.partition(".")
    inner = fields.get(name)
    if not dot or inner is None:
        return fields
    if not is_object(inner):  # a JSON text that the path leads into
        return {key: value for key, value in fields.items() if key != name}
    return {**fields, name: _without(inner, rest)}


def _all(fields: Mapping[str, object]) -> dict[str, object]:
    """All fields; those of the usual objects beside the others."""
    found: dict[str, object] = {}
    lifted = [name for name in METADATA_NAMES if is_object(fields.get(name))]
    found.update((name, value) for name, value in fields.items() if name not in lifted)
    for name in lifted:
        inner = fields[name]
        for key, value in inner.items() if is_object(inner) else ():
            found[f"{name}.{key}" if key in found else key] = value
    return found


def _picked(fields: Mapping[str, object], paths: Iterable[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in paths:
        value = getter(path)(fields)
        if is_object(value):
            found.update(value)
        elif value is not None:
            found[path.rpartition(".")[2]] = value
    return found
