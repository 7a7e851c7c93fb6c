"""Which format a source has: by what it is, then by its suffix, then by what stands in it.

Every test is a sure one: names that only that tool writes, together. What passes none is a plain
table or list of records, whose fields then say what they hold.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache, partial
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, cast

import msgspec
import orjson

from ragbench.core.in_words import UnreadableError
from ragbench.core.reading import Reading
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
from ragbench.io.source import (
    HEAD_BYTES,
    JOURNAL_FILE,
    Kind,
    Problems,
    Row,
    RowReader,
    Source,
    reading_problem,
)
from ragbench.io.trec import looks_like_a_run, trec_qrels
from ragbench.io.values import as_list, as_object, is_list, is_object
from ragbench.io.yaml_file import parse_yaml_data
from ragbench.plugins import Registry

CONTAINERS = ("jsonl", "json", "yaml", "csv", "tsv", "xlsx", "parquet", "hf")
"""Formats of records whose fields may have any names."""

_BOTH: tuple[Kind, ...] = ("cases", "documents")


class FormatInfo(Record):
    """A format as ``formats.toml`` describes it, for the list of formats and to find its reader."""

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
    """The formats that ragbench reads, by name, in the order of ``ragbench show formats``.

    Read from ``formats.toml`` once: a new format is a row there.
    """
    infos: dict[str, FormatInfo] = {}
    for name, row in read_table("formats.toml").items():
        infos[name] = msgspec.convert({**row, "name": name}, FormatInfo)
    return infos


@cache
def readers() -> Registry:
    """The registry of ``RowReader``: each reads the files of one format, by the format's name.

    Other packages add readers of their own by the entry-point group ``ragbench.formats``.
    """
    own = {name: f"ragbench.io.{info.reader}" for name, info in formats().items()}
    return Registry(kind="formats", own=own)


_SQLITE_MAGIC = b"SQLite format 3\x00"
_BINARY = (("parquet", b"PAR1", b""), ("xlsx", b"PK\x03\x04", b"[Content_Types].xml"))
"""Formats that are no text: how their files begin, and what stands in there."""
_SQUAD = frozenset({"paragraphs", "qas"})
_DEEPEVAL = ("testCases", "conversationalTestCases")
_RECORDS_TO_LOOK_AT = 20
"""Records that are looked at: the first ones may lack the fields by which their tool is known."""
_TRACE_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".csv", ".parquet", ".gz"})


@cache
def _format_by_suffix() -> Mapping[str, str]:
    """The format that each suffix of a file stands for, such as ``.csv``.

    A suffix is only a first guess: a file's content may still show another format.
    """
    format_by_suffix: dict[str, str] = {}
    for info in formats().values():
        if info.name == "text":  # such a file may also hold a ranking, or a table
            continue
        for suffix in info.suffixes:
            format_by_suffix[suffix] = info.name
    return format_by_suffix


def detect_format(source: Source, kind: Kind, problems: Problems) -> str | None:
    """The name of a source's format, by which its reader is chosen, unless the user names one.

    The source's place decides, then its suffix, then its first records.

    Returns:
        The format; None where nothing can be read, which is then among ``problems``.

    Raises:
        UnreadableError: the format is not recognised, or the file is empty.
        DataError: the records are of a known tool, and such that ragbench does not read.
    """
    # Read as documents, a text file is one, whatever stands in it.
    if kind == "documents" and source.suffix in converted.SUFFIXES and not source.is_folder:
        return "text"
    container, text = detect_container(source, kind, problems)
    if container == "run-file":
        return "trec"
    if kind == "documents" or container not in CONTAINERS:
        return container
    whole, records = _shown_records(source, container, text)
    if container == "json" or len(records) == 1:
        # Spans may stand one level deeper, in the object that an exporter sends.
        outermost = whole
        if is_list(whole) and whole:
            outermost = whole[0]
        _, inner_records = array_of(outermost, OUTER)
        records += inner_records[:1]
    signs = list(_signs_of(records))
    if any(sign.spans for sign in signs):
        return "traces"
    for sign in signs:
        if sign.what:
            raise DataError([Problem(message=f"it holds {sign.what}", path=source.name)])
    # The lines of a file that calls itself JSONL are records; else one line may be a whole result.
    is_whole = container in ("json", "yaml") or _format_by_suffix().get(source.suffix) != "jsonl"
    form = _form_of_envelope(whole) if is_whole else None
    if form is not None:
        return form
    return signs[0].form if signs else container


def _shown_records(source: Source, container: str, text: str) -> tuple[object, list[object]]:
    """The first records of a file as far as its beginning shows them: their fields tell the tool.

    Args:
        source: the file.
        container: one of `CONTAINERS`.
        text: the beginning of the file, where it is text.

    Returns:
        The JSON or YAML value of the whole file, or its first line; None of a table. And the
        records, of which such a value may be one.
    """
    if container == "jsonl":
        # What is split off behind the last of them is the rest of the file.
        lines = text.split("\n", _RECORDS_TO_LOOK_AT)[:_RECORDS_TO_LOOK_AT]
        records = [shown_value(line) for line in lines]
        return records[0], records
    if container not in ("json", "yaml"):
        return None, _first_rows(source, container, text)
    whole = shown_value(text) if container == "json" else _yaml_value(source)
    records_in_value = _records_in_value(whole)[:_RECORDS_TO_LOOK_AT]
    # A value may hold the records, or be one itself.
    return whole, [*records_in_value, whole]


def _yaml_value(source: Source) -> object:
    """The value of a YAML file, whose records show the tool that wrote it.

    None of a stream or a packed file, and of a broken file: its reader says later what is wrong.
    """
    if source.path is None or source.is_packed:
        return None
    with suppress(OSError, DataError):
        content = source.limits.read_settings(source.path)
        return parse_yaml_data(source.name, content).value
    return None


def _records_in_value(whole: object) -> Sequence[object]:
    """The records of a JSON value, as far as the beginning of its file shows them.

    The value is a list of records, a table that is split by rows and columns, or an object around
    the records. Without a readable list there are none.
    """
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
    """The plain form that a source's records are in, such as JSONL, whichever tool wrote them.

    Readers of a tool's files call it, too: the same fields come in JSON, JSONL or a table.
    `detect_format` goes on from here and looks at the fields.

    Returns:
        The name of a format, None where nothing can be read; and the beginning of the file, as far
        as it is text.

    Raises:
        UnreadableError: the format is not recognised, or the file is empty.
    """
    if source.hub is not None:
        return "hf", ""
    if source.path is not None and source.path.is_dir():
        return _folder_format(source, source.path, kind), ""
    head = source.head(problems)
    if head is None:
        return None, ""
    if not head.strip():
        raise UnreadableError(f"the file is empty: it holds no {kind}")
    if head.startswith(_SQLITE_MAGIC):
        message = "it is an SQLite file; name the folder of the run"
        raise UnreadableError(message)
    binary_format = _binary_format(head)
    if binary_format is not None:
        return binary_format, ""
    text = decode_head(head, source.encoding).lstrip()
    if kind == "cases" and looks_like_a_run(text):
        return "run-file", text
    container = _format_by_suffix().get(source.suffix)
    # Under the suffix of JSON there is often a record per line.
    if container is None or container == "json":
        container = _form_of_text(text, container)
    if container is None:
        raise UnreadableError(_unrecognised(source))
    return container, text


def _unrecognised(source: Source) -> str:
    """The error's text for a file in no known format, with a next step for the user.

    A common mistake is to name a file of Python code in the place of the dataset: it has a text of
    its own.
    """
    if source.suffix == ".py":
        return "this is Python code. Did you mean: ragbench eval DATASET --rag FILE.py:NAME?"
    return f"the format is not recognised; name one of: {', '.join(formats())}"


def _binary_format(head: bytes) -> str | None:
    """The format of a file that is no text, by its first bytes; None of a text file.

    Workbooks and Parquet files often have another suffix, or none, and cannot be recognised as
    text.
    """
    for name, magic, part in _BINARY:
        if head.startswith(magic) and part in head:
            return name
    return None


def _folder_format(source: Source, folder: Path, kind: Kind) -> str:
    """The format of a folder, by the files in it.

    The order of the tests counts, since a folder may hold files of several formats: the most
    telling ones come first.

    Raises:
        UnreadableError: no format is known by such files.
    """
    if arrow.is_saved_folder(folder):
        return "hf"
    if source.child(CASES_FILE):
        return "ragbench"
    if (folder / QRELS_FOLDER).is_dir() and source.child(QUERIES_FILE):
        return "beir"
    if _is_trec(source, folder, kind):
        return "trec"
    if kind == "cases":
        if (folder / JOURNAL_FILE).is_file():
            return "run"
        files = trace_files(source)
        if files and all(map(_holds_traces, files)):
            return "traces"
    else:
        if source.child(CORPUS_FILE):
            return "ragbench"
        # A README beside data files is not a corpus.
        has_data = any(path.suffix.lower() in _format_by_suffix() for path in folder.iterdir())
        if not has_data and next(converted.text_files(folder), None) is not None:
            return "text"
    raise UnreadableError(
        f"the folder holds no {kind} in a form that is recognised: expected cases.jsonl and "
        "corpus.jsonl, a BEIR folder (queries.jsonl and qrels/), queries.tsv and qrels.txt, "
        "or a folder saved by Hugging Face datasets"
    )


def _is_trec(source: Source, folder: Path, kind: Kind) -> bool:
    """Whether a folder is TREC's: it has topics; or, where cases are read, judgements alone.

    A query that is judged can be a case by its id alone, see `ragbench.io.trec.NO_TOPICS`.
    """
    if source.first_child(QUERY_FILES) is not None:
        return True
    has_judgements = trec_qrels(source) is not None or (folder / QRELS_FOLDER).is_dir()
    return kind == "cases" and has_judgements


def _holds_traces(file: Source) -> bool:
    """Whether one file of a folder holds traces; a file that is not recognised does not.

    A folder counts as one of traces only if each of its files does, so that no other data is mixed
    in.
    """
    with closing(file), suppress(UnreadableError):
        return detect_format(file, "cases", Problems()) == "traces"
    return False


def trace_files(source: Source) -> list[Source]:
    """The files of a folder that may hold traces, in the order of their names.

    A source that is itself a file is returned alone, so that callers read both alike.
    """
    if source.path is None or not source.is_folder:
        return [source]
    paths = source.path.iterdir()
    names = sorted(path.name for path in paths if path.suffix.lower() in _TRACE_SUFFIXES)
    files: list[Source] = []
    for name in names:
        file = source.child(name)
        # A folder may have such a suffix, too.
        if file is not None:
            files.append(file)
    return files


def _form_of_text(text: str, by_suffix: str | None) -> str | None:
    """The format of a text by its first characters; else the format of the file's suffix.

    Many files have no suffix or a wrong one, such as one JSON object a line under ``.json``.

    Args:
        text: the beginning of a file, without blanks before it.
        by_suffix: the format that the file's suffix stands for: ``json``, or None.
    """
    first_line, newline, further_lines = text.partition("\n")
    if text.startswith("["):
        return "json"
    if text.startswith("{"):
        _, articles = array_of(shown_value(text), ("data",))
        if articles and is_object(articles[0]) and not _SQUAD.isdisjoint(articles[0]):
            return "squad"
        return _form_of_object(first_line, bool(newline), further_lines, by_suffix)
    if by_suffix is None:
        # Any text may hold commas: a table is believed only when a column has a known name.
        for separator in ("\t", ",", ";", "|"):
            cells = [cell.strip().strip('"') for cell in first_line.split(separator)]
            if len(cells) < 2 or not any(map(is_known_field, cells)):
                continue
            return "tsv" if separator == "\t" else "csv"
    return by_suffix


def _form_of_object(
    first_line: str, is_ended: bool, further_lines: str, by_suffix: str | None
) -> str:
    """Whether a text that begins with ``{`` is one JSON object, or has one a line (JSONL).

    The reader needs to know: a file of JSON is held whole, one of JSONL is read line by line.

    Args:
        first_line: the first line, which is cut where the head of the file ends before it does.
        is_ended: whether the first line is whole.
        further_lines: what comes after it in the head of the file.
        by_suffix: the format that the file's suffix stands for: ``json``, or None.
    """
    try:
        value = orjson.loads(first_line)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        # A pretty-printed file begins with a short line; a long one may merely be cut by the head.
        # Characters are counted here, and the head is cut by bytes: a character has up to four.
        is_cut = not is_ended and len(first_line) >= HEAD_BYTES // 4
        if is_cut:
            return _form_of_cut_object(first_line, by_suffix)
        return by_suffix or "json"
    if further_lines.lstrip().startswith("{"):
        return "jsonl"
    # The single line of the file: a table by columns, a record, or an object around the records.
    if _holds_columns(value):
        return "json"
    if not questions_of(value):
        if lists_of_objects(value):
            return by_suffix or "json"
        if any(map(is_known_field, value)):
            return "jsonl"
    return by_suffix or "jsonl"


def _form_of_cut_object(line: str, by_suffix: str | None) -> str:
    """``json`` or ``jsonl``, for a file whose first line is longer than the head that is read.

    As `_form_of_object`, but without the line's end: only the fields at its beginning can decide.
    """
    shown = shown_value(line)
    if is_object(shown):
        if _holds_columns(shown):
            return "json"
        if by_suffix == "json" and (questions_of(shown) or "input" in shown):
            return "jsonl"  # one record, and perhaps more of them below it
    return by_suffix or "jsonl"


def _holds_columns(value: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a whole table by columns: its question field holds many questions.

    pandas writes such a table as a list a column, or as an object keyed by row. Taken for a record,
    all its questions would be one case.
    """
    for questions in questions_of(value):
        if is_object(questions):
            return True
        if is_list(questions) and questions and not is_object(questions[0]):
            return True
    return False


# --- forms of records


class Sign(Record):
    """By which a record is known to be of a tool: its fields, their types, how they begin."""

    form: str
    """The format of such records."""
    all: frozenset[str] = frozenset()
    """Fields that the record must have, each of them."""
    some: frozenset[str] = frozenset()
    """Fields of which it must have `least`."""
    none: frozenset[str] = frozenset()
    """Fields of which it must have none."""
    least: int = 0
    types: Mapping[str, tuple[type, ...]] = {}
    """Types that the values of fields must have."""
    starts: Mapping[str, str] = {}
    """Texts that the values of fields must begin with."""
    spans: str = ""
    """Of spans the form in ``span_forms.toml``; a cell of a table may spell their objects."""
    what: str = ""
    """What they are, and what to do, where they are not read."""

    def fits(self, record: Mapping[str, object]) -> bool:
        """Whether a record has the sign of its tool: the fields, types and beginnings of texts.

        All of them must be there, so that no tool is guessed: a wrong one reads wrong fields.
        """
        names = record.keys()
        if not self.all <= names or not self.none.isdisjoint(names):
            return False
        if len(self.some & names) < self.least:
            return False
        for name, types in self.types.items():
            value = record[name]
            if isinstance(value, types):
                continue
            # A table of spans has its objects and lists as JSON in a cell.
            if not self.spans or not str(value).lstrip().startswith(("{", "[")):
                return False
        return all(str(record[name]).startswith(text) for name, text in self.starts.items())


_TYPES = {"object": (dict,), "object or null": (dict, type(None)), "list": (list,)}
"""The types that a table of signs may ask of a field, as it names them."""
_PLAIN_FIELDS = "query question user_input contexts retrieved_contexts response chunks"
"""What only a record of its own has: a trace's id beside it is metadata."""


@cache
def _signs() -> list[Sign]:
    """The signs of all tools' records, in the order in which they are tried.

    The first sign that fits counts. Signs of spans come first: what holds spans has their fields
    beside those of a plain record.
    """
    spans = read_table("span_forms.toml")
    # Signs are tried in this order: of spans, of tools' records, then of forms that are refused.
    signs: list[Sign] = []
    for name, form in spans["form"].items():
        row = {"form": "traces", "spans": name}
        for key in ("none", "types"):
            if key in form:
                row[key] = form[key]
        signs += [_sign_of_row({**row, "all": fields}) for fields in form["signs"]]
    signs += map(_sign_of_row, read_table("signs.toml")["sign"])
    signs += [
        _sign_of_row({"form": "traces", "none": _PLAIN_FIELDS, **row}) for row in spans["refused"]
    ]
    return signs


def _sign_of_row(row: Mapping[str, Any]) -> Sign:
    """The `Sign` of a row of ``signs.toml``, in which field names are one text with blanks.

    A sign is what tells the records of one tool: here its rows become sets and types once, since
    each record is compared with all of them.
    """
    values = dict(row)
    for key in ("all", "some", "none"):
        if key in row:
            values[key] = frozenset(row[key].split())
    types: dict[str, tuple[type, ...]] = {}
    for name, type_name in row.get("types", {}).items():
        if name in values["all"]:  # a form of spans has the types of the fields of all its signs
            types[name] = _TYPES[type_name]
    values["types"] = types
    return Sign(**values)


_EXPERIMENT = re.compile(r"reference(?:_outputs?)?\..+|feedback\..+|example_id|execution_time")
"""Columns that are beside ``inputs.`` and ``outputs.`` in a table of an experiment."""


def langsmith_experiment(names: Iterable[str]) -> bool:
    """Whether the columns of a table are those of an experiment that LangSmith exported.

    No fixed names can say it: all columns but a few are named after the user's own keys.
    """
    columns = [str(name) for name in names]
    has_inputs = any(column.startswith("inputs.") for column in columns)
    has_outputs = any(column.startswith("outputs.") for column in columns)
    # Other tools have inputs and outputs, too: a third kind of column makes it sure.
    return has_inputs and has_outputs and any(map(_EXPERIMENT.fullmatch, columns))


_MLFLOW_SCORE = re.compile(r".+/(?:score|justification)")
"""A column of a metric of MLflow's, such as ``answer_similarity/v1/score``."""


def mlflow_results(names: Iterable[str]) -> bool:
    """Whether the columns of a table are those that ``mlflow.evaluate`` writes.

    The metric's own name is a part of the score's column, so a pattern decides, no fixed name.
    """
    columns = [str(name) for name in names]
    return "outputs" in columns and any(map(_MLFLOW_SCORE.fullmatch, columns))


def sign_of(record: Mapping[str, object]) -> Sign | None:
    """The sign of the tool that wrote a record; None when its fields are of no known tool.

    The first sign that fits counts: see `_signs` for their order.
    """
    # LangSmith and MLflow are known by patterns of names; `_signs` compares fixed names alone.
    if langsmith_experiment(record.keys()):
        return Sign(form="langsmith")
    if mlflow_results(record.keys()):
        return Sign(form="mlflow")
    for sign in _signs():
        if sign.fits(record):
            return sign
    return None


def _signs_of(records: Iterable[object]) -> Iterator[Sign]:
    """Yields the signs of the first records that have one: their tool is the tool of the file.

    A record that is no object, or whose fields are of no known tool, has none.
    """
    for record in records:
        if isinstance(record, Mapping):
            sign = sign_of(cast("Mapping[str, object]", record))
            if sign is not None:
                yield sign


_PROMPTFOO_SETUP = frozenset({"prompts", "providers", "targets", "defaultTest"})
_PROMPTFOO_SUMMARY = frozenset({"evalId", "config", "shareableUrl"})


def _form_of_envelope(whole: object) -> str | None:
    """The format of a JSON object that holds the records of a tool deeper in it; else None.

    Tools wrap their records in an object with a run's settings or summary. Its outer names tell the
    tool before any record is seen.

    Raises:
        UnreadableError: it is a file of a known tool that holds no cases.
    """
    if not is_object(whole):
        return None
    _refuse_without_cases(whole)
    names = whole.keys()
    if "tests" in names and not _PROMPTFOO_SETUP.isdisjoint(names):
        return "promptfoo-config"
    if _holds_predictions(whole):
        return "llamaindex-predictions"
    if "testRunData" in names or array_of(whole, _DEEPEVAL)[0]:
        return "deepeval"
    results = whole.get("results")
    if is_object(results):
        # promptfoo has results within its results.
        rows = as_list(results.get("results"))
        has_tests = bool(rows) and "vars" in as_object(rows[0])
        if has_tests or not _PROMPTFOO_SUMMARY.isdisjoint(names):
            return "promptfoo"
        return None
    if names >= {"models", "metrics", "documents"} or array_of(whole, ("tasks",))[0]:
        return "mtrag"
    for sign in _signs_of(as_list(results)[:1]):
        return sign.form
    return None


def _refuse_without_cases(whole: Mapping[str, object]) -> None:
    """Raises the error of a file that is known to hold no cases, such as a summary of scores.

    So its user learns which file it is, in place of "no field for the query".

    Raises:
        UnreadableError: it is such a file.
    """
    names = whole.keys()
    for sign in read_table("signs.toml")["other"]:
        if names >= set(sign["all"].split()):
            message = f"it is {sign['what']}"
            raise UnreadableError(message)
    # A result of ragbench's own has a version; with cases or a question it can be read.
    has_cases, _ = array_of(whole, ("cases",))
    if "schema_version" in names and not has_cases and names.isdisjoint({"query", "question"}):
        raise UnreadableError("it is a result that ragbench wrote, without questions")


def _holds_predictions(whole: Mapping[str, object]) -> bool:
    """Whether a JSON object is LlamaIndex's file of predictions: their list, and nothing else.

    Predictions have neither ids nor questions: such a file is joined with its dataset by order
    alone, so it must be recognised for sure.
    """
    predictions = as_list(whole.get("predictions"))
    if set(whole) != {"predictions"} or not predictions:
        return False
    return all(map(_is_prediction, predictions))


def _is_prediction(value: object) -> bool:
    """Whether a record is a prediction of LlamaIndex's: it has an answer or contexts, nothing else.

    With any other field it may be a record of another tool, or the user's own.
    """
    fields = as_object(value).keys()
    return bool(fields) and fields <= {"response", "contexts"}


def _first_rows(source: Source, container: str, text: str) -> list[object]:
    """The header and the first row of a table as records: their names and types show the tool.

    A file of Excel or Parquet is opened for them; of CSV the text of the file's beginning is
    enough. The header is given as a record without values, so that a table without rows is
    recognised, too.
    """
    if container in ("xlsx", "parquet", "hf"):
        if source.path is None:
            return []  # a stream is read only once, and a name on the hub is worth a request
        rows = reader_of(container)(source, kind="cases", problems=Problems())
        return [row.values for row in islice(rows, 1)]
    header, _, rows_text = text.partition("\n")
    # Excel tells which separator it used in a line of its own.
    if header.strip('" \r').lower().startswith("sep="):
        header, _, rows_text = rows_text.partition("\n")
    header = header.rstrip("\r")
    # In CSV the separator is the one of these signs that the header has most often.
    separator = "\t" if container == "tsv" else max(",;\t|", key=header.count)
    try:
        lines = csv.reader(StringIO(f"{header}\n{rows_text}"), delimiter=separator)
        names, *rows_of_cells = islice(lines, 2)
    except (csv.Error, ValueError):
        return []
    records: list[object] = [dict.fromkeys(names)]
    for cells in rows_of_cells:
        records.append(dict(zip(names, cells, strict=False)))
    return records


@cache
def reader_of(name: str) -> RowReader:
    """The reader of the format with this name, which says of a damaged file how far it is sound.

    Raises:
        ConfigError: there is no such format.
    """
    return partial(_rows_before_damage, cast("RowReader", readers().load(name)))


def _rows_before_damage(
    read: RowReader, source: Source, *, kind: Kind, problems: Problems
) -> Iterator[Row]:
    """Yields the rows of a reader; the error of a damaged file names the last of them.

    Each reader of a format is called through it, so that the user sees how far a file is sound,
    whichever format it has.
    """
    row: Row | None = None

    def damaged(error: Exception) -> UnreadableError:
        """The error of a file that breaks off, with the line of the last row that could be read.

        `Reading` calls it with whatever the reader raises; ``row`` is the last one that the
        enclosing generator has yielded.
        """
        last_line = None if row is None else row.line
        return UnreadableError(reading_problem(error, after=last_line))

    with Reading(damaged):
        # Row by row, not by ``yield from``: the error has to know the last one.
        for row in read(source, kind=kind, problems=problems):
            yield row


def container_rows(
    source: Source, problems: Problems, arrays: tuple[str, ...] = ()
) -> Iterator[Row]:
    """Yields the rows of a tool's file, whichever plain form they are in: JSON, JSONL or a table.

    Tools export the same fields in several forms: with this, a tool's reader knows fields alone.

    Args:
        source: the file.
        problems: what is wrong with the file and its rows.
        arrays: paths in a JSON object at which the rows may be, such as ``results.results``.

    Raises:
        UnreadableError: it is none of `CONTAINERS`.
    """
    container, text = detect_container(source, "cases", problems)
    has_array = container == "json"
    if arrays and not has_array:
        # A single line may also be an object around one of the arrays.
        names = as_object(shown_value(text))
        has_array = any(path.partition(".")[0] in names for path in arrays)
    if has_array:
        yield from read_json_arrays(source, arrays, problems)
    elif container in CONTAINERS:
        yield from reader_of(container)(source, kind="cases", problems=problems)
    elif container is not None:
        raise UnreadableError(f"expected JSON, JSONL, CSV or Parquet, found {container}")
