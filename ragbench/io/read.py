"""Cases and documents from any source; which of them are taken."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TypeVar, cast

from ragbench.core.case import Case
from ragbench.core.chunk import Document
from ragbench.errors import ConfigError
from ragbench.io.converted import text_files
from ragbench.io.decoder import DocumentDecoder, EntryDecoder, RecordT, RowDecoder
from ragbench.io.detect import detect_format, readers
from ragbench.io.source import Problems, RowReader, Source, noting_read_errors


def read_cases(
    source: str | Path,
    *,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    split: str | None = None,
    encoding: str | None = None,
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
        encoding: how text is encoded, when it is neither UTF-8 nor UTF-16 with a mark.
        problems: takes what is wrong; then no error is raised, and the caller looks at it.

    Yields:
        The cases, in the order of the source, with unique ids.

    Raises:
        ConfigError: no such format, encoding, or field of a case (at the call).
        DataError: something is wrong with the source (at the end; ``problems`` not given).
        MissingExtraError: the format needs a package that is not installed.
    """
    found = Problems() if problems is None else problems
    decoder = EntryDecoder(problems=found, fields=fields or {}, outcomes=False)
    place = Source.of(source, split=split, encoding=encoding)
    reader = None if format is None else readers().load(format)
    entries = _records(place, reader, decoder, is_raised=problems is None)
    return (entry.case for entry in entries)


def read_documents(
    source: str | Path,
    *,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    split: str | None = None,
    encoding: str | None = None,
    problems: Problems | None = None,
) -> Iterator[Document]:
    """Reads the documents of a corpus; arguments, order and errors as for ``read_cases``."""
    found = Problems() if problems is None else problems
    decoder = DocumentDecoder(problems=found, fields=fields or {})
    place = Source.of(source, split=split, encoding=encoding)
    reader = None if format is None else readers().load(format)
    return _records(place, reader, decoder, is_raised=problems is None)


def skipped_files(source: str | Path, *, format: str | None = None) -> list[str]:
    """The files of a folder of texts that `read_documents` does not read; else none."""
    origin = Source.of(source)
    if origin.path is None or not origin.is_folder:
        return []
    name = detect_format(origin, "documents", Problems()) if format is None else format
    return [*text_files(origin.path, others=True)] if name == "text" else []


def _records(
    source: Source, reader: RowReader | None, decoder: RowDecoder[RecordT], *, is_raised: bool
) -> Iterator[RecordT]:
    problems, kind = decoder.problems, decoder.KIND
    # Looking at a folder may fail as well as reading a file.
    with closing(source), noting_read_errors(source.name, problems):
        if reader is None and (name := detect_format(source, kind, problems)) is not None:
            reader = cast("RowReader", readers().load(name))
        for row in () if reader is None else reader(source, kind=kind, problems=problems):
            record = decoder.decode(row)
            if record is not None:
                yield record
    decoder.finish(source.name)
    if is_raised:
        problems.raise_if_any()


ItemT = TypeVar("ItemT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The first n cases, a random draw of n, or all.

    Raises:
        ConfigError: a number below 1, or both given.
    """

    limit: int | None = None
    sample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.limit is not None and self.sample is not None:
            raise ConfigError("--limit and --sample exclude each other: give one of them")
        for name, value in (("--limit", self.limit), ("--sample", self.sample)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}")

    def apply(
        self, cases: Iterable[ItemT], id_of: Callable[[ItemT], str] = attrgetter("id")
    ) -> Iterator[ItemT]:
        """The chosen cases.

        A draw takes the n cases with the smallest hash of seed and id: the same cases in whatever
        order the dataset stands, and when it grows, most of them again.
        """
        if self.sample is None:
            return islice(cases, self.limit)

        def rank(entry: tuple[int, ItemT]) -> bytes:
            text = f"{self.seed}:{id_of(entry[1])}".encode("utf-8", "backslashreplace")
            return blake2b(text, digest_size=16).digest()

        drawn = heapq.nsmallest(self.sample, enumerate(cases), key=rank)
        return (case for _, case in sorted(drawn, key=lambda entry: entry[0]))
