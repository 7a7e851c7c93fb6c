"""The formats that cases, documents and recorded answers are read from."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from ragbench.plugins import Registry

if TYPE_CHECKING:
    from ragbench.io.source import Kind

CASES_FILE, CORPUS_FILE = "cases.jsonl", "corpus.jsonl"
"""In a folder of ragbench's own form; BEIR's corpus is called so, too."""
QUERIES_FILE, QRELS_FOLDER = "queries.jsonl", "qrels"
"""By which a folder of BEIR is known."""
QUERY_FILES = ("queries.tsv", "topics.tsv", "queries.txt", "topics.txt")
"""By one of which a folder of TREC is."""

_BOTH: tuple[Kind, ...] = ("cases", "documents")


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatInfo:
    name: str
    summary: str
    example: str
    reader: str
    """Where its ``RowReader`` is: ``module:function``."""
    reads: tuple[Kind, ...] = _BOTH
    records: str = ""
    """What a system did that it can hold, in a few words; empty when it can hold nothing of it."""
    suffixes: tuple[str, ...] = ()
    """Suffixes that it is recognised by; empty when it is recognised by its shape."""
    streamed: bool = True
    extra: str | None = None


@cache
def formats() -> Mapping[str, FormatInfo]:
    """Every format that ragbench brings, by name, in the order of ``ragbench show formats``."""
    file = resources.files("ragbench.io").joinpath("formats.toml")
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    return {name: _info(name, dict(row)) for name, row in table.items()}


def _info(name: str, row: dict[str, Any]) -> FormatInfo:
    row["reader"] = f"ragbench.io.{row['reader']}"
    row |= {key: tuple(row[key]) for key in ("reads", "suffixes") if key in row}
    return FormatInfo(name=name, **row)


@cache
def readers() -> Registry:
    """Name of a format to its ``RowReader``; packages add theirs as ``ragbench.formats``."""
    return Registry(kind="formats", builtin={name: info.reader for name, info in formats().items()})


_ZIP_MAGIC, _WORKBOOK_PART = b"PK\x03\x04", b"[Content_Types].xml"


def is_workbook(head: bytes) -> bool:
    """Whether a file begins as a workbook of Excel and its like does."""
    return head.startswith(_ZIP_MAGIC) and _WORKBOOK_PART in head
