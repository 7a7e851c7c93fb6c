"""Bytes to lines of UTF-8, and a guess of how a text is encoded that is not: always reported."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ragbench.io.source import Problems, Source, noting_read_errors

_UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_UTF16_CODECS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_CHUNK_BYTES = 1 << 20
_EXPECTED = (
    "expected UTF-8 (with or without a byte order mark) or UTF-16 with one; name another encoding "
    "with --encoding, such as cp1252 or gb18030"
)


class Line(NamedTuple):
    number: int
    offset: int
    """How many bytes stand before it in the file; meaningful for UTF-8 files only."""
    raw: bytes


def read_lines(source: Source, problems: Problems, *, piece: int = 0) -> Iterator[Line]:
    """Yields the lines of a source, up to one that is longer than its limits allow.

    Memory holds one line (or 1 MB of a UTF-16 file).

    Args:
        piece: bytes; longer lines then come in pieces, and none is too long.
    """
    path, longest = source.name, piece or source.limits.record
    with source.opened(problems) as stream:
        if stream is None:
            return
        codec = None if source.encoding == "utf-8" else source.encoding
        first = b"" if codec else stream.readline(longest + 1 + len(codecs.BOM_UTF8))
        if first.startswith(_UTF32_MARKS):
            problems.add(f"the file is UTF-32: {_EXPECTED}", path=path)
            return
        codec = codec or _UTF16_CODECS.get(first[:2])
        offset = 0
        if codec is not None:
            lines = _decoded_lines(first, stream, codec, longest, path, problems)
        else:
            offset = len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0
            lines = chain((first[offset:],), iter(partial(stream.readline, longest + 1), b""))
        for number, raw in enumerate(lines, start=1):
            if len(raw) > longest and not piece:
                message = source.limits.long_record("the line")
                problems.add(message, path=path, line=number)
                return
            if raw:
                yield Line(number, offset, raw)
            offset += len(raw)


def read_bytes(source: Source, problems: Problems) -> bytes | None:
    """The whole source in UTF-8 without byte order mark; None, and a problem, when it fails.

    The bytes of a UTF-8 file are not checked: the parser that gets them does it anyway.
    """
    known = len(problems)
    whole = bytearray()
    with noting_read_errors(source.name, problems):
        for line in read_lines(source, problems, piece=_CHUNK_BYTES):
            whole += line.raw
            source.limits.check_held(len(whole))
    return bytes(whole) if len(problems) == known else None


def decode_line(line: Line, path: str, problems: Problems) -> str | None:
    """The line as text; None, and a problem with the byte offset, when it is not UTF-8."""
    try:
        return line.raw.decode()
    except UnicodeDecodeError as error:
        offset, byte = line.offset + error.start, line.raw[error.start]
        message = f"byte 0x{byte:02x} at byte offset {offset} is not UTF-8: {_EXPECTED}"
        problems.add(message, path=path, line=line.number)
        return None


def decode_head(head: bytes, encoding: str | None = None) -> str:
    """The beginning of a file as text, good enough to recognise a format by."""
    if encoding is not None:
        return head.decode(encoding, "replace").removeprefix("\ufeff")
    for mark, codec in _UTF16_CODECS.items():
        if head.startswith(mark) and not head.startswith(_UTF32_MARKS):
            return head[len(mark) :].decode(codec, "replace")
    return head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def _decoded_lines(
    first: bytes, stream: BinaryIO, codec: str, longest: int, path: str, problems: Problems
) -> Iterator[bytes]:
    """The lines of a text that is not UTF-8, in UTF-8; one that is longer comes in pieces."""
    decoder = codecs.getincrementaldecoder(codec)()
    chunk, end, rest = first[2:], len(first), ""
    is_start, is_last = True, False
    while not is_last:
        more = stream.read(_CHUNK_BYTES)
        is_last = not more
        try:
            text = decoder.decode(chunk, final=is_last)
        except UnicodeDecodeError as error:
            # The error's object holds what the decoder kept from before, then the chunk.
            offset = end - len(error.object) + error.start
            name = "UTF-16" if codec.startswith("utf-16") else codec
            problems.add(f"broken {name} at byte offset {offset}: {_EXPECTED}", path=path)
            break
        if is_start and text:
            text, is_start = text.removeprefix("\ufeff"), False
        *whole, rest = (rest + text).split("\n")
        yield from (f"{line}\n".encode() for line in whole)
        if len(rest) > longest:
            yield rest.encode()
            rest = ""
        chunk, end = more, end + len(more)
    if rest:
        yield rest.encode()


def encoding_of(where: str | Path) -> tuple[str | None, str]:
    """The encoding to read a file with, where it has to be guessed, and what to say of that."""
    found = decoded(Source.of(where))
    return found.encoding, " ".join(found.notes)


_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LIKELY = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "gb18030", "big5", "shift_jis", "euc_jp"),
    "euc_kr",
)
"""What spreadsheets and old exports write; with any of the hundred others, a short text is as
likely to be one as another."""
_ASCII = bytes(range(128))
_WESTERN = frozenset("ÄÖÜäöüßÀÂÇÈÉÊËÎÏÔÙÛàâçèéêëîïôùûÁÍÑÓÚáíñóúÃÕãõÅÆØåæøœ€£§°‘’“”„«»–—…•·²½\u00a0")
"""What Western European languages write; bytes of a text of another encoding are others, too."""
_OPENING = re.compile("[¿¡](?=[A-ZÁÉÍÓÚÑ])")
_ENOUGH = 40
"""Bytes beyond ASCII below which a guess is a toss-up: then the user has to say it."""
_DAMAGED = 3
"""UTF-8 letters for each wrong byte from which a text is damaged UTF-8, and nothing else."""


def decoded(place: Source) -> Source:
    """The source with its encoding, where that has to be guessed; the guess is among its notes.

    A file is not left open; a stream keeps what was looked at of it.
    """
    if place.encoding is not None or place.hub is not None or place.is_folder:
        return place
    head = place.head(Problems()) or b""
    if place.path is not None:
        place.close()
    try:
        head.decode()
        return place
    except UnicodeDecodeError:
        guess = guess_encoding(head)
    if guess is None:
        return place
    note = f"'{place.name}' is not UTF-8 and is read as {guess}, a guess (--encoding)"
    return replace(place, encoding=guess, notes={**place.notes, note: None})


def guess_encoding(head: bytes) -> str | None:
    """Guesses the encoding of a text that is not UTF-8.

    None where the text is UTF-8, also cut off or damaged, or JSON, which has no other encoding, or
    where nothing fits.
    """
    if head.startswith(_MARKS) or b"\x00" in head or head.lstrip()[:1] in (b"{", b"["):
        return None
    text = head.decode("utf-8", "replace").rstrip("\ufffd")
    wrong = text.count("\ufffd")
    right = sum(letter > "\x7f" and letter != "\ufffd" for letter in text)
    if not wrong or right >= _DAMAGED * wrong:
        return None
    # A letter that the head cuts in two would rule its encoding out.
    whole = head[: head.rfind(b"\n") + 1] or head
    letters = whole.translate(None, _ASCII)
    western = _OPENING.sub("", whole.decode("cp1252", "replace"))
    if all(letter < "\x80" or letter in _WESTERN for letter in western):
        return "cp1252"
    if len(letters) < _ENOUGH:
        return None
    from charset_normalizer import from_bytes

    best = from_bytes(whole, cp_isolation=list(_LIKELY)).best()
    return None if best is None else best.encoding
