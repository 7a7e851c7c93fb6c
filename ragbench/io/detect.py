"""Which format a source has: by what it is, then by its suffix, then by what stands in it.

Every test is a sure one: names that only that tool writes, together. What passes none is a plain
table or list of records, whose fields then say what they hold.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, cast

import msgspec
import orjson

from ragbench.core.record import Record
from ragbench.errors import DataError, Problem
from ragbench.io import arrow, converted
from ragbench.io.fields import (
    CASES_FILE,
    CORPUS_FILE,
    QRELS_FOLDER,
    QUERIES_FILE,
    QUERY_FILES,
    is_known_field,
    read_table,
)
from ragbench.io.json_files import (
    OUTER,
    array_of,
    decode_head,
    is_split_table,
    lists_of_objects,
    questions_of,
    read_json_arrays,
    records_of,
    shown_rows_of_split,
    shown_value,
)
from ragbench.io.limits import UnreadableError
from ragbench.io.source import HEAD_BYTES, JOURNAL_FILE, Kind, Problems, Row, RowReader, Source
from ragbench.io.trec import looks_like_a_run, trec_qrels
from ragbench.io.values import as_list, as_object, is_list, is_object
from ragbench.io.yaml_file import parse_yaml_data
from ragbench.plugins import Registry

CONTAINERS = ("jsonl", "json", "yaml", "csv", "tsv", "xlsx", "parquet", "hf")
"""Formats of records whose fields may have any names."""

_BOTH: tuple[Kind, ...] = ("cases", "documents")


class FormatInfo(Record):
    name: str
    summary: str
    example: str
    reader: str
    """Where its ``RowReader`` is, below this package: ``module:function``."""
    reads: tuple[Kind, ...] = _BOTH
    records: str = ""
    """What a system did that it can hold, in a few words; empty when it can hold nothing of it."""
    suffixes: tuple[str, ...] = ()
    """Suffixes that it is recognised by; empty when it is recognised by its shape."""
    extra: str | None = None


@cache
def formats() -> Mapping[str, FormatInfo]:
    """Every format that ragbench brings, by name, in the order of ``ragbench show formats``."""
    return {
        name: msgspec.convert({**row, "name": name}, FormatInfo)
        for name, row in read_table("formats.toml").items()
    }


@cache
def readers() -> Registry:
    """Name of a format to its ``RowReader``; packages add theirs as ``ragbench.formats``."""
    own = {name: f"ragbench.io.{info.reader}" for name, info in formats().items()}
    return Registry(kind="formats", own=own)


_SQLITE_MAGIC = b"SQLite format 3\x00"
_BINARY = (("parquet", b"PAR1", b""), ("xlsx", b"PK\x03\x04", b"[Content_Types].xml"))
"""Formats that are no text: how their files begin, and what stands in there."""
_SQUAD, _DEEPEVAL = frozenset({"paragraphs", "qas"}), ("testCases", "conversationalTestCases")
_FIRST = 20
_TRACE_FILES = frozenset({".json", ".jsonl", ".ndjson", ".csv", ".parquet", ".gz"})


@cache
def _by_suffix() -> Mapping[str, str]:
    known = formats().values()
    return {suffix: i.name for i in known for suffix in i.suffixes if i.name != "text"}


def detect_format(source: Source, kind: Kind, problems: Problems) -> str | None:
    if kind == "documents" and source.suffix in converted.SUFFIXES and not source.is_folder:
        return "text"
    found, text = detect_container(source, kind, problems)
    if kind == "documents" or found not in CONTAINERS:
        return "trec" if found == "run-file" else found
    whole: object = None
    if found == "jsonl":
        records = [*map(shown_value, text.split("\n", _FIRST)[:_FIRST])]
        whole = records[0]
    elif found in ("json", "yaml"):
        whole = shown_value(text) if found == "json" else _yaml_value(source)
        records = [*_shown_records(whole)[:_FIRST], whole]
    else:
        records = _first_rows(source, found, text)
    if found == "json" or len(records) == 1:  # spans, perhaps
        first = whole[0] if is_list(whole) and whole else whole
        records += array_of(first, OUTER)[1][:1]
    objects = [cast("Mapping[str, object]", one) for one in records if isinstance(one, Mapping)]
    signs = [sign for record in objects if (sign := sign_of(record)) is not None]
    if any(sign.spans for sign in signs):
        return "traces"
    refused = next((sign.what for sign in signs if sign.what), None)
    if refused is not None:
        raise DataError([Problem(message=f"it holds {refused}", path=source.name)])
    is_one = found == "json" or (found == "jsonl" and _by_suffix().get(source.suffix) != "jsonl")
    envelope = _envelope(whole) if is_one or found == "yaml" else None
    return envelope or (signs[0].form if signs else found)


def _yaml_value(source: Source) -> object:
    """The value of a YAML file; None of a stream, and where its reader will say what is wrong."""
    if source.path is None or source.is_packed:
        return None
    with suppress(OSError, DataError):
        return parse_yaml_data(source.name, source.limits.read_settings(source.path)).value
    return None


def _shown_records(whole: object) -> Sequence[object]:
    """The records of a JSON value, as far as its beginning shows them."""
    if is_list(whole):
        return whole
    if not is_object(whole):
        return ()
    if is_split_table(whole):
        return shown_rows_of_split(whole)
    records = None
    with suppress(UnreadableError):  # the reader says so, once it knows the whole file
        records = records_of(whole, kind="cases")
    return () if records is None else records.items


def detect_container(source: Source, kind: Kind, problems: Problems) -> tuple[str | None, str]:
    """As `detect_format`; of a form that only the fields show it is what the records stand in.

    With it the beginning of the file, as far as it is text.
    """
    if source.hub is not None:
        return "hf", ""
    if source.path is not None and source.path.is_dir():
        return _folder_format(source, source.path, kind), ""
    head = source.head(problems)
    if head is None:
        return None, ""
    if not head.strip() or head.startswith(_SQLITE_MAGIC):
        database = "it is an SQLite file; name the folder of the run"
        raise UnreadableError(
            database if head.strip() else f"the file is empty: it holds no {kind}"
        )
    binary = (name for name, magic, part in _BINARY if head.startswith(magic) and part in head)
    if (found := next(binary, None)) is not None:
        return found, ""
    text = decode_head(head, source.encoding).lstrip()
    if kind == "cases" and looks_like_a_run(text):
        return "run-file", text
    found = _by_suffix().get(source.suffix)
    if found is None or found == "json":
        found = _shape(text, found)
    if found is None:
        why = "this is Python code. Did you mean: ragbench eval DATASET --rag FILE.py:NAME?"
        if source.suffix != ".py":
            why = f"the format is not recognised; name one of: {', '.join(formats())}"
        raise UnreadableError(why)
    return found, text


def _folder_format(source: Source, folder: Path, kind: Kind) -> str:
    if arrow.is_saved_folder(folder):
        return "hf"
    if source.child(CASES_FILE):
        return "ragbench"
    if (folder / QRELS_FOLDER).is_dir() and source.child(QUERIES_FILE):
        return "beir"
    if _is_trec(source, folder, kind):
        return "trec"
    if kind == "cases" and (folder / JOURNAL_FILE).is_file():
        return "run"
    files = trace_files(source) if kind == "cases" else []
    if files and all(map(_holds_traces, files)):
        return "traces"
    if kind == "documents":
        if source.child(CORPUS_FILE):
            return "ragbench"
        # A README beside data files is not a corpus.
        tabular = any(_by_suffix().get(path.suffix.lower()) for path in folder.iterdir())
        if not tabular and next(converted.text_files(folder), None) is not None:
            return "text"
    raise UnreadableError(
        f"the folder holds no {kind} in a form that is recognised: expected cases.jsonl and "
        "corpus.jsonl, a BEIR folder (queries.jsonl and qrels/), queries.tsv and qrels.txt, "
        "or a folder saved by Hugging Face datasets"
    )


def _is_trec(source: Source, folder: Path, kind: Kind) -> bool:
    """Whether it has topics; or, of cases, judgements alone."""
    if source.first_child(QUERY_FILES) is not None:
        return True
    has_judgements = trec_qrels(source) is not None or (folder / QRELS_FOLDER).is_dir()
    return kind == "cases" and has_judgements


def _holds_traces(file: Source) -> bool:
    with closing(file), suppress(UnreadableError):
        return detect_format(file, "cases", Problems()) == "traces"
    return False


def trace_files(source: Source) -> list[Source]:
    """The files of a folder that may hold traces, by name; the file itself if it is one."""
    if source.path is None or not source.is_folder:
        return [source]
    names = sorted(p.name for p in source.path.iterdir() if p.suffix.lower() in _TRACE_FILES)
    return [file for name in names if (file := source.child(name)) is not None]


def _shape(text: str, by_suffix: str | None) -> str | None:
    first, newline, rest = text.partition("\n")
    if text.startswith("["):
        return "json"
    if text.startswith("{"):
        _, articles = array_of(shown_value(text), ("data",))
        if articles and is_object(articles[0]) and not _SQUAD.isdisjoint(articles[0]):
            return "squad"
        return _object_shape(first, bool(newline), rest, by_suffix)
    if by_suffix is None:
        # Any text may hold commas: a table is believed only when a column has a known name.
        for separator in ("\t", ",", ";", "|"):
            cells = [cell.strip().strip('"') for cell in first.split(separator)]
            if len(cells) > 1 and any(map(is_known_field, cells)):
                return "tsv" if separator == "\t" else "csv"
    return by_suffix


def _object_shape(first: str, ended: bool, rest: str, by_suffix: str | None) -> str:
    # One object a line, or one object over the whole file?
    try:
        value: object = orjson.loads(first)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        # A pretty-printed file begins with a short line; a long one may merely be cut by the head.
        cut = not ended and len(first) >= HEAD_BYTES // 4
        shown = shown_value(first) if cut else None
        if is_object(shown) and _holds_columns(shown):
            return "json"
        if by_suffix == "json" and is_object(shown) and (questions_of(shown) or "input" in shown):
            return "jsonl"  # one record, and perhaps more of them below it
        return by_suffix or ("jsonl" if cut else "json")
    if rest.lstrip().startswith("{"):
        return "jsonl"
    if is_object(value) and _holds_columns(value):
        return "json"
    if not is_object(value) or questions_of(value):
        return by_suffix or "jsonl"
    if lists_of_objects(value):
        return by_suffix or "json"
    # A single line that is a record itself.
    return "jsonl" if any(map(is_known_field, value)) else by_suffix or "jsonl"


def _holds_columns(value: Mapping[str, Any]) -> bool:
    """Whether it has many questions: a list of them, or an object by row as pandas writes it."""
    return any(
        is_object(one) or (is_list(one) and one and not is_object(one[0]))
        for one in questions_of(value)
    )


# --- forms of records


class Sign(Record):
    """What records of a form have: all of some fields, some of others, types, beginnings."""

    form: str
    all: frozenset[str]
    some: frozenset[str] = frozenset()
    none: frozenset[str] = frozenset()
    least: int = 0
    types: Mapping[str, tuple[type, ...]]
    starts: Mapping[str, str] = {}
    spans: str = ""
    """Of spans the form in ``span_forms.toml``; a cell of a table may spell their objects."""
    what: str = ""
    """What they are, and what to do, where they are not read."""


_TYPES = {"object": (dict,), "object or null": (dict, type(None)), "list": (list,)}
_PLAIN_FIELDS = "query question user_input contexts retrieved_contexts response chunks"
"""What only a record of its own has: a trace's id beside it is metadata."""


@cache
def _signs() -> list[Sign]:
    spans = read_table("span_forms.toml")
    rows: list[dict[str, Any]] = [
        {
            "form": "traces",
            "spans": name,
            "all": sign,
            "none": form.get("none", ""),
            "types": form.get("types", {}),
        }
        for name, form in spans["form"].items()
        for sign in form["signs"]
    ]
    refused: list[dict[str, Any]] = [
        {"form": "traces", "none": _PLAIN_FIELDS, **row} for row in spans["refused"]
    ]
    signs: list[Sign] = []
    for row in (*rows, *read_table("signs.toml")["sign"], *refused):
        named = ((name, row[name]) for name in ("all", "some", "none") if name in row)
        fields = {name: frozenset(names.split()) for name, names in named}
        kinds = row.get("types", {}).items()
        types = {name: _TYPES[kind] for name, kind in kinds if name in fields["all"]}
        given: dict[str, Any] = {**row, **fields, "types": types}
        signs.append(Sign(**given))
    return signs


_EXPERIMENT = re.compile(r"reference(?:_outputs?)?\..+|feedback\..+|example_id|execution_time")
"""Columns that are beside ``inputs.`` and ``outputs.`` in a table of an experiment."""


def langsmith_experiment(names: Iterable[str]) -> bool:
    """Whether the columns of a table are those of a LangSmith experiment."""
    texts = [*map(str, names)]
    return (
        any(name.startswith("inputs.") for name in texts)
        and any(name.startswith("outputs.") for name in texts)
        and any(_EXPERIMENT.fullmatch(name) for name in texts)
    )


_MLFLOW_SCORE = re.compile(r".+/(?:score|justification)")


def mlflow_results(names: Iterable[str]) -> bool:
    """Whether the columns of a table are those that ``mlflow.evaluate`` writes."""
    texts = [*map(str, names)]
    return "outputs" in texts and any(_MLFLOW_SCORE.fullmatch(name) for name in texts)


def sign_of(record: Mapping[str, object]) -> Sign | None:
    """By which a record is known to be of a tool; None when its fields say nothing of one."""
    keys = record.keys()
    if langsmith_experiment(keys):
        return Sign(form="langsmith", all=frozenset(), types={})
    if mlflow_results(keys):
        return Sign(form="mlflow", all=frozenset(), types={})
    for sign in _signs():
        if (
            sign.all <= keys
            and len(sign.some & keys) >= sign.least
            and sign.none.isdisjoint(keys)
            and all(
                isinstance(value := record[name], kinds)
                or (sign.spans and str(value).lstrip()[:1] in ("{", "["))
                for name, kinds in sign.types.items()
            )
            and all(str(record[name]).startswith(text) for name, text in sign.starts.items())
        ):
            return sign
    return None


def _envelope(whole: object) -> str | None:
    """The form of a JSON object that holds its records deeper; None when it is no such object."""
    if not is_object(whole):
        return None
    keys, results = whole.keys(), whole.get("results")
    for other in read_table("signs.toml")["other"]:
        if keys >= {*other["all"].split()}:
            refused = f"it is {other['what']}"
            raise UnreadableError(refused)
    has_cases, _ = array_of(whole, ("cases",))
    if "schema_version" in keys and not has_cases and not {"query", "question"} & keys:
        raise UnreadableError("it is a result that ragbench wrote, without questions")
    if "tests" in keys and not {"prompts", "providers", "targets", "defaultTest"}.isdisjoint(keys):
        return "promptfoo-config"
    predictions = as_list(whole.get("predictions"))
    if {*keys} == {"predictions"} and predictions and all(map(_is_prediction, predictions)):
        return "llamaindex-predictions"
    if "testRunData" in keys or array_of(whole, _DEEPEVAL)[0]:
        return "deepeval"
    if is_object(results):
        first = as_object(next(iter(as_list(results.get("results"))), None))
        marks = {"evalId", "config", "shareableUrl"} & keys
        return "promptfoo" if marks or "vars" in first else None
    if {"models", "metrics", "documents"} <= keys or array_of(whole, ("tasks",))[0]:
        return "mtrag"
    sign = sign_of(as_object(next(iter(as_list(results)), None)))
    return None if sign is None else sign.form


def _is_prediction(value: object) -> bool:
    """Whether a record is one of LlamaIndex: an answer with its contexts, and nothing else."""
    return is_object(value) and bool(value) and value.keys() <= {"response", "contexts"}


def _first_rows(source: Source, container: str, text: str) -> list[object]:
    """The header and the first row of a table, as far as the head shows them."""
    if container in ("xlsx", "parquet", "hf"):
        if source.path is None:
            return []  # a stream is read only once, and a name on the hub is worth a request
        rows = reader_of(container)(source, kind="cases", problems=Problems())
        return [row.values for row in islice(rows, 1)]
    header, _, rest = text.partition("\n")
    if header.strip('" \r').lower().startswith("sep="):
        header, _, rest = rest.partition("\n")
    header = header.rstrip("\r")
    separator = "\t" if container == "tsv" else max(",;\t|", key=header.count)
    try:
        names, *row = islice(csv.reader(StringIO(f"{header}\n{rest}"), delimiter=separator), 2)
        return [dict.fromkeys(names), *(dict(zip(names, cells, strict=False)) for cells in row)]
    except (csv.Error, ValueError):
        return []


@cache
def reader_of(name: str) -> RowReader:
    """The reader of a format.

    Raises:
        ConfigError: there is no such format.
    """
    return cast("RowReader", readers().load(name))


def container_rows(
    source: Source, problems: Problems, arrays: tuple[str, ...] = ()
) -> Iterator[Row]:
    """The rows of a source in whatever container they stand."""
    container, text = detect_container(source, "cases", problems)
    keys = as_object(shown_value(text)) if arrays and container != "json" else ()
    if container == "json" or any(path.partition(".")[0] in keys for path in arrays):
        yield from read_json_arrays(source, arrays, problems)
    elif container in CONTAINERS:
        yield from reader_of(container)(source, kind="cases", problems=problems)
    elif container is not None:
        raise UnreadableError(f"expected JSON, JSONL, CSV or Parquet, found {container}")
