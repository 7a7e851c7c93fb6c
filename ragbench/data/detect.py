"""Which format a source has: by what it is called, then by how it begins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import orjson

from ragbench.data import beir, hugging_face, own_folder, text_folder, trec_folder
from ragbench.data.fields import is_known_field
from ragbench.data.formats import FORMATS
from ragbench.data.problems import Problems
from ragbench.data.rows import Kind
from ragbench.data.source import HEAD_BYTES, Source
from ragbench.data.text import decode_head

__all__ = ["detect_format"]

_BY_SUFFIX: Mapping[str, str] = {
    suffix: info.name for info in FORMATS for suffix in info.suffixes if info.name != "text"
}
_PARQUET_MAGIC = b"PAR1"
_SQUAD = re.compile(r'"data"\s*:\s*\[\s*\{.*?"(?:paragraphs|qas)"\s*:\s*\[', re.DOTALL)
_RAGAS = re.compile(r'"(?:user_input|eval_sample)"\s*:')


def detect_format(source: Source, kind: Kind, problems: Problems) -> str | None:
    """Recognises the format of a source.

    Args:
        source: where the data comes from. At most the head of a stream is looked at, and nothing
            is consumed.
        kind: what is to be read from it.
        problems: takes what stands in the way.

    Returns:
        The format's name; None, and a problem, when the source is not recognised or unreadable.
    """
    if source.hub is not None:
        return "hf"
    if source.path is not None and source.is_folder:
        return _folder_format(source, source.path, kind, problems)
    if kind == "documents" and source.suffix in text_folder.SUFFIXES:
        return "text"
    head = source.head(problems)
    if head is None:
        return None
    if not head.strip():
        problems.add(f"the file is empty: it holds no {kind}", path=source.name)
        return None
    found = _file_format(source.suffix, head, kind)
    if found is None:
        names = ", ".join(info.name for info in FORMATS)
        message = f"the format is not recognised; name one of: {names}"
        problems.add(message, path=source.name)
    return found


def _folder_format(source: Source, folder: Path, kind: Kind, problems: Problems) -> str | None:
    if hugging_face.is_saved_folder(folder):
        return "hf"
    if source.child(own_folder.CASES_FILE):
        return "ragbench"
    if (folder / beir.QRELS_FOLDER).is_dir() and source.child(beir.QUERIES_FILE):
        return "beir"
    if any(source.child(name) for name in trec_folder.QUERY_FILES):
        return "trec"
    if kind == "documents":
        if source.child(own_folder.CORPUS_FILE):
            return "ragbench"
        # A README beside data files is no corpus.
        tabular = any(_BY_SUFFIX.get(path.suffix.lower()) for path in folder.iterdir())
        if not tabular and next(text_folder.text_files(folder), None) is not None:
            return "text"
    message = (
        f"the folder holds no {kind} in a form that is recognised: expected cases.jsonl and "
        "corpus.jsonl, a BEIR folder (queries.jsonl and qrels/), queries.tsv and qrels.txt, "
        "or a folder saved by Hugging Face datasets"
    )
    problems.add(message, path=source.name)
    return None


def _file_format(suffix: str, head: bytes, kind: Kind) -> str | None:
    if head.startswith(_PARQUET_MAGIC):
        return "parquet"
    text = decode_head(head).lstrip()
    found = _BY_SUFFIX.get(suffix)
    if found is None or found == "json":
        found = _shape(text, found)
    if kind == "cases" and suffix in {".jsonl", ".json"} and found in {"jsonl", "json"}:
        return "ragas" if _RAGAS.search(text) else found
    if kind == "cases" and suffix == ".csv":
        header = text.partition("\n")[0].strip().split(",")
        return "ragas" if "user_input" in header else found
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


def _object_shape(first: str, ended: bool, rest: str, by_suffix: str | None) -> str:
    # One object a line, or one object over the whole file?
    try:
        value: object = orjson.loads(first)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        # A pretty-printed file begins with a short line; a long one may merely be cut by the head.
        cut = not ended and len(first) >= HEAD_BYTES // 4
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
