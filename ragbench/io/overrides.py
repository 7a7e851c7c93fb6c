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

_NUMBERED_CONTEXT = re.compile(r"(?:context|chunk)_(\d{1,4})")
_CONTEXTS = "retrieved_contexts"


class Overrides(Record):
    """A mapping with the first names of fields."""

    fields: Mapping[str, str]
    columns: tuple[tuple[str, str], ...] = ()
    """The mappings of ``context_1``, ``context_2`` ..., by number: the columns of the source hold a
    retrieved text each."""

    @property
    def joined(self) -> str:
        """The name of the list that numbered columns with a retrieved text each become.

        Reports show it as the source of the list, so it names the columns.
        """
        return " + ".join(column for _, column in self.columns)


def meant_fields(kind: Kind, mapping: Mapping[str, str]) -> Overrides:
    """A user's mapping of fields, with each field under its first name.

    Users may call a field by any of its names: ``relevant_ids`` becomes ``reference_context_ids``.
    Readers then look for one name only.

    Args:
        mapping: field of a case or a document, by any of its names, to the source's field.

    Raises:
        ConfigError: two names of one field.
    """
    names = {**entry_fields(), **HIT_FIELDS} if kind == "cases" else document_fields()
    fields: dict[str, str] = {}
    name_of_field: dict[str, str] = {}
    numbered_columns: list[tuple[int, str, str]] = []
    for name, source in mapping.items():
        match = _NUMBERED_CONTEXT.fullmatch(name)
        if kind == "cases" and match is not None and source:
            numbered_columns.append((int(match[1]), name, source))
            continue
        field = name
        # Another name of the field, in any spelling; an unknown one is refused by its reader.
        if name not in names:
            field = targets(kind).get(squash(name), name)
        if field in fields:
            raise ConfigError(f"'{name_of_field[field]}' and '{name}' both map the field '{field}'")
        fields[field] = source
        name_of_field[field] = name
    columns = tuple((name, source) for _, name, source in sorted(numbered_columns))
    overrides = Overrides(fields=fields, columns=columns)
    if not columns:
        return overrides
    if _CONTEXTS in fields:
        raise ConfigError(
            f"'{name_of_field[_CONTEXTS]}' and '{columns[0][0]}' both map the '{_CONTEXTS}'"
        )
    return Overrides(fields={**fields, _CONTEXTS: overrides.joined}, columns=columns)


def joined_rows(
    overrides: Overrides, reader: RowsOf, source: Source, *, problems: Problems
) -> Iterator[Row]:
    """Yields the rows of a reader, with the columns that hold a retrieved text each as one list.

    Tables often have ``context_1``, ``context_2`` and so on; metrics read one list. Empty cells are
    left out. A column that no row has is a problem.
    """
    missing_columns = dict(overrides.columns)
    records = 0
    for row in reader(source, problems=problems):
        records += 1
        values = dict(row.values)
        texts: list[object] = []
        for name, column in overrides.columns:
            if column not in values:
                continue
            missing_columns.pop(name, None)
            text = values.pop(column)
            if not is_missing(text):
                texts.append(text)
        # In a table, the list is spelled out like that of any other cell.
        values[overrides.joined] = json_text(texts) if row.cells else texts
        yield row._replace(values=values)
    if not records:  # of an empty source the problem is another one
        return
    for name, column in missing_columns.items():
        message = f"no record has the field that the mapping {name}={column} names"
        problems.add(message, path=source.name, field=column)
