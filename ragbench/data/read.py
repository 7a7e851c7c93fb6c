"""Cases and corpora from any source, one record at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

from ragbench.data.decoder import CaseDecoder, DocumentDecoder
from ragbench.data.detect import detect_format
from ragbench.data.formats import READERS
from ragbench.data.problems import Problems
from ragbench.data.rows import Kind, Row, RowReader
from ragbench.data.source import NotingReadErrors, Source
from ragbench.records.cases import Case
from ragbench.records.corpus import Document

__all__ = ["read_cases", "read_documents"]


def read_cases(
    source: str | Path,
    *,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    split: str | None = None,
    problems: Problems | None = None,
) -> Iterator[Case]:
    """Reads cases; nothing is opened before the first one is asked for.

    A bad record never hides the others: it is noted, the good ones are yielded, and the error
    with all problems comes at the end. Who needs all or nothing takes nothing before the end.

    Example:
        >>> for case in read_cases("cases.jsonl", fields={"query": "Frage"}):  # doctest: +SKIP
        ...     print(case.id)

    Args:
        source: a file, a folder, ``-`` for standard input, or ``hf:owner/name[:split]``.
        format: name of the format; recognised from the source when not given.
        fields: field of a case to field of the source, for names that are not recognised. An
            empty name means that no field of the source has it.
        split: part of the source, for formats that have parts (``beir``, ``trec``, ``hf``).
        problems: takes what is wrong; then no error is raised, and the caller looks at it.

    Yields:
        The cases, in the order of the source, with unique ids.

    Raises:
        ConfigError: no such format, or no such field of a case (at the call).
        DataError: something is wrong with the source (at the end; ``problems`` not given).
        MissingExtraError: the format needs a package that is not installed.
    """
    found = Problems() if problems is None else problems
    decoder = CaseDecoder(problems=found, fields=fields or {})
    reader = None if format is None else _reader(format)
    origin = Source.of(source, split=split)

    def cases() -> Iterator[Case]:
        for row in _rows(origin, reader, "cases", found):
            case = decoder.decode(row)
            if case is not None:
                yield case
        decoder.finish(origin.name)
        if problems is None:
            found.raise_if_any()

    return cases()


def read_documents(
    source: str | Path,
    *,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    split: str | None = None,
    problems: Problems | None = None,
) -> Iterator[Document]:
    """Reads the documents of a corpus; arguments, order and errors as for ``read_cases``."""
    found = Problems() if problems is None else problems
    decoder = DocumentDecoder(problems=found, fields=fields or {})
    reader = None if format is None else _reader(format)
    origin = Source.of(source, split=split)

    def documents() -> Iterator[Document]:
        for row in _rows(origin, reader, "documents", found):
            document = decoder.decode(row)
            if document is not None:
                yield document
        decoder.finish(origin.name)
        if problems is None:
            found.raise_if_any()

    return documents()


def _rows(
    source: Source, reader: RowReader | None, kind: Kind, problems: Problems
) -> Iterator[Row]:
    # Looking at a folder may fail as well as reading a file.
    with closing(source), NotingReadErrors(source.name, problems):
        if reader is None:
            name = detect_format(source, kind, problems)
            if name is None:
                return
            reader = _reader(name)
        yield from reader(source, kind=kind, problems=problems)


def _reader(name: str) -> RowReader:
    return cast("RowReader", READERS.load(name))
