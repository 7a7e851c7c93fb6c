"""Files of data in YAML: a list of records, or a mapping that holds one."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.errors import DataError
from ragbench.io.json_files import questions_of, read_bytes, records_of, rows_of_columns
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import describe, is_list, is_object
from ragbench.io.yaml_file import YamlFile, parse_yaml_data


def load_yaml(source: Source, problems: Problems) -> YamlFile | None:
    """The value of a YAML file of cases, with the line of each part for later problems.

    None, and a problem, if the file cannot be read or is no YAML.
    """
    raw = read_bytes(source, problems)
    if raw is None:
        return None
    try:
        return parse_yaml_data(source.name, raw)
    except DataError as error:
        problems.note(*error.problems)
        return None


def read_yaml_records(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per record of a YAML file, with the line at which the record begins.

    ``formats.toml`` names this reader.

    The file is a list of records, a mapping with such a list, or a list per field.
    """
    file = load_yaml(source, problems)
    if file is None:
        return
    path: tuple[str, ...] = ()
    items: object = file.value
    if is_object(items):
        records = records_of(items, kind=kind, split=source.split, notes=source.notes)
        if records is not None:
            path, items = records
        elif questions_of(items):  # it is a record itself, or a list per field
            items = rows_of_columns(items, f"{source.name}: ") or [items]
    if not is_list(items):
        message = f"expected a list of {kind}, or a mapping with one, found {describe(items)}"
        problems.add(message, path=source.name)
        return
    for position, item in enumerate(items):
        line = file.lines.get((*path, position), 1)
        if is_object(item):
            yield Row(source.name, line, item)
        else:
            message = f"expected 'name: value' entries, found {describe(item)}"
            problems.add(message, path=source.name, line=line)
