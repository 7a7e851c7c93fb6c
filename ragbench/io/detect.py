"""Which format a source has: by what it is, then by its suffix, then by what stands in it.

Every test is a sure one: names that only that tool writes, together. What passes none is a plain
table or list of records, whose fields then say what they hold.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import cast

import orjson

from ragbench.io import arrow, converted
from ragbench.io.fields import is_known_field
from ragbench.io.formats import (
    CASES_FILE,
    CORPUS_FILE,
    QRELS_FOLDER,
    QUERIES_FILE,
    QUERY_FILES,
    formats,
    is_workbook,
    readers,
)
from ragbench.io.json_files import (
    array_key,
    head_elements,
    object_keys,
    read_json_arrays,
)
from ragbench.io.lines import decode_head
from ragbench.io.source import HEAD_BYTES, Kind, Problems, Row, Source

CONTAINERS = ("jsonl", "json", "csv", "tsv", "xlsx", "parquet", "hf")
"""Formats of records whose fields may have any names."""

_PARQUET_MAGIC = b"PAR1"
_SQLITE_MAGIC = b"SQLite format 3\x00"
_SQUAD = re.compile(r'"data"\s*:\s*\[\s*\{.*?"(?:paragraphs|qas)"\s*:\s*\[', re.DOTALL)
_FIRST = 20

JOURNAL_FILE, MANIFEST_FILE = "journal.sqlite", "manifest.json"


@cache
def _by_suffix() -> Mapping[str, str]:
    known = formats().values()
    return {suffix: i.name for i in known for suffix in i.suffixes if i.name != "text"}


def detect_format(source: Source, kind: Kind, problems: Problems) -> str | None:
    known = len(problems)
    found = detect_container(source, kind, problems)
    if kind == "documents" or found is None or len(problems) > known:
        return found
    if found not in CONTAINERS:
        return found
    envelope = _envelope(source, problems) if found in ("json", "jsonl") else None
    if envelope is not None:
        return envelope if len(problems) == known else None
    return next(filter(None, map(special_form, _first_records(source, found))), found)


def detect_container(source: Source, kind: Kind, problems: Problems) -> str | None:
    """As `detect_format`; of a form that only the fields show it is what the records stand in."""
    if source.hub is not None:
        return "hf"
    if source.path is not None and source.is_folder:
        return _folder_format(source, source.path, kind, problems)
    if kind == "documents" and source.suffix in converted.SUFFIXES:
        return "text"
    head = source.head(problems)
    if head is None:
        return None
    if not head.strip():
        problems.add(f"the file is empty: it holds no {kind}", path=source.name)
        return None
    if head.startswith(_SQLITE_MAGIC):
        problems.add("it is an SQLite file; name the folder of the run", path=source.name)
        return None
    found = _file_format(source, head, kind)
    if found is None:
        names = ", ".join(formats())
        message = f"the format is not recognised; name one of: {names}"
        problems.add(message, path=source.name)
    return found


def _folder_format(source: Source, folder: Path, kind: Kind, problems: Problems) -> str | None:
    if arrow.is_saved_folder(folder):
        return "hf"
    if source.child(CASES_FILE):
        return "ragbench"
    if (folder / QRELS_FOLDER).is_dir() and source.child(QUERIES_FILE):
        return "beir"
    if any(source.child(name) for name in QUERY_FILES):
        return "trec"
    if kind == "cases" and (folder / JOURNAL_FILE).is_file():
        return "run"
    if kind == "documents":
        if source.child(CORPUS_FILE):
            return "ragbench"
        # A README beside data files is not a corpus.
        tabular = any(_by_suffix().get(path.suffix.lower()) for path in folder.iterdir())
        if not tabular and next(converted.text_files(folder), None) is not None:
            return "text"
    message = (
        f"the folder holds no {kind} in a form that is recognised: expected cases.jsonl and "
        "corpus.jsonl, a BEIR folder (queries.jsonl and qrels/), queries.tsv and qrels.txt, "
        "or a folder saved by Hugging Face datasets"
    )
    problems.add(message, path=source.name)
    return None


def is_run_file(text: str) -> bool:
    """Whether a text begins as a TREC run does: ``query Q0 document rank score tag``."""
    columns = text.partition("\n")[0].split()
    return len(columns) == 6 and columns[1].upper() == "Q0"


def _file_format(source: Source, head: bytes, kind: Kind) -> str | None:
    if head.startswith(_PARQUET_MAGIC):
        return "parquet"
    if is_workbook(head):
        return "xlsx"
    text = decode_head(head, source.encoding).lstrip()
    found = _by_suffix().get(source.suffix)
    if kind == "cases" and is_run_file(text):
        return "run-file"
    if found is None or found == "json":
        found = _shape(text, found)
    return found


def _shape(text: str, by_suffix: str | None) -> str | None:
    first, newline, rest = text.partition("\n")
    if text.startswith("["):
        return "json"
    if text.startswith("{"):
        if _SQUAD.search(text):
            return "squad"
        return _object_shape(first, bool(newline), rest, by_suffix)
    if by_suffix is not None:
        return by_suffix
    return _table_shape(first)


def _table_shape(header: str) -> str | None:
    # Any text may hold commas: a table is believed only when a column has a known name.
    for separator in ("\t", ",", ";", "|"):
        cells = [cell.strip().strip('"') for cell in header.split(separator)]
        if len(cells) > 1 and any(map(is_known_field, cells)):
            return "tsv" if separator == "\t" else "csv"
    return None


_QUERY_NAMES = frozenset({"query", "question", "user_input", "input"})


def _object_shape(first: str, ended: bool, rest: str, by_suffix: str | None) -> str:
    # One object a line, or one object over the whole file?
    try:
        value: object = orjson.loads(first)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        # A pretty-printed file begins with a short line; a long one may merely be cut by the head.
        cut = not ended and len(first) >= HEAD_BYTES // 4
        if cut and by_suffix == "json" and not _QUERY_NAMES.isdisjoint(object_keys(first.encode())):
            return "jsonl"  # one record, and perhaps more of them below it
        return by_suffix or ("jsonl" if cut else "json")
    if rest.lstrip().startswith("{"):
        return "jsonl"
    if not isinstance(value, dict):
        return by_suffix or "jsonl"
    record = cast("dict[str, object]", value)
    if any(_starts_with_object(item) for item in record.values()):
        return by_suffix or "json"
    # A single line that is a record itself.
    return "jsonl" if any(map(is_known_field, record)) else by_suffix or "jsonl"


def _starts_with_object(item: object) -> bool:
    items = cast("list[object]", item) if isinstance(item, list) else []
    return bool(items) and isinstance(items[0], dict)


# --- forms of records


def _has(*names: str) -> Callable[[Mapping[str, object]], bool]:
    wanted = frozenset(names)
    return lambda record: wanted <= record.keys()


def _is_outcome(value: object) -> bool:
    return value is None or (isinstance(value, dict) and "status" in value)


def _is_export(record: Mapping[str, object]) -> bool:
    return {"id", "query", "retrieval", "generation", "scores"} <= record.keys() and all(
        _is_outcome(record[name]) for name in ("retrieval", "generation")
    )


def _is_deepeval(record: Mapping[str, object]) -> bool:
    said = {"actual_output", "actualOutput", "retrieval_context", "retrievalContext"}
    return "input" in record and not said.isdisjoint(record)


def _is_promptfoo(record: Mapping[str, object]) -> bool:
    given = {"response", "error", "promptIdx", "testIdx", "gradingResult", "failureReason"}
    return isinstance(record.get("vars"), dict) and len(given & record.keys()) >= 2


def _is_mtrag(record: Mapping[str, object]) -> bool:
    turns = record.get("history", record.get("input"))
    return {"task_id", "contexts", "targets"} <= record.keys() and isinstance(turns, list)


_SPECIAL: tuple[tuple[str, Callable[[Mapping[str, object]], bool]], ...] = (
    ("export", _is_export),
    ("export", _has("user_input", "retrieval_status", "generation_status")),
    ("report", _has("id", "query", "retrieved_ids", "retrieve", "generate", "failures")),
    ("verdicts", _has("relevant_chunk_ids", "retrieval_quality", "answer_probability")),
    ("promptfoo", _is_promptfoo),
    ("mtrag", _is_mtrag),
    ("ragchecker", _has("query", "gt_answer")),
    ("open-rag-eval", _has("query", "passage", "generated_answer")),
    ("deepeval", _is_deepeval),
    ("ragas", _has("user_input")),
    ("ragas", _has("eval_sample")),
)


def special_form(record: Mapping[str, object]) -> str | None:
    """The tool that a record is of; None when its fields say nothing of one."""
    return next((name for name, is_form in _SPECIAL if is_form(record)), None)


_OTHERS: Mapping[frozenset[str], str] = {
    frozenset({"ragbench_baseline"}): "a baseline file: it holds scores and no questions",
    frozenset({"schema_version", "latencies"}): "a run's timings: name the run's folder",
    frozenset({"schema_version", "validator", "queries"}): "a summary of verdicts: it holds no "
    "questions",
    frozenset({"dataset", "fingerprints", "metrics", "packages"}): "a run's manifest: name the "
    "run's folder",
    frozenset({"case", "metric", "judgements"}): "a run's judgements: name the run's folder",
}
"""What else ragbench writes as JSON, by keys that it begins with; there are no cases in it."""


def _envelope(source: Source, problems: Problems) -> str | None:
    """The form of a JSON object that holds its records deeper; None when it is no such object."""
    head = _head(source)
    keys = object_keys(head)
    if not keys:
        return None
    for wanted, what in _OTHERS.items():
        if wanted <= keys.keys():
            problems.add(f"it is {what}", path=source.name)
            return "json"
    if "manifest" in keys and "schema_version" in keys:
        return "report"
    has_cases = array_key(head, ("cases",)) is not None
    if "schema_version" in keys and not has_cases and not {"query", "question"} & keys.keys():
        problems.add("it is a result that ragbench wrote, without questions", path=source.name)
        return "json"
    if "testRunData" in keys or array_key(head, ("testCases",)) is not None:
        return "deepeval"
    if "results" in keys and head[keys["results"] :].lstrip(b" \t\r\n:")[:1] == b"{":
        marks = {"evalId", "config", "shareableUrl"} & keys.keys()
        return "promptfoo" if marks or b'"vars"' in head else None
    if {"models", "metrics", "documents"} <= keys.keys() or array_key(head, ("tasks",)):
        return "mtrag"
    if array_key(head, ("results",)) is not None:
        return next(map(special_form, _elements(head, "results")), None)
    return None


def _head(source: Source) -> bytes:
    """The beginning of a file in UTF-8, without mark and white space before it."""
    head = source.head(Problems()) or b""
    return decode_head(head, source.encoding).lstrip().encode("utf-8", "replace")


def _first_records(source: Source, container: str) -> Iterator[Mapping[str, object]]:
    """Some of the first records, as far as the head of the file shows them."""
    if container in ("xlsx", "parquet", "hf"):
        if source.path is None:
            return  # a stream is read only once, and a name on the hub is worth a request
        rows = read_rows(source, container, Problems())
        yield from (row.values for row in islice(rows, 1))
        return
    raw = _head(source)
    text = raw.decode()
    if container in ("csv", "tsv"):
        header, _, rest = text.partition("\n")
        if header.strip('" \r').lower().startswith("sep="):
            header = rest.partition("\n")[0]
        header = header.rstrip("\r")
        separator = "\t" if container == "tsv" else max(",;\t|", key=header.count)
        try:
            yield dict.fromkeys(next(csv.reader([header], delimiter=separator), list[str]()))
        except csv.Error:
            return
    elif container == "jsonl":
        yield from islice(_json_objects(text.split("\n")), _FIRST)
    else:
        key = array_key(raw, ("cases", "data", "questions", "examples", "samples"))
        if key is not None or raw.startswith(b"["):
            yield from islice(_elements(raw, key), _FIRST)


def _json_objects(texts: list[str]) -> Iterator[Mapping[str, object]]:
    for text in texts:
        try:
            value: object = orjson.loads(text)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            continue
        if isinstance(value, dict):
            yield cast("dict[str, object]", value)


def _elements(head: bytes, key: str | None) -> Iterator[Mapping[str, object]]:
    """The objects of an array at the beginning of a file."""
    for element in head_elements(head, key):
        yield from _json_objects([element.raw.decode("utf-8", "replace")])


def read_rows(source: Source, name: str, problems: Problems) -> Iterator[Row]:
    """The rows of a source in a format, for cases."""
    reader = readers().load(name)
    yield from reader(source, kind="cases", problems=problems)


def container_rows(
    source: Source, problems: Problems, arrays: tuple[str, ...] = ()
) -> Iterator[Row]:
    """The rows of a source in whatever container they stand."""
    known = len(problems)
    container = detect_container(source, "cases", problems)
    if container is None:
        return
    keys = object_keys(_head(source))
    if container == "json" or any(path.partition(".")[0] in keys for path in arrays):
        yield from read_json_arrays(source, arrays, problems)
    elif container in CONTAINERS:
        yield from read_rows(source, container, problems)
    elif len(problems) == known:
        problems.add(f"expected JSON, JSONL, CSV or Parquet, found {container}", path=source.name)
