"""What a user's mapping means: other names of fields, and columns with a retrieved text each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.fields import HIT_FIELDS, document_fields, entry_fields, squash, targets
from ragbench.io.json_text import json_text
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import is_missing

RowsOf = Callable[..., Iterable[Row]]

_A_TEXT_EACH = re.compile(r"(?:context|chunk)_(\d{1,4})")
_CONTEXTS = "retrieved_contexts"


class Overrides(Record):
    """A mapping with the first names of fields."""

    fields: Mapping[str, str]
    columns: tuple[tuple[str, str], ...] = ()
    """The mappings of ``context_1``, ``context_2`` ..., by number: the columns of the source hold a
    retrieved text each."""

    @property
    def joined(self) -> str:
        """The name of the field that the columns become."""
        return " + ".join(column for _, column in self.columns)


def meant_fields(kind: Kind, given: Mapping[str, str]) -> Overrides:
    """Takes every documented name of a field: ``relevant_ids`` is ``reference_context_ids``.

    Raises:
        ConfigError: two names of one field.
    """
    names = {**entry_fields(), **HIT_FIELDS} if kind == "cases" else document_fields()
    fields: dict[str, str] = {}
    said: dict[str, str] = {}
    numbered: list[tuple[int, str, str]] = []
    for name, source in given.items():
        match = _A_TEXT_EACH.fullmatch(name) if kind == "cases" else None
        if match is not None and source:
            numbered.append((int(match[1]), name, source))
            continue
        field = name if name in names else targets(kind).get(squash(name), name)
        if field in fields:
            raise ConfigError(f"'{said[field]}' and '{name}' both map the field '{field}'")
        fields[field] = source
        said[field] = name
    columns = tuple((name, source) for _, name, source in sorted(numbered))
    overrides = Overrides(fields=fields, columns=columns)
    if not columns:
        return overrides
    if _CONTEXTS in fields:
        raise ConfigError(f"'{said[_CONTEXTS]}' and '{columns[0][0]}' both map the '{_CONTEXTS}'")
    return Overrides(fields={**fields, _CONTEXTS: overrides.joined}, columns=columns)


def joined_rows(
    overrides: Overrides, reader: RowsOf, source: Source, *, problems: Problems
) -> Iterator[Row]:
    """Rows whose columns with a retrieved text each are one list. Empty cells are left out."""
    unseen = dict(overrides.columns)
    count = 0
    for row in reader(source, problems=problems):
        count += 1
        values = dict(row.values)
        texts: list[object] = []
        for name, column in overrides.columns:
            if column in values:
                unseen.pop(name, None)
                text = values.pop(column)
                if not is_missing(text):
                    texts.append(text)
        values[overrides.joined] = json_text(texts) if row.cells else texts
        yield row._replace(values=values)
    for name, column in unseen.items() if count else ():
        message = f"no record has the field that the mapping {name}={column} names"
        problems.add(message, path=source.name, field=column)
