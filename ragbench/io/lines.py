"""Bytes to lines of UTF-8; folders of texts and documents."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ragbench.io.converted import CONVERTED, ConversionError, Converter, converter_of
from ragbench.io.source import Kind, NotingReadErrors, Problems, Row, Source

_UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_UTF16_CODECS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_CHUNK_BYTES = 1 << 20
_EXPECTED = (
    "expected UTF-8 (with or without a byte order mark) or UTF-16 with one; name another encoding "
    "with --encoding, such as cp1252 or gb18030"
)


class Line(NamedTuple):
    """One line, end of line included."""

    number: int
    """1-based."""
    offset: int
    """How many bytes stand before it in the file; meaningful for UTF-8 files only."""
    raw: bytes
    """The line in UTF-8; not checked yet when the file is UTF-8 itself."""


def read_lines(source: Source, problems: Problems) -> Iterator[Line]:
    """Yields the lines of a source, up to one that is longer than its limits allow.

    Memory holds one line (or 1 MB of a UTF-16 file).
    """
    longest = source.limits.record
    for line in _pieces(source, longest, problems):
        if len(line.raw) > longest:
            message = source.limits.long_record("the line")
            problems.add(message, path=source.name, line=line.number)
            return
        yield line


def read_bytes(source: Source, problems: Problems) -> bytes | None:
    """The whole source in UTF-8 without byte order mark; None, and a problem, when it fails.

    The bytes of a UTF-8 file are not checked: the parser that gets them does it anyway.
    """
    known = len(problems)
    whole = bytearray()
    with NotingReadErrors(source.name, problems):
        for piece in _pieces(source, _CHUNK_BYTES, problems):
            whole += piece.raw
            source.limits.check_held(len(whole))
    return bytes(whole) if len(problems) == known else None


def _pieces(source: Source, longest: int, problems: Problems) -> Iterator[Line]:
    """The lines of a source; one that is longer comes in pieces."""
    with source.opened(problems) as stream:
        if stream is not None:
            yield from _lines(stream, source.name, longest, problems, source.encoding)


def decode_line(line: Line, path: str, problems: Problems) -> str | None:
    """The line as text; None, and a problem with the byte offset, when it is not UTF-8."""
    try:
        return line.raw.decode()
    except UnicodeDecodeError as error:
        _add_not_utf8(error, path, line, problems)
        return None


def decode_head(head: bytes, encoding: str | None = None) -> str:
    """The beginning of a file as text, good enough to recognise a format by."""
    if encoding is not None:
        return head.decode(encoding, "replace").removeprefix("\ufeff")
    for mark, codec in _UTF16_CODECS.items():
        if head.startswith(mark) and not head.startswith(_UTF32_MARKS):
            return head[len(mark) :].decode(codec, "replace")
    return head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def _add_not_utf8(error: UnicodeDecodeError, path: str, line: Line, problems: Problems) -> None:
    offset = line.offset + error.start
    byte = line.raw[error.start]
    message = f"byte 0x{byte:02x} at byte offset {offset} is not UTF-8: {_EXPECTED}"
    problems.add(message, path=path, line=line.number)


def _lines(
    stream: BinaryIO, path: str, longest: int, problems: Problems, encoding: str | None
) -> Iterator[Line]:
    if encoding not in (None, "utf-8"):
        yield from _decoded_lines(_decoded_chunks(b"", stream, encoding, path, problems), longest)
        return
    next_line = partial(stream.readline, longest + 1)
    first = stream.readline(longest + 1 + len(codecs.BOM_UTF8))
    if first.startswith(_UTF32_MARKS):
        problems.add(f"the file is UTF-32: {_EXPECTED}", path=path)
        return
    codec = _UTF16_CODECS.get(first[:2])
    if codec is not None:
        yield from _decoded_lines(_decoded_chunks(first, stream, codec, path, problems), longest)
        return
    offset = 0
    if first.startswith(codecs.BOM_UTF8):
        offset = len(codecs.BOM_UTF8)
        first = first[offset:]
    if not first:
        return
    for number, raw in enumerate(chain((first,), iter(next_line, b"")), start=1):
        yield Line(number, offset, raw)
        offset += len(raw)


def _decoded_lines(chunks: Iterable[str], longest: int) -> Iterator[Line]:
    rest = ""
    number = 1
    for text in chunks:
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            yield Line(number, 0, f"{line}\n".encode())
            number += 1
        if len(rest) > longest:
            yield Line(number, 0, rest.encode())
            rest = ""
    if rest:
        yield Line(number, 0, rest.encode())


def _decoded_chunks(
    first: bytes, stream: BinaryIO, codec: str, path: str, problems: Problems
) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(codec)()
    chunk, end = first[2:], len(first)
    is_start = True
    while True:
        more = stream.read(_CHUNK_BYTES)
        try:
            text = decoder.decode(chunk, final=not more)
        except UnicodeDecodeError as error:
            # The error's object holds what the decoder kept from before, then the chunk.
            offset = end - len(error.object) + error.start
            name = "UTF-16" if codec.startswith("utf-16") else codec
            problems.add(f"broken {name} at byte offset {offset}: {_EXPECTED}", path=path)
            return
        if is_start and text:
            text, is_start = text.removeprefix("\ufeff"), False
        yield text
        if not more:
            return
        chunk, end = more, end + len(more)


SUFFIXES = frozenset({".txt", ".md", ".markdown", *CONVERTED})


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a file, in the order of their paths; the id is the path in the folder.

    A Markdown file's first heading of the first level is its title. PDF, HTML and Word files are
    converted; in a folder those are left out whose package is not installed. Memory holds one file.
    """
    if kind != "documents":
        problems.add("text files hold documents, not cases", path=source.name)
        return
    for name, file in _files(source):
        converter = converter_of(file.suffix)
        if converter is not None:
            found = _converted(file, converter, problems)
        else:
            text = _text(file, problems)
            title = None if text is None or file.suffix == ".txt" else _heading(text)
            found = None if text is None else (text, title)
        if found is not None:
            yield Row(file.name, None, {"id": name, "text": found[0], "title": found[1]})


def text_files(folder: Path) -> Iterator[str]:
    """Paths of the files below a folder that `read` reads, relative to it, but for hidden ones."""
    for path in _shown(folder):
        if _is_read(path):
            yield path.relative_to(folder).as_posix()


def other_files(folder: Path) -> list[str]:
    """Paths of the files below a folder that `text_files` leaves out, but for hidden ones."""
    return [path.relative_to(folder).as_posix() for path in _shown(folder) if not _is_read(path)]


def _shown(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent) / name for name in sorted(names) if not name.startswith("."))


def _is_read(path: Path) -> bool:
    converter = converter_of(path.suffix)
    return path.suffix.lower() in SUFFIXES and (converter is None or converter.is_installed)


def _files(source: Source) -> Iterator[tuple[str, Source]]:
    if source.path is None or not source.is_folder:
        yield (source.name if source.path is None else source.path.name), source
        return
    for name in text_files(source.path):
        file = source.child(name)
        if file is not None:
            yield name, file


def _converted(
    file: Source, converter: Converter, problems: Problems
) -> tuple[str, str | None] | None:
    """The text and title of a document; None, and a problem, when it cannot be read."""
    known = len(problems)
    found: tuple[str, str | None] | None = None
    with file.opened(problems) as stream:
        if stream is not None:
            data = stream.read(file.limits.file + 1)
            file.limits.check_held(len(data))
            try:
                found = converter.convert(data, file.limits)
            except ConversionError as error:
                problems.add(str(error), path=file.name)
    if found is not None and len(found[0].encode()) > file.limits.record:
        problems.add(file.limits.long_record("the text"), path=file.name)
    return found if len(problems) == known else None


def _text(file: Source, problems: Problems) -> str | None:
    raw = read_bytes(file, problems)
    if raw is not None and len(raw) > file.limits.record:
        problems.add(file.limits.long_record("the text"), path=file.name)
        return None
    return None if raw is None else decode_line(Line(1, 0, raw), file.name, problems)


def _heading(text: str) -> str | None:
    for line in text.splitlines():
        if line.startswith("# ") and line[2:].strip():
            return line[2:].strip()
    return None
