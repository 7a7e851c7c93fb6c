"""A folder in TREC's manner: queries and judgements in plain columns."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.data.beir import join_judgements, pick_qrels
from ragbench.data.problems import Problems
from ragbench.data.rows import Kind, Row
from ragbench.data.source import Source
from ragbench.data.text import decode_line, read_lines

__all__ = ["QUERY_FILES", "read"]

QUERY_FILES = ("queries.tsv", "topics.tsv", "queries.txt", "topics.txt")
_DOCUMENT_FILES = ("collection.tsv", "corpus.tsv")
_QRELS_FILES = ("qrels.txt", "qrels.tsv", "qrels")


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields ``queries.tsv`` joined with ``qrels.txt``, or the texts of ``collection.tsv``."""
    names = _DOCUMENT_FILES if kind == "documents" else QUERY_FILES
    file = _first(source, names)
    if file is None:
        problems.add(f"the folder has none of {', '.join(names)}", path=source.name)
        return
    rows = _rows(file, "text" if kind == "documents" else "query", problems)
    if kind == "documents":
        yield from rows
        return
    qrels = _first(source, _QRELS_FILES) or pick_qrels(source, problems)
    if qrels is not None:
        yield from join_judgements(rows, qrels, problems)


def _first(source: Source, names: tuple[str, ...]) -> Source | None:
    return next((file for file in map(source.child, names) if file is not None), None)


def _rows(file: Source, target: str, problems: Problems) -> Iterator[Row]:
    for line in read_lines(file, problems):
        text = decode_line(line, file.name, problems)
        if text is None or not text.strip():
            continue
        # No quoting: a quotation mark in a query is part of it.
        identifier, tab, rest = text.rstrip("\r\n").partition("\t")
        if tab:
            yield Row(file.name, line.number, {"id": identifier.strip(), target: rest})
        else:
            message = f"expected an id, a tab and the {target}, found no tab"
            problems.add(message, path=file.name, line=line.number)
