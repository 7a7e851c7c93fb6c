"""Where data comes from, what is wrong with it, the row protocol, ids within a source."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import sys
import unicodedata
import zlib
from array import array
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol, cast
from urllib.parse import urlsplit

from ragbench.core.in_words import UnreadableError, ValueInWordsError
from ragbench.core.reading import Reading, is_in_words, words_of
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.addresses import is_address, open_address
from ragbench.io.limits import ReadLimits, Unpacked
from ragbench.masking import mask_url


@dataclass(kw_only=True, slots=True)
class Problems:
    """The problems of a source so far, in the order of the file.

    Example:
        >>> problems = Problems()
        >>> problems.add("expected text, found a number", path="cases.jsonl", line=3, field="query")
        >>> print(*problems)
        cases.jsonl:3: field 'query': expected text, found a number
    """

    items: list[Problem] = field(default_factory=list[Problem])
    """The first of them: a million bad lines must not fill the memory."""
    count: int = 0
    """How many there were."""
    most: int = 10_000
    """How many are kept."""
    _kinds: dict[Hashable, tuple[int, int]] = field(
        default_factory=dict[Hashable, tuple[int, int]], repr=False
    )
    """By kind, where its first problem is among the items, and how many there were of it."""

    def add(
        self, message: str, *, path: str = "", line: int | None = None, field: str | None = None
    ) -> None:
        """Notes a problem of a source by its parts, which is how readers of files report one.

        Nothing is raised: the reader goes on, and a user sees all problems of a file at once.
        """
        problem = Problem(message=message, path=path, line=line, field=field)
        self.note(problem)

    def note(self, *problems: Problem) -> None:
        """Notes problems that exist already, such as those of a source read inside this one.

        Beyond `most` they are only counted: a million bad lines must not fill the memory.
        """
        free_places = self.most - len(self.items)
        self.items += problems[:free_places]
        self.count += len(problems)

    def raise_if_any(self) -> None:
        """Raises all problems of a source at once, if there are any: the user mends them in one go.

        Raises:
            DataError: a problem was noted; a last line counts those that were not kept.
        """
        if not self.items:
            return
        problems = [*self.items]
        omitted = self.count - len(self.items)
        if omitted:
            problems.append(Problem(message=f"... and {omitted:,} more"))
        raise DataError(problems)

    def add_kind(
        self, kind: Hashable, message: str, *, path: str = "", line: int | None = None
    ) -> None:
        """Notes the first problem of a kind; its message counts the further ones.

        What is wrong with every record of a file is reported once, and not a million times.

        Args:
            kind: equal for problems of the same kind.
            message: with ``{more}`` where the count of further records goes.
        """
        # The place of the kind's first problem in the list, if that problem is listed at all.
        position, earlier_count = self._kinds.get(kind, (self.count, 0))
        self._kinds[kind] = (position, earlier_count + 1)
        if earlier_count == 0:
            self.add(message.replace("{more}", ""), path=path, line=line)
        elif position < len(self.items):  # beyond the most that are listed, it is only counted
            records = "record" if earlier_count == 1 else "records"
            further = f", here and in {earlier_count:,} further {records}"
            message = message.replace("{more}", further)
            self.items[position] = replace(self.items[position], message=message)

    def __iter__(self) -> Iterator[Problem]:
        """The problems of a source that are kept, in the order in which they were noted.

        Beyond `most` they are only counted: `count` says how many there are.
        """
        return iter(self.items)


STDIN = "-"
HUB_PREFIX = "hf:"
HEAD_BYTES = 1 << 16
"""How much of a file is looked at to recognise its format."""

GZIP_MAGIC = b"\x1f\x8b"
JOURNAL_FILE = "journal.sqlite"
MANIFEST_FILE = "manifest.json"
"""What the folder of every run has: its outcomes, and what was run."""
_RUN_FILES = frozenset({"report.json", "cases.csv", "timings.json", MANIFEST_FILE, JOURNAL_FILE})


@dataclass(kw_only=True, slots=True)
class Source:
    """One place to read from. A stream is opened once, also to look at its head.

    Opening once matters for standard input and named pipes: what was read to recognise the format
    cannot be read again.
    """

    name: str
    """What the user called it; stands in every problem."""
    path: Path | None = None
    """The file or folder; None for standard input and hub names."""
    address: str | None = None
    """Where a file is that is named by its address; see `ragbench.io.addresses`."""
    hub: str | None = None
    split: str | None = None
    """Which part to read, for sources that have parts."""
    encoding: str | None = None
    """How text files are encoded, when the user says; else UTF-8, or UTF-16 with its mark."""
    limits: ReadLimits = field(default_factory=ReadLimits)
    notes: dict[str, None] = field(default_factory=dict[str, None])
    """What a reader had to choose, in words and in order; shared by copies of the source."""
    roles: dict[str, str] = field(default_factory=dict[str, str])
    """Of another tool's form: the field of a record to the tool's name for it, as far as a reader
    gave it another one; shared by copies of the source."""
    is_packed: bool = field(default=False, init=False)
    """Whether its bytes were found to be compressed, once it was opened."""
    is_wide: bool = field(default=False, init=False)
    """Whether it was found to be UTF-16 or UTF-32."""
    _stream: BinaryIO | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, source: str | Path, *, split: str | None = None, encoding: str | None = None
    ) -> Source:
        """A source by the name that a user gave: standard input, a dataset, an address or a path.

        These are written ``-``, ``hf:owner/name[:split]``, as ``s3://...``, and in any other way.
        Secrets in an address do not get into the name that problems show.

        Raises:
            ConfigError: there is no such encoding, or the name is no path.
        """
        if encoding is not None:
            try:
                bytes(4).decode(encoding)  # refuses what encodes bytes as bytes, such as base64
                encoding = codecs.lookup(encoding).name
            except (LookupError, ValueError) as error:
                examples = "utf-8, cp1252, gb18030, shift_jis, utf-16"
                raise ConfigError(f"no text encoding '{encoding}'. Such as: {examples}") from error
        if isinstance(source, str):
            if source == STDIN:
                return cls(name="<stdin>", split=split, encoding=encoding)
            if source.startswith(HUB_PREFIX):
                hub, _, split_in_name = source.removeprefix(HUB_PREFIX).partition(":")
                return cls(name=source, hub=hub, split=split or split_in_name or None)
            if "://" in source and is_address(source):
                shown = mask_url(source).partition("?")[0]  # a signature may stand there
                return cls(name=shown, address=source, split=split, encoding=encoding)
        try:
            path = Path(source)
        except TypeError as error:
            raise ConfigError(f"a source is named by its path: {error}") from None
        return cls(name=str(source) or str(path), path=path, split=split, encoding=encoding)

    @property
    def is_folder(self) -> bool:
        """Whether the source is a folder on this machine; an address or a hub name is none.

        A folder has files to choose from, and no format of its own to recognise by its bytes.
        """
        return self.path is not None and self.path.is_dir()

    @property
    def suffix(self) -> str:
        """The suffix of the source's file in lower case, without that of compression; else empty.

        By it a format is recognised before the content is looked at.
        """
        if self.address is not None:
            path = Path(urlsplit(self.address).path)
        elif self.path is not None:
            path = self.path
        else:
            return ""
        suffixes = [suffix.lower() for suffix in path.suffixes]
        if suffixes and suffixes[-1] == ".gz":
            suffixes.pop()
        return suffixes[-1] if suffixes else ""

    def run(self) -> Source | None:
        """The folder of a run as a source, if this source is one of the run's files; else None.

        The folder knows more than a single file of it: the outcomes, their settings and identity.
        """
        if self.path is None or self.path.name not in _RUN_FILES:
            return None
        # Other tools have files of these names, too.
        folder = self.path.parent
        is_run = (folder / JOURNAL_FILE).is_file() and (folder / MANIFEST_FILE).is_file()
        if not is_run:
            return None
        return replace(self, name=str(folder), path=folder)

    def child(self, name: str) -> Source | None:
        """A file of this folder as a source, also when it is compressed; None where there is none.

        Args:
            name: the file's name in the folder, without ``.gz``.
        """
        if self.path is None:
            return None
        for candidate in (self.path / name, self.path / f"{name}.gz"):
            if candidate.is_file():
                # Joined by hand: Path drops a leading "./" that the user may have typed.
                shown = f"{self.name.rstrip('/' + os.sep)}/{candidate.relative_to(self.path)}"
                shown = shown.replace(os.sep, "/")
                return replace(self, name=shown, path=candidate, split=None, _stream=None)
        return None

    def first_child(self, names: Iterable[str]) -> Source | None:
        """The first of several usual files that this folder has; None where it has none of them.

        Args:
            names: names of files, the likelier one first.
        """
        for name in names:
            file = self.child(name)
            if file is not None:
                return file
        return None

    def chosen(self, parts: Sequence[str], *, noun: str = "split", usual: str = "test") -> str:
        """The part of a source to read, such as a split: the user's, the only one or the usual one.

        A choice among several is noted, since the user may have meant another.

        Args:
            parts: the names of the parts that the source has.
            noun: what its tool calls a part, for messages.
            usual: the part that is read where there are several and none is asked for.

        Raises:
            UnreadableError: there is no such part.
        """
        if self.split:
            part = self.split
        elif len(parts) == 1:
            part = parts[0]
        else:
            part = usual
        other_parts = ", ".join(name for name in parts if name != part)
        if part not in parts:
            raise UnreadableError(f"no {noun} '{part}'; there are: {other_parts or 'none'}")
        if self.split is None and other_parts:
            note = f"The {noun} '{part}' is read; --split names another: {other_parts}"
            self.notes[note] = None
        return part

    def head(self, problems: Problems) -> bytes | None:
        """The first bytes of the source, decompressed, without consuming them; None if unreadable.

        The format is recognised by them. Standard input cannot be read twice, so the open stream
        stays for `opened`.
        """
        with noting_read_errors(self.name, problems):
            if self._stream is None:
                stream = self._open_raw()
                beginning = cast("io.BufferedReader", stream).peek(HEAD_BYTES)
                self.is_packed = beginning.startswith(GZIP_MAGIC)
                self.is_wide = beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                if not self.is_packed:
                    self._stream = stream
                    return beginning
                unpacked = io.BufferedReader(Unpacked(stream, self.limits), HEAD_BYTES)
                self._stream = cast("BinaryIO", unpacked)
            return cast("io.BufferedReader", self._stream).peek(HEAD_BYTES)
        return None

    def _open_raw(self) -> BinaryIO:
        """The source's bytes as they are stored, as a stream with `peek`.

        The first bytes can be looked at without consuming them, by which compression is recognised.
        """
        if self.hub is not None:
            # The package `datasets` opens a dataset on the hub, never as a stream of bytes.
            raise IsADirectoryError(None, "it is a dataset on the hub, not a file")
        if self.address is not None:
            return open_address(self.address)
        if self.path is None:
            return _stdin()
        return self.path.open("rb", HEAD_BYTES)

    @contextmanager
    def opened(self, problems: Problems) -> Generator[BinaryIO | None, None, None]:
        """The source's decompressed bytes from the start, for the block of a ``with`` statement.

        None, and a problem, if it cannot be opened. An error while reading inside the block ends
        the block and becomes a problem.
        """
        if self._stream is None and self.head(problems) is None:
            yield None
            return
        stream = self._stream
        self._stream = None  # read by the caller alone from here on
        try:
            with noting_read_errors(self.name, problems):
                yield stream
        finally:
            # The source has its stream back, so that `close` closes it.
            self._stream = stream
            self.close()

    def close(self) -> None:
        """Closes the source's stream, if one is open; the source can be opened again.

        Standard input, which has neither path nor address, stays open: it belongs to the process,
        and closing it would end it for whoever reads it next.
        """
        if self._stream is not None and (self.path is not None or self.address is not None):
            self._stream.close()
        self._stream = None


def _stdin() -> BinaryIO:
    """Standard input as a stream with `peek`: its first bytes are looked at without being consumed.

    By the first bytes the format is recognised; consumed, they could not be read again.
    """
    stream = sys.stdin.buffer
    if hasattr(stream, "peek"):
        return stream
    # Standard input lacks `peek` only where a program has replaced it, as by bytes in memory.
    return cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", stream), HEAD_BYTES))


class noting_read_errors:  # a context, named as those of contextlib are
    """Ends its block on an error of reading, whatever its type, and notes it as a problem.

    Errors of ragbench pass: they say already what to do.
    """

    __slots__ = ("_line", "_name", "_problems")

    def __init__(self, name: str, problems: Problems, line: int | None = None) -> None:
        """Takes the place that a problem of reading names, and the list that it is added to.

        Args:
            name: the source, as its user called it.
            line: the record that is read in the block, if it is one.
        """
        self._name = name
        self._problems = problems
        self._line = line

    def __enter__(self) -> None:
        """Begins the reading of a source, for which nothing has to be prepared.

        There is no value to bind: the block is only watched for errors.
        """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Notes an error of reading as a problem; True makes Python drop the error.

        The reading goes on with the next record or file. Interrupts, and ragbench's errors that are
        written for the user already, pass; an `UnreadableError` is one of reading.
        """
        if not isinstance(error, Exception):  # none, or an interrupt
            return False
        if is_in_words(error) and not isinstance(error, UnreadableError):
            return False
        self._problems.add(reading_problem(error), path=self._name, line=self._line)
        return True


def looking_at(name: str) -> Reading:
    """A context for a first look at a source, which recognises its form and its fields.

    An error in the block ends the reading at once: without a form there are no records to go on
    with.
    """
    return Reading(partial(_unreadable_source, name))


def _unreadable_source(name: str, error: Exception) -> DataError:
    """The error of a source as a whole, of whatever was raised when it was looked at.

    Args:
        name: the source, as its user called it.
    """
    return DataError([Problem(message=reading_problem(error), path=name)])


def reading_problem(error: Exception, *, after: int | None = None) -> str:
    """Why a file cannot be read, as the message of a problem: in plain words for a user.

    Args:
        after: the line of the last record that could be read, if there is one.
    """
    if isinstance(error, (UnreadableError, ValueInWordsError)):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "no such file or folder"
    if isinstance(error, IsADirectoryError):
        return "expected a file, found a folder"
    if isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)):
        return f"the gzip data is damaged or cut off ({error})"
    place = "" if after is None else f" after record {after:,}"
    return f"cannot be read{place}: {words_of(error)}"


Kind = Literal["cases", "documents"]
"""What is being read."""


_MOST_FIELDS = 16_384
"""Columns of a workbook in Excel. Each name is compared with all that ragbench knows: a million of
them, as of a table whose rows and columns are swapped, takes a minute."""


def has_few_fields(count: int, path: str, line: int | None, problems: Problems) -> bool:
    """Whether a record or a header has no more fields than allowed; else a problem is noted.

    Each name is compared with all that ragbench knows, so readers of every format check the count
    first.

    Args:
        count: how many fields there are.
    """
    if count <= _MOST_FIELDS:
        return True
    problems.add(
        f"it has {count:,} fields; the most are {_MOST_FIELDS:,}. Are rows and columns swapped?",
        path=path,
        line=line,
    )
    return False


class Row(NamedTuple):
    """One record of a source, before its fields are understood.

    A named tuple, not a dataclass: one is made for every line of files with millions of lines.
    """

    path: str
    line: int | None
    values: Mapping[str, object]
    cells: bool = False
    """Whether the values are text cells, in which lists and truth values are still spelled out."""
    recorded: Mapping[str, Any] = MappingProxyType({})
    """What stages gave for it already, where the format says it in a form of its own; see
    `ragbench.core.trace.Entry`."""


class RowReader(Protocol):
    """A format: a function from a source to rows.

    It notes what it cannot read in ``problems`` and goes on with the next record; where there is
    none it may raise an `UnreadableError`. It never checks fields: that is done once, for all
    formats.
    """

    def __call__(self, source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
        """Yields the rows of a source in this format; what cannot be read is noted in `problems`.

        Args:
            kind: whether rows are read as cases or as documents, where the format has both.
        """
        ...


# --- ids: made from content where a source has none, and unique within a source

_HASH_BITS = (1 << 60) - 1
"""Keeps hashes small enough to be their own hashes, so that they can move to a larger array."""
_FIRST_SLOTS = 1 << 14


def derived_id(prefix: str, text: str, *, digits: int = 10) -> str:
    """An id for a record without one, made from its text alone and not from its place in a file.

    So results of two runs are compared case by case, also when lines were moved or added.
    Differences of case, white space and Unicode form do not count. Ids are in stored runs: a change
    makes them others.

    Args:
        prefix: the kind of record, such as ``q`` for a query.
        digits: hexadecimal digits of the id, an even number.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    # A surrogate that text from other programs may hold must not stop the hash.
    normal = " ".join(folded.split()).encode("utf-8", "surrogatepass")
    return f"{prefix}-{blake2b(normal, digest_size=digits // 2).hexdigest()}"


@dataclass(kw_only=True, slots=True)
class IdRegister:
    """Which ids were used, and where, in 12 bytes a slot.

    A dictionary of a million ids takes 150 MB; this takes 24 MB, because it keeps hashes of 60 bits
    in arrays (open addressing, linear probing, at most half full). Two different ids of a million
    share a hash with a probability of 4e-7.
    """

    _hashes: array[int] = field(default_factory=lambda: array("Q", (0,)) * _FIRST_SLOTS)
    """The hash of an id by slot; 0 marks a free one."""
    _lines: array[int] = field(default_factory=lambda: array("I", (0,)) * _FIRST_SLOTS)
    """The line of the record with the id in the same slot."""
    _used: int = 0
    """Slots that are not free."""
    _repeats: dict[str, int] = field(default_factory=dict[str, int])
    """Derived id to the last number behind it: the next search goes on from there."""

    def add(self, identifier: str | int, line: int) -> int | None:
        """Notes an id; returns the line of the earlier record with this id, None without one.

        Ids have to be unique, and a file may have millions: only a hash of 60 bits is kept.

        Args:
            identifier: the id, or the hash of one.
            line: the line of its record, from 1.
        """
        # Another one in each process, as Python's hashes of texts are: it is never stored.
        hashed = hash(identifier) & _HASH_BITS
        if hashed == 0:  # which marks a free slot
            hashed = 1
        hashes = self._hashes
        last_slot = len(hashes) - 1
        slot = hashed & last_slot
        while occupant := hashes[slot]:
            if occupant == hashed:
                return self._lines[slot]
            slot = (slot + 1) & last_slot
        hashes[slot] = hashed
        self._lines[slot] = line
        self._used += 1
        if 2 * self._used > last_slot:  # more than half full, searches become long
            self._grow()
        return None

    def add_derived(self, identifier: str, line: int) -> str:
        """Notes an id made from a text, as the first free one of ``id``, ``id-2``, ``id-3`` ...

        A text that comes again has the same derived id, and is a record of its own. The form of the
        number is in stored runs: a change makes their ids others.

        Returns:
            The id that the record gets.
        """
        if self.add(identifier, line) is None:
            return identifier
        number = self._repeats.get(identifier, 1) + 1
        while self.add(f"{identifier}-{number}", line) is not None:
            number += 1
        self._repeats[identifier] = number
        return f"{identifier}-{number}"

    def _grow(self) -> None:
        """Moves all ids of the register to arrays of twice the size: searches are short again.

        Sizes stay powers of two: a slot is found by masking a hash.
        """
        slots = zip(self._hashes, self._lines, strict=True)
        size = 2 * len(self._hashes)
        self._hashes = array("Q", (0,)) * size
        self._lines = array("I", (0,)) * size
        self._used = 0
        for hashed, line in slots:
            if hashed:
                self.add(hashed, line)  # a number below 2**61 - 1 is its own hash
