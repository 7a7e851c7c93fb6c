"""JSON as bytes: where its texts, brackets and elements are, without parsing it.

Only quotes and brackets are looked at to find where an element ends; the element's own bytes then
go through the usual parser. So memory holds one element, an element that is no JSON does not hide
the others, and each has a line number.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple, cast

import orjson

from ragbench.io.source import Problems, Source

_BLOCK_BYTES = 1 << 18
_SIGN = re.compile(rb'["\[\]{}]')
_ESCAPE = ord("\\")
_BETWEEN = b", \t\r\n"


class Element(NamedTuple):
    """One element of the array."""

    line: int
    """1-based line on which it begins."""
    raw: bytes
    """Its bytes, white space around it left out."""


class Repeated(NamedTuple):
    """A key that an object has twice."""

    name: str
    at: int
    """Offset of the second one."""


def repeated_key(raw: bytes, value: object) -> Repeated | None:
    """The first key that stands twice in one object of a JSON text; parsers keep the last."""
    if raw.count(b'":') + raw.count(b'" :') <= _count_keys(value):
        return None
    objects: list[set[str] | None] = []
    for sign, start, end in _tokens(raw, 0):
        if sign == b"{":
            objects.append(set())
        elif sign == b"[":
            objects.append(None)
        elif sign in b"]}":
            objects.pop()
        elif objects and (keys := objects[-1]) is not None and _COLON.match(raw, end):
            key: str = orjson.loads(raw[start:end])
            if key in keys:
                return Repeated(key, start)
            keys.add(key)
    return None


def _count_keys(value: object) -> int:
    count, left = 0, [value]
    while left:
        one = left.pop()
        if type(one) is dict:
            inner = cast("dict[str, object]", one)
            count += len(inner)
            left += [each for each in inner.values() if type(each) is dict or type(each) is list]
        elif type(one) is list:
            items = cast("list[object]", one)
            left += [each for each in items if type(each) is dict or type(each) is list]
    return count


_COLON = re.compile(rb"\s*:")


def array_key(head: bytes, keys: Sequence[str]) -> str | None:
    """Which of an object's own keys holds an array of objects or arrays, by the file's beginning.

    None when the file begins with no such object, or the beginning does not say.
    """
    ends = object_keys(head)
    for key in keys:
        if key in ends:
            value = head[ends[key] :].lstrip().removeprefix(b":").lstrip()
            if value[:1] == b"[" and value[1:].lstrip()[:1] in (b"{", b"["):
                return key
    return None


def object_keys(head: bytes) -> dict[str, int]:
    """The keys of the object that a file begins with, as far as the beginning shows them."""
    found: dict[str, int] = {}
    depth = 0
    for sign, start, end in _tokens(head, 0):
        if sign in b"{[":
            depth += 1
        elif sign in b"}]":
            depth -= 1
        elif depth == 1 and head[end : end + 20].lstrip()[:1] == b":":
            found[head[start + 1 : end - 1].decode("utf-8", "replace")] = end
    return found if head.lstrip()[:1] == b"{" else {}


def array_elements(source: Source, key: str | None, problems: Problems) -> Iterator[Element]:
    with source.opened(problems) as stream:
        if stream is not None:
            yield from _Scan(stream, source, key, problems).elements()


def _tokens(buffer: bytes, at: int) -> Iterator[tuple[bytes, int, int]]:
    """Brackets, and whole texts as a quote, each with where it begins and ends.

    Texts are most of a dump: their ends are looked for by `bytes.find`, which is ten times as fast
    as an expression that takes each letter in turn.
    """
    while (token := _SIGN.search(buffer, at)) is not None:
        sign, start = token.group(), token.start()
        at = start + 1
        if sign == b'"':
            at = _text_end(buffer, at)
            if at < 0:  # the text goes on in the next block
                return
        yield sign, start, at


def _text_end(buffer: bytes, at: int) -> int:
    """Where a text ends, its quote included; -1 when the buffer ends before it does."""
    while (end := buffer.find(b'"', at)) >= 0:
        if buffer[end - 1] != _ESCAPE:
            return end + 1
        escapes = end - len(buffer[at:end].rstrip(b"\\")) - at
        if escapes % 2 == 0:
            return end + 1
        at = end + 1
    return -1


@dataclass(slots=True)
class _Scan:
    """Reads blocks of a file and cuts elements out of them."""

    stream: BinaryIO
    source: Source
    key: str | None
    problems: Problems
    buffer: bytes = b""
    at: int = 0
    """Where in the buffer to go on."""
    line: int = 1
    """The line on which the buffer begins."""
    depth: int = 0
    inside: int | None = None
    """Depth of the wanted array, once it has begun."""
    start: int = 0
    """Where the element begins, or the one before it ended."""
    name: tuple[bytes, int] = field(default=(b"", -1))
    """The last text of the top-level object, and where it ended."""
    ended: bool = False

    def elements(self) -> Iterator[Element]:
        longest = self.source.limits.record
        while not self.ended:
            block = self.stream.read(max(_BLOCK_BYTES, len(self.buffer)))
            if not block:
                message = "the JSON is cut off: the array of records never ends"
                self._add(message, len(self.buffer))
                return
            if not self.buffer and self.line == 1 and self.start == 0:
                block = block.removeprefix(codecs.BOM_UTF8)
            self.buffer += block
            for element in self._scan():
                if len(element.raw) > longest:
                    self._add(self.source.limits.long_record("the element"), self.start)
                    return
                yield element
            self._drop()
            if len(self.buffer) > longest:
                self._add(self.source.limits.long_record("the element"), 0)
                return

    def _scan(self) -> Iterator[Element]:
        for sign, start, end in _tokens(self.buffer, self.at):
            self.at = end
            if sign in b"{[":
                yield from self._open(sign, start)
            elif sign in b"}]":
                yield from self._close()
                if self.ended:
                    return
            elif self.depth == 1 and self.inside is None:
                self.name = (self.buffer[start + 1 : end - 1], end)

    def _open(self, sign: bytes, at: int) -> Iterator[Element]:
        if self.inside is None:
            if sign == b"[" and self._is_wanted(at):
                self.inside, self.start = self.depth + 1, at + 1
        elif self.depth == self.inside:
            yield from self._between(at)
            self.start = at
        self.depth += 1

    def _close(self) -> Iterator[Element]:
        self.depth -= 1
        if self.inside is None:
            return
        if self.depth == self.inside:
            yield Element(self._line_of(self.start), self.buffer[self.start : self.at])
            self.start = self.at
        elif self.depth < self.inside:
            yield from self._between(self.at - 1)
            self.ended = True

    def _is_wanted(self, at: int) -> bool:
        if self.key is None:
            return self.depth == 0
        name, end = self.name
        return self.depth == 1 and name == self.key.encode() and self.buffer[end:at].strip() == b":"

    def _between(self, end: int) -> Iterator[Element]:
        """What stands between two elements, when it is more than a comma: no object for sure."""
        rest = self.buffer[self.start : end].strip(_BETWEEN)
        if rest:
            yield Element(self._line_of(self.start), rest)

    def _add(self, message: str, at: int) -> None:
        self.problems.add(message, path=self.source.name, line=self._line_of(at))

    def _line_of(self, position: int) -> int:
        return self.line + self.buffer.count(b"\n", 0, position)

    def _drop(self) -> None:
        done = self.at if self.inside is None else min(self.at, self.start)
        if self.inside is None and self.name[1] >= 0:
            done = min(done, self.name[1])
        self.line = self._line_of(done)
        self.buffer = self.buffer[done:]
        self.at -= done
        self.start -= done
        self.name = (self.name[0], self.name[1] - done)
