"""JSON and JSON Lines, whole or streamed, with lines.

Only quotes and brackets are looked at to find where an element ends; the element's own bytes then
go through the usual parser. So memory holds one element, an element that is no JSON does not hide
the others, and each has a line number.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple, cast

import orjson

from ragbench.io.lines import Line, decode_line, read_bytes, read_lines
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import ValueProblem, describe

__all__ = [
    "Element",
    "array_elements",
    "array_key",
    "load",
    "object_keys",
    "parse_json",
    "parse_line",
    "read_json",
    "read_json_arrays",
    "read_json_lines",
]


def parse_json(raw: bytes) -> object:
    """Parses one JSON text. NaN, which Python writes for a missing value, is read as null.

    Raises:
        ValueProblem: it is not JSON; the message says where.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if b"NaN" not in raw and b"Infinity" not in raw:
            place = f"line {error.lineno} column {error.colno}" if error.lineno > 1 else ""
            where = place or f"column {error.colno}"
            raise ValueProblem(f"not valid JSON at {where}: {error.msg}") from error
    return _parse_with_nan(raw)


def parse_line(line: Line, path: str, problems: Problems) -> object | None:
    """Parses one line of JSON; None, and a problem, when it is none."""
    try:
        return parse_json(line.raw)
    except ValueProblem as problem:
        message = str(problem)
    if decode_line(line, path, problems) is None:
        return None
    if b"\x00" in line.raw:
        message = "the line holds NUL bytes: the file is damaged, or UTF-16 without a mark"
    elif not line.raw.endswith(b"\n"):
        message = f"the last line is cut off or is {message}"
    problems.add(message, path=path, line=line.number)
    return None


def _parse_with_nan(raw: bytes) -> object:
    try:
        value: object = json.loads(raw, parse_constant=_parse_constant)
        # The standard library lets lone surrogates and endless integers through: this does not.
        return orjson.loads(orjson.dumps(value))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueProblem(f"not valid JSON: {error}") from error


def _parse_constant(name: str) -> None:
    if name != "NaN":
        raise ValueError(f"{name} is not a JSON number")


_ARRAY_KEYS: Mapping[Kind, tuple[str, ...]] = {
    "cases": ("cases", "data", "questions", "examples", "samples"),
    "documents": ("documents", "corpus", "passages", "data"),
}


def load(source: Source, problems: Problems) -> object | None:
    """The file's JSON value; None, and a problem, when it is not JSON."""
    raw = read_bytes(source, problems)
    if raw is None or not raw.strip():
        return None
    try:
        return parse_json(raw)
    except ValueProblem as problem:
        if decode_line(Line(1, 0, raw), source.name, problems) is not None:
            problems.add(str(problem), path=source.name)
    return None


def read_json(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per object of the array; the row's line is its place in the array."""
    yield from read_json_arrays(source, _ARRAY_KEYS[kind], problems)


def read_json_arrays(source: Source, paths: Sequence[str], problems: Problems) -> Iterator[Row]:
    """As `read_json`, with the array at the first of these paths that has one.

    Args:
        source: the file; it is loaded whole.
        paths: keys, with dots where they lead deeper; the file may also be the array itself.
        problems: takes what is wrong.
    """
    known = len(problems)
    value = load(source, problems)
    if value is None and len(problems) > known:
        return
    path = source.name
    items = _array(value, paths)
    if items is None:
        if value is not None:
            keys = ", ".join(f"'{key}'" for key in paths)
            problems.add(f"expected a JSON array, or an object with one under {keys}", path=path)
        return
    for number, item in enumerate(items, start=1):
        if isinstance(item, dict):
            yield Row(path, number, cast("Mapping[str, object]", item))
        else:
            message = f"expected a JSON object, found {describe(item)}"
            problems.add(message, path=path, line=number)


def _array(value: object, paths: Sequence[str]) -> list[object] | None:
    if isinstance(value, dict):
        whole = cast("dict[str, object]", value)
        held = (_at(whole, path) for path in paths)
        for found in held:
            if isinstance(found, list):
                return cast("list[object]", found)
        return None
    return cast("list[object]", value) if isinstance(value, list) else None


def _at(value: dict[str, object], path: str) -> object:
    key, dot, deeper = path.partition(".")
    held = value.get(key)
    if not dot:
        return held
    return _at(cast("dict[str, object]", held), deeper) if isinstance(held, dict) else None


def read_line_values(source: Source, problems: Problems) -> Iterator[tuple[Line, object]]:
    """Yields each line of a JSON Lines file with its value; blank lines are skipped.

    Memory holds one line. A line that does not parse is a problem and is left out.
    """
    path = source.name
    for line in read_lines(source, problems):
        value: object
        try:
            value = orjson.loads(line.raw)
        except orjson.JSONDecodeError:
            if not line.raw.strip():
                continue
            known = len(problems)
            value = parse_line(line, path, problems)
            if len(problems) > known:
                continue
        yield line, value


def read_json_lines(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a line; blank lines are skipped. Memory holds one line."""
    path = source.name
    for line, value in read_line_values(source, problems):
        if type(value) is dict:
            yield Row(path, line.number, cast("Mapping[str, object]", value))
        else:
            message = f"expected a JSON object, found {describe(value)}"
            if line.raw.lstrip().startswith(b"["):
                message += " (for one JSON array, name the format json)"
            problems.add(message, path=path, line=line.number)


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


def array_key(head: bytes, keys: Sequence[str]) -> str | None:
    """Which of an object's own keys holds an array of objects or arrays, by the file's beginning.

    Args:
        head: the beginning of the file.
        keys: the keys that may, the more telling ones first.

    Returns:
        The key; None when the file begins with no such object, or the beginning does not say.
    """
    ends = object_keys(head)
    for key in keys:
        if key in ends:
            value = head[ends[key] :].lstrip().removeprefix(b":").lstrip()
            if value[:1] == b"[" and value[1:].lstrip()[:1] in (b"{", b"["):
                return key
    return None


def object_keys(head: bytes) -> dict[str, int]:
    """The keys of the object that a file begins with, as far as the beginning shows them.

    Returns:
        Key to where its name ends.
    """
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
    """Yields the elements of the file's array.

    Args:
        source: the file, in UTF-8.
        key: the key of the top-level object that holds the array; None when the file is the array.
        problems: takes what stands in the way, such as a file that is cut off.
    """
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
        """Forgets what is through."""
        done = self.at if self.inside is None else min(self.at, self.start)
        if self.inside is None and self.name[1] >= 0:
            done = min(done, self.name[1])
        self.line = self._line_of(done)
        self.buffer = self.buffer[done:]
        self.at -= done
        self.start -= done
        self.name = (self.name[0], self.name[1] - done)
