"""Where in a collection's rows what is: guessed from some of them, checked against them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

from ragbench.data.dumps.paths import getter, text_paths
from ragbench.data.dumps.plain import TEXT_NAMES
from ragbench.data.values import is_object
from ragbench.errors import ConfigError
from ragbench.stores.foreign.engine import ForeignRow
from ragbench.stores.foreign.mapping import FieldMapping
from ragbench.stores.foreign.one_line import listed, one_line

__all__ = ["METADATA_NAMES", "Completed", "complete_mapping"]

METADATA_NAMES = ("metadata", "meta", "metadata_", "cmetadata", "langchain_metadata", "payload")
"""What programs call the object with a row's metadata."""
_TEXTS = (*TEXT_NAMES, "_node_content.text")
_DOCUMENT_IDS = ("document_id", "ref_doc_id", "doc_id", "source_id")
_NONE = "no fields at all"


class Completed(NamedTuple):
    """A mapping that names the text, and what whoever uses it should know."""

    mapping: FieldMapping
    guessed: tuple[str, ...]
    """Of which names the fields were guessed."""
    absent: tuple[str, ...]
    """What is named, such as ``title=heading``, and stands in no row that was looked at."""


def complete_mapping(name: str, given: FieldMapping, rows: Sequence[ForeignRow]) -> Completed:
    """The mapping with what can be guessed.

    Args:
        name: the collection's, for messages.
        given: what the user says.
        rows: some rows; at least one.

    Raises:
        ConfigError: no row has the text or the id that the user names, or nothing looks like the
            text. Other fields may be those of a few rows.
    """
    absent: list[str] = []
    for what, paths in given.places().items():
        for path in paths:
            if all(getter(path)(row.fields) is None for row in rows):
                absent.append(f"{what}={path}")
                if what in ("text", "id"):
                    raise _no_such_field(name, what, path, rows)
    taken = {given.text, given.id, given.title}
    found = replace(
        given,
        text=given.text or _text(name, rows),
        document_id=given.document_id or _document_id(rows, taken),
    )
    changed = (at for at in ("text", "document_id") if getattr(found, at) != getattr(given, at))
    return Completed(found, tuple(changed), tuple(absent))


def _no_such_field(name: str, what: str, path: str, rows: Sequence[ForeignRow]) -> ConfigError:
    known = _known(rows)
    close = get_close_matches(path, known, n=1)
    meant = f" Did you mean '{one_line(close[0])}'?" if close else ""
    return ConfigError(
        f"--map {what}={path}: no row that was looked at in '{name}' has such a field.{meant} "
        f"There are: {listed(known) or _NONE}"
    )


def _text(name: str, rows: Sequence[ForeignRow]) -> str:
    """The usual name under which most rows have a text, rather in the row than in an object."""
    paths = [f"{prefix}{at}" for prefix in _prefixes(rows) for at in _TEXTS]
    best = max(paths, key=lambda path: _with_text(path, rows))
    if _with_text(best, rows):
        return best
    raise ConfigError(
        f"no field of the collection '{name}' is known to hold the text: name it with "
        f"--map text=FIELD. There are: {listed(_known(rows)) or _NONE}"
    )


def _prefixes(rows: Sequence[ForeignRow]) -> list[str]:
    """Where fields may be: in the row itself, and in the objects with metadata that it has."""
    objects = [at for at in METADATA_NAMES if any(is_object(row.fields.get(at)) for row in rows)]
    return ["", *(f"{at}." for at in objects)]


def _with_text(path: str, rows: Sequence[ForeignRow]) -> int:
    find = getter(path)
    values = [find(row.fields) for row in rows]
    return sum(isinstance(value, str) and bool(value.strip()) for value in values)


def _document_id(rows: Sequence[ForeignRow], taken: set[str | None]) -> str | None:
    for prefix in _prefixes(rows):
        for path in (f"{prefix}{at}" for at in _DOCUMENT_IDS):
            find = getter(path)
            if path not in taken and any(_names(find(row.fields)) for row in rows):
                return path
    return None


def _names(value: object) -> bool:
    # LlamaIndex writes the word for what is not there.
    return (isinstance(value, str) and value not in ("", "None")) or type(value) is int


def _known(rows: Sequence[ForeignRow]) -> list[str]:
    """All fields, and the texts within them."""
    found: dict[str, None] = {}
    for row in rows:
        found.update(dict.fromkeys(row.fields))
        found.update(dict.fromkeys(path for path, _ in text_paths(row.fields)))
    return list(found)
