"""ragbench's own folder: cases.jsonl and corpus.jsonl."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.data.json_lines import read as read_json_lines
from ragbench.data.problems import Problems
from ragbench.data.rows import Kind, Row
from ragbench.data.source import Source

__all__ = ["CASES_FILE", "CORPUS_FILE", "read"]

CASES_FILE = "cases.jsonl"
CORPUS_FILE = "corpus.jsonl"


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields the rows of the file that holds what is asked for."""
    name = CORPUS_FILE if kind == "documents" else CASES_FILE
    file = source.child(name)
    if file is None:
        problems.add(f"the folder has no {name}", path=source.name)
        return
    yield from read_json_lines(file, kind=kind, problems=problems)
