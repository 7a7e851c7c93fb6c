"""The records of a dump, whatever container."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from ragbench.io.detect import detect_container
from ragbench.io.dumps.form import TEXT_NAMES, DumpRecord, is_list, is_object
from ragbench.io.dumps.forms import forms
from ragbench.io.fields import readers
from ragbench.io.json_files import (
    array_elements,
    array_key,
    head_elements,
    is_unambiguous,
    object_keys,
    parse_json,
    read_line_values,
)
from ragbench.io.lines import read_bytes
from ragbench.io.source import Problems, Source
from ragbench.io.values import ValueProblem, parse_cell

_BLOCK = 1 << 20


def count_lines(path: str | Path) -> int | None:
    """The lines of a JSONL file: about its queries, for a progress bar.

    None for standard input, other containers, and what cannot be read.
    """
    file = Path(path)
    if file.suffix.lower() not in (".jsonl", ".ndjson"):
        return None
    try:
        with file.open("rb") as stream:
            lines, last = 0, b"\n"
            while block := stream.read(_BLOCK):
                lines += block.count(b"\n")
                last = block[-1:]
            return lines + (last != b"\n")
    except OSError:
        return None


_ARRAY_KEYS = (
    *("result", "responses", "data", "samples", "queries", "records", "results", "cases"),
    *("examples", "dump", "retrievals", "rows"),
)
"""Where a JSON object keeps an array of records."""
_TEXT_COLUMNS = {*TEXT_NAMES, "query", "question", "user_input", "answer", "response"} - {"context"}
_QUERY_KEYS = frozenset({"query", "question", "user_input", "input"})
_CONTAINERS = {"squad": "json", "run-file": "run"}
"""What a dump's file is called where cases have a name of their own for it."""


def container_of(source: Source, problems: Problems) -> str | None:
    """What a dump's file is: jsonl, json, csv, tsv, xlsx, parquet, or run for TREC's columns."""
    if source.is_folder:
        message = "expected a file with retrieval results, found a folder"
        problems.add(message, path=source.name)
        return None
    found = detect_container(source, "cases", problems)
    return None if found is None else _CONTAINERS.get(found, found)


def read_records(source: Source, container: str, problems: Problems) -> Iterator[DumpRecord]:
    """Yields the records of a file; what is not a record is noted, and the others follow."""
    if container == "jsonl":
        for line, value in read_line_values(source, problems):
            yield DumpRecord(source.name, line.number, value)
    elif container == "json":
        yield from _json(source, problems)
    else:
        for row in readers().load(container)(source, kind="cases", problems=problems):
            values = {n: _spelled(n, v) for n, v in row.values.items()} if row.cells else row.values
            yield DumpRecord(row.path, row.line, values)


def _json(source: Source, problems: Problems) -> Iterator[DumpRecord]:
    """The elements of the file's array; the whole file when it is one response."""
    head = (source.head(problems) or b"").removeprefix(b"\xef\xbb\xbf").lstrip()
    keys = object_keys(head)
    # An object with a query of its own is one record, whatever else it holds.
    key = array_key(head, _ARRAY_KEYS) if _QUERY_KEYS.isdisjoint(keys) else None
    if (key is None and keys) or _is_one_response(head, key):
        raw = read_bytes(source, problems)
        yield from () if raw is None else _parsed(raw, source.name, 1, problems)
        return
    was_list = False
    for element in array_elements(source, key, problems):
        for record in _parsed(element.raw, source.name, element.line, problems):
            # Behind the points of a client's scroll stands the offset of the next page.
            if is_object(record.value) or is_list(record.value) or not was_list:
                yield record
            was_list = is_list(record.value)


def _parsed(raw: bytes, path: str, line: int, problems: Problems) -> Sequence[DumpRecord]:
    try:
        value = parse_json(raw)
    except ValueProblem as problem:
        problems.add(str(problem), path=path, line=line)
        return ()
    if not is_unambiguous(raw, value, path, line, problems):
        return ()
    return (DumpRecord(path, line, value),)


def _is_one_response(head: bytes, key: str | None) -> bool:
    """Whether the array's elements are hits of one query, rather than records of their own."""
    first = next(head_elements(head, key), None)
    if first is None:
        return False
    if first.raw.startswith(b'"'):
        return True  # texts alone
    try:
        value: object = orjson.loads(first.raw)
    except orjson.JSONDecodeError:
        return False
    if is_object(value) and not _QUERY_KEYS.isdisjoint(value):
        return False
    if is_list(value):  # a document in a pair with its score, or else the hits of a query
        return len(value) == 2 and is_object(value[0]) and isinstance(value[1], (int, float))
    has_score = is_object(value) and not {"score", "distance", "_score"}.isdisjoint(value)
    return has_score or any(form.is_bare and form.is_hit(value) for form in forms().values())


def _spelled(name: str, cell: object) -> object:
    """A table's cell as a JSON value: what is spelled as a list or an object becomes one."""
    if not isinstance(cell, str) or name.lower() in _TEXT_COLUMNS:
        return cell
    text = cell.strip()
    target = {"[]": "reference_contexts", "{}": "metadata"}.get(text[:1] + text[-1:])
    if not text or target is None:
        return cell if text else None
    try:
        return parse_cell(target, text)
    except ValueProblem:
        return cell
