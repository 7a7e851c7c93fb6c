"""A guess of how a text is encoded that is not UTF-8: always reported."""

from __future__ import annotations

import codecs
import re
from dataclasses import replace
from pathlib import Path

from ragbench.io.source import Problems, Source


def encoding_of(where: str | Path) -> tuple[str | None, str]:
    """The encoding to read a file with, where it has to be guessed, and a note that says so.

    The encoding is None, and the note empty, where the file itself shows its encoding.
    """
    source = decoded(Source.of(where))
    return source.encoding, " ".join(source.notes)


_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LIKELY_ENCODINGS = [
    "cp1252",
    "cp1250",
    "cp1251",
    "cp1253",
    "cp1254",
    "gb18030",
    "big5",
    "shift_jis",
    "euc_jp",
    "euc_kr",
]
"""What spreadsheets and old exports write; with any of the hundred others, a short text is as
likely to be one as another."""
_ASCII_BYTES = bytes(range(128))
_WESTERN_LETTERS = frozenset(
    "ÄÖÜäöüßÀÂÇÈÉÊËÎÏÔÙÛàâçèéêëîïôùûÁÍÑÓÚáíñóúÃÕãõÅÆØåæøœ€£§°‘’“”„«»–—…•·²½\u00a0"
)
"""What Western European languages write; bytes of a text of another encoding are others, too."""
_SPANISH_OPENING = re.compile("[¿¡](?=[A-ZÁÉÍÓÚÑ])")
"""Western, too, but only before a capital letter: elsewhere the bytes are letters of others."""
_MIN_LETTERS = 40
"""Bytes beyond ASCII below which a guess is a toss-up: then the user has to say it."""
_DAMAGED_UTF8_RATIO = 3
"""UTF-8 letters for each wrong byte from which a text is damaged UTF-8, and nothing else."""


def decoded(place: Source) -> Source:
    """The source with its encoding, where that has to be guessed; a note on it tells the user.

    Old exports and spreadsheets are often not in UTF-8, and a wrong letter would make an answer a
    wrong one. A file or an address is closed afterwards, as it can be opened again; a stream keeps
    the bytes that were looked at.
    """
    # The user has named the encoding, or there are no bytes to guess it from.
    if place.encoding is not None or place.hub is not None or place.is_folder:
        return place
    head = place.head(Problems()) or b""
    if place.path is not None or place.address is not None:
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
    """The likely encoding of a text that is not UTF-8, from its first bytes; None without a guess.

    None where the text is UTF-8, also cut off or damaged; where it is JSON, which has no other
    encoding; and where nothing fits, or too few letters are there to tell.
    """
    if head.startswith(_BYTE_ORDER_MARKS) or b"\x00" in head:
        return None
    if head.lstrip().startswith((b"{", b"[")):
        return None
    # A letter at the end may be cut off: it does not say that the text is no UTF-8.
    text = head.decode("utf-8", "replace").rstrip("\ufffd")
    undecoded_bytes = text.count("\ufffd")
    utf8_letters = sum(letter > "\x7f" and letter != "\ufffd" for letter in text)
    if not undecoded_bytes or utf8_letters >= _DAMAGED_UTF8_RATIO * undecoded_bytes:
        return None
    # A letter that the head cuts in two would rule its encoding out.
    end_of_lines = head.rfind(b"\n") + 1
    whole_lines = head[:end_of_lines] or head
    western = _SPANISH_OPENING.sub("", whole_lines.decode("cp1252", "replace"))
    if all(letter < "\x80" or letter in _WESTERN_LETTERS for letter in western):
        return "cp1252"
    bytes_beyond_ascii = whole_lines.translate(None, _ASCII_BYTES)
    if len(bytes_beyond_ascii) < _MIN_LETTERS:
        return None
    from charset_normalizer import from_bytes

    best = from_bytes(whole_lines, cp_isolation=_LIKELY_ENCODINGS).best()
    if best is None:
        return None
    return best.encoding
