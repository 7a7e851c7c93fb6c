"""The records of a dump, whatever container."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import orjson

from ragbench.io.dumps.form import TEXT_NAMES, DumpRecord, is_list, is_object
from ragbench.io.dumps.forms import FORMS
from ragbench.io.formats import READERS, is_workbook
from ragbench.io.json_files import is_unambiguous, parse_json, read_line_values
from ragbench.io.json_scan import array_elements, array_key, object_keys
from ragbench.io.lines import decode_head, read_bytes
from ragbench.io.source import HEAD_BYTES, Problems, Row, Source
from ragbench.io.values import ValueProblem, parse_cell

_BLOCK = 1 << 20
_SUFFIXES = (".jsonl", ".ndjson")


def count_lines(path: str | Path) -> int | None:
    """The lines of a JSONL file: about its queries, for a progress bar.

    None for standard input, other containers, and what cannot be read.
    """
    file = Path(path)
    if file.suffix.lower() not in _SUFFIXES:
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
_PARQUET_MAGIC = b"PAR1"


def container_of(source: Source, problems: Problems) -> str | None:
    """What a dump's file is: jsonl, json, csv, tsv, xlsx, parquet, or run for TREC's columns."""
    if source.is_folder:
        message = "expected a file with retrieval results, found a folder"
        problems.add(message, path=source.name)
        return None
    head = source.head(problems)
    if head is None:
        return None
    if (binary := _binary_container(head)) is not None:
        return binary
    if source.suffix in {".csv", ".tsv", ".parquet"}:
        return source.suffix[1:]
    text = decode_head(head, source.encoding).lstrip()
    if not text:
        problems.add("the file is empty: it holds no query", path=source.name)
        return None
    if text[0] in "{[":
        return "jsonl" if source.suffix in {".jsonl", ".ndjson"} else _json_container(text, source)
    columns = text.partition("\n")[0].split()
    if len(columns) == 6 and columns[1].upper() == "Q0":
        return "run"
    if source.suffix in {".jsonl", ".ndjson", ".json"}:
        return "jsonl"
    found = _table_container(text.partition("\n")[0])
    if found is None:
        message = (
            "not recognised: expected JSON, JSONL, CSV, TSV, Excel, Parquet or a TREC run "
            "(query Q0 document rank score tag)"
        )
        problems.add(message, path=source.name)
    return found


def _binary_container(head: bytes) -> str | None:
    if head.startswith(_PARQUET_MAGIC):
        return "parquet"
    return "xlsx" if is_workbook(head) else None


def _json_container(text: str, source: Source) -> str:
    first, newline, rest = text.partition("\n")
    try:
        orjson.loads(first)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        # Cut by the head, or pretty-printed; an object a line may still begin with a bad line.
        long = not newline and len(first) >= HEAD_BYTES // 4
        return "jsonl" if (long and first[0] == "{" and _looks_like_query(first)) else "json"
    if rest.strip():
        return "jsonl"
    # One line may be a record of JSONL as well: only where records stand in it does it matter.
    is_file = source.suffix == ".json" or text[0] == "["
    return "json" if is_file or not _looks_like_query(first) else "jsonl"


def _looks_like_query(text: str) -> bool:
    """Whether a long line begins as a record of its own, not as an envelope."""
    return array_key(text.encode("utf-8", "replace"), _ARRAY_KEYS) is None


def _table_container(header: str) -> str | None:
    for separator, name in (("\t", "tsv"), (",", "csv"), (";", "csv")):
        cells = [cell.strip().strip('"').lower() for cell in header.split(separator)]
        if len(cells) > 1 and not _TEXT_COLUMNS.isdisjoint(cells):
            return name
    return None


def read_records(source: Source, container: str, problems: Problems) -> Iterator[DumpRecord]:
    """Yields the records of a file; what is not a record is noted, and the others follow."""
    if container == "jsonl":
        for line, value in read_line_values(source, problems):
            yield DumpRecord(source.name, line.number, value)
    elif container == "json":
        yield from _json(source, problems)
    else:
        for row in READERS.load(container)(source, kind="cases", problems=problems):
            values = row.values if container == "parquet" else _cells(row)
            yield DumpRecord(row.path, row.line, values)


def _json(source: Source, problems: Problems) -> Iterator[DumpRecord]:
    """The elements of the file's array; the whole file when it is one response."""
    head = (source.head(problems) or b"").removeprefix(b"\xef\xbb\xbf").lstrip()
    keys = object_keys(head)
    # An object with a query of its own is one record, whatever else it holds.
    key = array_key(head, _ARRAY_KEYS) if _QUERY_KEYS.isdisjoint(keys) else None
    if (key is None and keys) or _is_one_response(head, key):
        raw = read_bytes(source, problems)
        if raw is not None:
            value = _parsed(raw, source.name, 1, problems)
            yield from value
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
    stream = Source(name="", _stream=cast("io.BufferedReader", io.BytesIO(head)))
    first = next(iter(array_elements(stream, key, Problems())), None)
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
    return has_score or any(form.is_hit(value) for form in FORMS)


def _cells(row: Row) -> Mapping[str, object]:
    """A table's cells as JSON values: what is spelled as a list or an object becomes one."""
    return {
        name: cell if name.lower() in _TEXT_COLUMNS else _spelled(cell)
        for name, cell in row.values.items()
    }


def _spelled(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if not text:
        return None
    try:
        if text[0] == "[" and text[-1] == "]":
            return parse_cell("reference_contexts", text)
        if text[0] == "{" and text[-1] == "}":
            return parse_cell("metadata", text)
    except ValueProblem:
        return cell
    return cell
