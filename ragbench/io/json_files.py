"""Lines of text in UTF-8; JSON and JSON Lines, with the line of each record.

A key that stands twice is never dropped.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, NamedTuple, TypeGuard, cast

import orjson

from ragbench.core.in_words import UnreadableError
from ragbench.errors import InputError
from ragbench.io.dumps.form import fields_shown, getter
from ragbench.io.fields import field_names, squash, targets
from ragbench.io.source import Kind, Problems, Row, Source, has_few_fields, noting_read_errors
from ragbench.io.values import ValueProblem, as_object, describe, is_list, is_object
from ragbench.safe_text import counted
from ragbench.shell import shell_quoted

_UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_UTF16_CODECS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_CHUNK_BYTES = 1 << 20
_CONTAINERS = frozenset({dict, list})
"""What may hold further objects: texts and numbers are not looked into."""
_EXPECTED = (
    "expected UTF-8 (with or without a byte order mark) or UTF-16 with one; name another encoding "
    "with --encoding, such as cp1252 or gb18030"
)


class Line(NamedTuple):
    """A line of a file as its bytes, with what a problem says of its place."""

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
    path = source.name
    longest = piece or source.limits.record
    with source.opened(problems) as stream:
        if stream is None:
            return
        codec = source.encoding
        if codec == "utf-8":  # read as it is, like a file of which nothing was said
            codec = None
        beginning = b""
        if codec is None:  # the mark at the beginning shows how the file is encoded
            beginning = stream.readline(longest + 1 + len(codecs.BOM_UTF8))
            if beginning.startswith(_UTF32_MARKS):
                problems.add(f"the file is UTF-32: {_EXPECTED}", path=path)
                return
            codec = _UTF16_CODECS.get(beginning[:2])
        offset = 0
        if codec is not None:
            lines = _decoded_lines(beginning, stream, codec, longest, path, problems)
        else:
            if beginning.startswith(codecs.BOM_UTF8):
                offset = len(codecs.BOM_UTF8)
            following = iter(partial(stream.readline, longest + 1), b"")
            lines = chain((beginning[offset:],), following)
        for number, raw in enumerate(lines, start=1):
            if len(raw) > longest and not piece:
                message = source.limits.long_record("the line")
                problems.add(message, path=path, line=number)
                return
            if raw:
                yield Line(number, offset, raw)
            offset += len(raw)


def read_bytes(source: Source, problems: Problems) -> bytes | None:
    """The whole source in UTF-8 without a byte order mark; None, and a problem, when it fails.

    The bytes are not checked to be UTF-8: the parser that gets them does that anyway.
    """
    count_before = problems.count
    content = bytearray()
    with noting_read_errors(source.name, problems):
        # In pieces: a file of JSON may be a single line.
        for line in read_lines(source, problems, piece=_CHUNK_BYTES):
            content += line.raw
            source.limits.check_held(len(content))
    return bytes(content) if problems.count == count_before else None


def decode_line(line: Line, path: str, problems: Problems) -> str | None:
    """A line of a file as text; None, and a problem with the byte offset, when it is not UTF-8.

    The offset lets a user find the byte in an editor; the text of the problem names ``--encoding``.
    """
    try:
        return line.raw.decode()
    except UnicodeDecodeError as error:
        offset = line.offset + error.start
        byte = line.raw[error.start]
        message = f"byte 0x{byte:02x} at byte offset {offset} is not UTF-8: {_EXPECTED}"
        problems.add(message, path=path, line=line.number)
        return None


def decode_head(head: bytes, encoding: str | None = None) -> str:
    """The beginning of a file as text, good enough to recognise its format by.

    Broken letters are replaced, not reported: the head may end within one, and the file's reader
    reports damage later.
    """
    if encoding is not None:
        return head.decode(encoding, "replace").removeprefix("\ufeff")
    for mark, codec in _UTF16_CODECS.items():
        if head.startswith(mark) and not head.startswith(_UTF32_MARKS):
            return head[len(mark) :].decode(codec, "replace")
    return head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def _decoded_lines(
    beginning: bytes, stream: BinaryIO, codec: str, longest: int, path: str, problems: Problems
) -> Iterator[bytes]:
    """Yields the lines of a text that is not UTF-8, as UTF-8; a line that is too long in pieces.

    All readers of text work on UTF-8, so other encodings are turned into it here, a block at a
    time.

    Args:
        beginning: what was read from the stream already, with the mark of UTF-16 (two bytes).
        stream: the rest of the file.
        codec: Python's name of the encoding.
        longest: bytes of a line that is still yielded whole.
        path: what problems call the file.
        problems: takes a byte that the encoding does not have; reading ends there.
    """
    decoder = codecs.getincrementaldecoder(codec)()
    block = beginning[2:]
    end = len(beginning)  # of the block, in the file
    unfinished = ""
    is_start = True
    is_last = False
    while not is_last:
        following = stream.read(_CHUNK_BYTES)
        is_last = not following
        try:
            text = decoder.decode(block, final=is_last)
        except UnicodeDecodeError as error:
            # The error's object holds what the decoder kept from before, then the block.
            offset = end - len(error.object) + error.start
            name = "UTF-16" if codec.startswith("utf-16") else codec
            problems.add(f"broken {name} at byte offset {offset}: {_EXPECTED}", path=path)
            break
        if is_start and text:
            text = text.removeprefix("\ufeff")
            is_start = False
        *lines, unfinished = (unfinished + text).split("\n")
        for line in lines:
            yield f"{line}\n".encode()
        if len(unfinished) > longest:
            yield unfinished.encode()
            unfinished = ""
        block = following
        end += len(following)
    if unfinished:
        yield unfinished.encode()


# --- JSON


def parse_json(raw: bytes) -> object:
    """The value of one JSON text. NaN, which Python writes for a missing value, is read as null.

    Raises:
        ValueProblem: the text is no JSON; it has the place.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if b"NaN" not in raw and b"Infinity" not in raw:
            place = f"column {error.colno}"
            if error.lineno > 1:
                place = f"line {error.lineno} {place}"
            raise ValueProblem(f"not valid JSON at {place}: {error.msg}") from error
    try:
        value: object = json.loads(raw, parse_constant=_parse_constant)
        # The standard library lets lone surrogates and endless integers through: this does not.
        return orjson.loads(orjson.dumps(value))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueProblem(f"not valid JSON: {error}") from error


def _parse_constant(name: str) -> None:
    """Reads NaN as null, and refuses an infinity; the parser calls it for these names.

    Python writes NaN into JSON for a missing value. An infinity is no value that is missing.
    """
    if name != "NaN":
        raise ValueError(f"{name} is not a JSON number")


_QUESTION_NAMES = frozenset({"query", "question", "userinput"})
"""Names of a question, in the spelling of `squash`."""


def questions_of(value: Mapping[str, Any]) -> list[Any]:
    """The values of an object's fields that are named like a question; none of an envelope.

    An object with a question is a record, whose lists are its fields. An object without a question
    may be an envelope: an object around the list of the records.
    """
    questions: list[Any] = []
    for name, item in value.items():
        if squash(str(name)) in _QUESTION_NAMES:
            questions.append(item)
    return questions


def load(source: Source, problems: Problems) -> object | None:
    """The JSON value of a whole file; None, and a problem, when it is no JSON.

    Bytes that are no text, and keys that an object has twice, are problems, too: the caller gets
    only a value that is sure.
    """
    raw = read_bytes(source, problems)
    if raw is None or not raw.strip():
        return None
    try:
        value = parse_json(raw)
    except ValueProblem as problem:
        # Bytes that are no text are noted by `decode_line`, with their offset.
        if decode_line(Line(1, 0, raw), source.name, problems) is not None:
            problems.add(str(problem), path=source.name)
        return None
    if not is_unambiguous(raw, value, source.name, 1, problems):
        return None
    return value


def is_unambiguous(raw: bytes, value: object, path: str, line: int, problems: Problems) -> bool:
    """Whether no object of a JSON text has a key twice; else a problem names the second one.

    A parser keeps the last of the two values, so that one answer would be lost without a word. The
    check is cheap: only where the text seems to have more keys than its value, the text is read
    again.

    Args:
        raw: the text.
        value: the text as it was parsed.
        path: what the problem calls the file.
        line: the line in the file on which the text begins.
        problems: takes the problem.
    """
    # Too many at most: a text may hold a quote and a colon. More keys are a suspicion alone.
    keys_in_text = sum(1 for _ in _END_OF_KEY.finditer(raw))
    if keys_in_text <= _count_keys(value):
        return True
    repeated = _repeated_key(raw)
    if repeated is None:
        return True
    offset, key = repeated
    message = "the key stands twice in one object: it is unknown which of its values is meant"
    problems.add(message, path=path, line=line + raw.count(b"\n", 0, offset), field=key)
    return False


def parse_unambiguous(raw: bytes, path: str) -> object:
    """The value of one JSON text that comes whole, such as a server's answer.

    Args:
        path: what errors call the text.

    Raises:
        ValueProblem: the text is no JSON, or an object in it has a key twice.
    """
    raw = raw.removeprefix(codecs.BOM_UTF8)
    value = parse_json(raw)
    problems = Problems()
    if not is_unambiguous(raw, value, path, 1, problems):
        raise ValueProblem(str(problems.items[0]))
    return value


def _count_keys(value: object) -> int:
    """How many keys the objects in a JSON value have, at all depths.

    `is_unambiguous` compares it with the keys in the text: fewer means that a parser dropped one.
    Without recursion, which a value that is nested deep would exhaust.
    """
    count = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is dict:
            inner = cast("dict[str, object]", item)
            count += len(inner)
            waiting += [each for each in inner.values() if type(each) in _CONTAINERS]
        elif type(item) is list:
            items = cast("list[object]", item)
            waiting += [each for each in items if type(each) in _CONTAINERS]
    return count


OUTER = ("resourceSpans", "resource_spans", "batches", "traces", "runs", "data", "spans")
"""Where a JSON object over a whole file keeps its records."""
OTLP = frozenset(OUTER[:3])
"""Those of them with the resource spans of OTLP, which are read by the name of their list."""
_END_OF_KEY = re.compile(rb'"\s*:')
_TEXT = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?', re.DOTALL)
"""A text of JSON, and the colon after it if it is a key."""


def _repeated_key(raw: bytes) -> tuple[int, str] | None:
    """The first key of a JSON text that its object has already, with its offset; else None.

    A parser of JSON gives the keys of an object in order, but not their places. So each key is
    first written anew with its offset in it. A text that is nested too deep gives None: no reader
    takes it anyway.
    """
    repeated: list[tuple[int, str]] = []
    look = partial(_note_repeated_keys, repeated)
    try:
        # Each key carries its place, behind the last NUL in it.
        # Values do not count here: a number of any length may stay a text.
        text = _TEXT.sub(_key_with_place, raw)
        json.loads(text, object_pairs_hook=look, parse_int=str, parse_float=str)
    except RecursionError:  # nested deeper than anything that is read
        return None
    return min(repeated, default=None)


def _key_with_place(text: re.Match[bytes]) -> bytes:
    """A key of JSON with its offset behind a NUL in it; a text that is a value as it is.

    A parser passes keys on without their places: so each key carries its own through the parser.

    Args:
        text: a match of `_TEXT`.
    """
    if text[2] is None:  # a value
        return text[0]
    return b'"%b\\u0000%d":' % (text[1], text.start())


def _note_repeated_keys(
    repeated: list[tuple[int, str]], pairs: Sequence[tuple[str, object]]
) -> None:
    """Notes the keys that one JSON object has twice; the parser calls this for each object.

    Args:
        repeated: takes the offset and the name of each such key.
        pairs: the object's keys with their values; each key as `_key_with_place` wrote it.
    """
    seen: set[str] = set()
    for name, _ in pairs:
        key, _, place = name.rpartition("\0")
        if key in seen:
            repeated.append((int(place), key))
        seen.add(key)


_BLOCK_BYTES = 1 << 18
"""How much of a file is read at least in one go while its elements are cut out."""
_SIGN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{}]', re.DOTALL)
"""A text of JSON, a quote that begins one without an end, or a bracket."""


def _brackets_and_texts(buffer: bytes, start: int = 0) -> Iterator[tuple[bytes, int, int]]:
    """Yields each bracket and each whole text of some JSON: its first byte, its start and its end.

    By the brackets alone a huge array is cut into its elements. A bracket within a text is a part
    of the text, so texts are skipped as a whole. A text that is cut off ends the search: call it
    again with more of the file.
    """
    for match in _SIGN.finditer(buffer, start):
        begin, end = match.span()
        if end - begin == 1 and buffer[begin:end] == b'"':
            return  # the text is cut off
        yield buffer[begin : begin + 1], begin, end


_SHOWN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},:]', re.DOTALL)
"""As `_SIGN`, or the comma and the colon between the parts of an object."""


def shown_value(text: str) -> object:
    """The JSON value that a text begins with, as far as the text shows it.

    What is cut off is left out; a key whose value is cut off is there with null. Null, too, where
    there is no such value. By this look at the beginning of a file its form is recognised, however
    large the file is.
    """
    try:
        return cast("object", json.loads(text))
    except json.JSONDecodeError as error:
        text = text[: error.pos]
    except Exception:  # noqa: BLE001  # a look decides nothing: the reader reports what is wrong
        return None
    end = 0
    brackets = ""  # those that close what is open, the innermost first
    ending = ""  # what makes the text up to `end` whole
    for token in _SHOWN.finditer(text):
        sign = token[0]
        if sign == '"':
            break
        if sign == "{":
            brackets = "}" + brackets
        elif sign == "[":
            brackets = "]" + brackets
        elif sign in "}]":
            brackets = brackets[1:]
        elif sign not in ",:":
            continue
        if sign == ",":
            end = token.start()  # JSON has no comma before a closing bracket
        else:
            end = token.end()
        ending = f"null{brackets}" if sign == ":" else brackets
    with suppress(ValueError):
        return cast("object", json.loads(text[:end] + ending))
    return None


def array_of(value: object, keys: Sequence[str]) -> tuple[str | None, Sequence[object]]:
    """The first key of an object's own that holds an array of objects or arrays, and the array.

    No key, and no array, where there is none: a tool's file is known by such a key.
    """
    fields = as_object(value)
    for key in keys:
        array = fields.get(key)
        if not is_list(array) or not array:
            continue
        if is_object(array[0]) or is_list(array[0]):
            return key, array
    return None, ()


class Element(NamedTuple):
    """An element of an array as its bytes, with the line on which it begins."""

    line: int
    raw: bytes


def _array_start(head: bytes, key: str | None) -> int:
    """The offset of the first element of a file's array, behind its opening bracket; else 0.

    Args:
        head: the beginning of the file.
        key: the outermost object's key with the array; None where the file itself is the array.
    """
    written_key = None if key is None else orjson.dumps(key)
    depth = 0
    is_next = key is None  # whether the next bracket opens the array
    for sign, start, end in _brackets_and_texts(head):
        if sign == b"[" and is_next:
            return end
        if sign in b"{[":
            depth += 1
        elif sign in b"}]":
            depth -= 1
        else:
            is_next = depth == 1 and head[start:end] == written_key
    return 0


def array_elements(source: Source, key: str | None, problems: Problems) -> Iterator[Element]:
    """Yields the elements of a large file's array as bytes, without parsing the file as a whole.

    Brackets alone say where an element ends, and its bytes go through the usual parser: memory
    holds one element, one that is no JSON does not hide the others, and each has its line.
    """
    head = source.head(problems) or b""
    text = head.removeprefix(codecs.BOM_UTF8)
    mark_bytes = len(head) - len(text)
    start = _array_start(text, key) + mark_bytes
    longest = source.limits.record
    with source.opened(problems) as stream:
        if stream is None:
            return
        line = 1 + stream.read(start).count(b"\n")
        buffer = b""
        begin = 0  # where the element begins in the buffer
        scanned = 0  # up to where the buffer's brackets have been counted
        depth = 0
        while len(buffer) <= longest:
            # Twice as much each time: a long element is not copied over and over.
            block = stream.read(max(_BLOCK_BYTES, len(buffer)))
            if not block:
                message = "the JSON is cut off: the array of records never ends"
                problems.add(message, path=source.name, line=line + buffer.count(b"\n"))
                return
            buffer += block
            for sign, sign_start, sign_end in _brackets_and_texts(buffer, scanned):
                scanned = sign_end
                opens = sign in b"{["
                closes = sign in b"}]"
                if (opens and depth == 0) or (closes and depth <= 0):
                    # More than a comma between two elements is no object for sure.
                    between = buffer[begin:sign_start].strip(b", \t\r\n")
                    if between:
                        yield Element(line + buffer.count(b"\n", 0, begin), between)
                    begin = sign_start
                depth += opens - closes
                if closes and depth < 0:  # the array's own bracket
                    return
                if closes and depth == 0:
                    if sign_end - begin > longest:
                        break
                    yield Element(line + buffer.count(b"\n", 0, begin), buffer[begin:sign_end])
                    begin = sign_end
            line += buffer.count(b"\n", 0, begin)
            buffer = buffer[begin:]
            scanned -= begin
            begin = 0
        problems.add(source.limits.long_record("the element"), path=source.name, line=line)


def json_elements(
    source: Source, key: str | None, problems: Problems, *, is_one: bool
) -> Iterator[tuple[int, bytes, object]]:
    """Yields the parsed elements of a file's array, each with its line and its bytes.

    An element that is no JSON is noted, and the others are read.

    Args:
        key: the key with the array; None where the file itself is the array.
        is_one: whether the whole file is the one element.
    """
    if is_one:
        content = read_bytes(source, problems) or b""
        elements = iter([Element(1, content)])
    else:
        elements = array_elements(source, key, problems)
    for line, raw in elements:
        # An empty file, or one whose problem is noted already.
        if not raw:
            continue
        try:
            value = parse_json(raw)
        except ValueProblem as problem:
            problems.add(str(problem), path=source.name, line=line)
            continue
        yield line, raw, value


def read_json(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per record of a JSON file; the row's line is its place among the records.

    The file is held whole, unlike JSON Lines, since the records may be behind any key. It may be an
    array of objects, an object with such an array, a table as pandas writes one (its names and rows
    apart, or a list per column), or a single record. A file of any other form is a problem.
    """
    value = load(source, problems)
    if value is None:
        return
    if not is_object(value):
        yield from _item_rows(value, source, problems)
        return
    records = records_of(value, kind=kind, split=source.split, notes=source.notes)
    # A table also passes for an object with its records under "data": it is looked for first.
    if is_split_table(value):
        items: Sequence[object] = rows_of_split(value)
    elif records is not None:
        items = records.items
    elif questions_of(value):  # it is a record itself
        items = rows_of_columns(value, f"{source.name}: ") or [value]
    else:
        _note_no_array(value, field_names("array")[kind], source, problems)
        return
    yield from _item_rows(items, source, problems)


def read_json_arrays(source: Source, paths: Sequence[str], problems: Problems) -> Iterator[Row]:
    """Yields one row per record of a JSON file whose tool keeps the records at known paths.

    Else as `read_json`: a list, a table, an envelope or a single record. Of several arrays the
    first one with content counts.
    """
    value = load(source, problems)
    if value is None:
        return
    if not is_object(value):
        yield from _item_rows(value, source, problems)
        return
    if is_split_table(value):
        yield from _item_rows(rows_of_split(value), source, problems)
        return
    items: Sequence[object] | None = _array_at(value, paths)
    if items is None:
        records = records_of(value, kind="cases")
        if records is not None:
            items = records.items
        elif questions_of(value):  # it is a record itself
            items = rows_of_columns(value, f"{source.name}: ") or [value]
    if items is None:
        _note_no_array(value, paths, source, problems)
    else:
        yield from _item_rows(items, source, problems)


def _array_at(value: Mapping[str, Any], paths: Sequence[str]) -> Sequence[object] | None:
    """The array of a tool's JSON object at the first of some paths; None where none has one.

    An empty array counts only if all are empty: a tool may write lists that it did not fill.

    Args:
        value: the object.
        paths: keys joined by dots, such as ``results.results``.
    """
    first_empty: Sequence[object] | None = None
    for path in paths:
        items = getter(path)(value)
        if not is_list(items):
            continue
        if items:
            return items
        if first_empty is None:
            first_empty = items
    return first_empty


def _note_no_array(
    value: Mapping[str, Any], paths: Sequence[str], source: Source, problems: Problems
) -> None:
    """Notes that a JSON object holds no list of records, and which fields it has instead.

    One of the fields may hold the records under a name that the user can give.
    """
    keys = ", ".join(f"'{key}'" for key in paths)
    message = f"expected a JSON array, or an object with one under {keys}"
    lines = [message, *fields_shown(value)]
    problems.add("\n".join(lines), path=source.name)


def _item_rows(items: object, source: Source, problems: Problems) -> Iterator[Row]:
    """Yields the objects of a JSON array as rows, each with its place from 1 as its line.

    Anything else in the array is noted, and the items behind are read: all problems are reported at
    once.
    """
    if not is_list(items):
        problems.add(f"expected a JSON array, found {describe(items)}", path=source.name)
        return
    for number, item in enumerate(items, start=1):
        if is_object(item):
            if has_few_fields(len(item), source.name, number, problems):
                yield Row(source.name, number, item)
        else:
            message = f"expected a JSON object, found {describe(item)}"
            problems.add(message, path=source.name, line=number)


# --- the list of records in an object

_LOOKED_AT = 20
"""Items of a list that are enough to see what it holds."""
_MAIN: Mapping[Kind, str] = {"cases": "query", "documents": "text"}
"""The field without which a record is of no use."""


class Records(NamedTuple):
    """The list of records that a JSON object holds, and where."""

    path: tuple[str, ...]
    """The keys that lead to the list."""
    items: Sequence[object]


def records_of(
    value: Mapping[str, Any],
    *,
    kind: Kind,
    split: str | None = None,
    notes: dict[str, None] | None = None,
) -> Records | None:
    """The list of records that an object holds under a key, or one level deeper.

    A key may have any name where only one list of objects could be meant. Of several lists, the
    one is taken whose records have a question (of documents: a text). Where several have, a list
    under a documented name is taken, with a note.

    Args:
        split: the key of the list that the user wants.
        notes: takes what was chosen among several.

    Raises:
        UnreadableError: several lists could be meant, or none has the key that the user wants.
    """
    if questions_of(value):  # a record of its own, whose lists are its fields
        return None
    lists = lists_of_objects(value)
    documented = field_names("array")[kind]
    if not lists:
        # An empty list under a documented name holds no records, and is no mistake of form.
        for name in documented:
            if is_list(value.get(name)):
                return Records((name,), value[name])
        return None
    if notes is None:
        notes = {}
    key = split
    if key is None:
        key = _choose_key(lists, kind, documented, notes)
    if key not in lists:
        raise UnreadableError(f"no list '{key}'; there are: {', '.join(lists)}")
    return lists[key]


def _choose_key(
    lists: Mapping[str, Records], kind: Kind, documented: Sequence[str], notes: dict[str, None]
) -> str:
    """The key of the list to read where the user named none: the surest one, or an error.

    Lists whose records have a question (of documents: a text) come first, then the first that a
    documented name leads to, then all. Of several that remain the documented one is taken, and a
    note names the others.

    Raises:
        UnreadableError: several lists are equally likely: a guess could read the wrong data.
    """
    documented_keys = [key for key in documented if key in lists]
    candidates = [key for key, records in lists.items() if _has_main_field(records.items, kind)]
    if not candidates:
        candidates = documented_keys[:1]
    if not candidates:
        candidates = list(lists)
    if len(candidates) == 1:
        return candidates[0]
    # Two that suit equally are no choice: the wrong one would be read without a word.
    preferred = [key for key in candidates if key in documented_keys]
    if len(preferred) != 1:
        shown = " and ".join(f"'{key}'" for key in candidates)
        raise UnreadableError(
            f"several lists could be the {kind}: {shown}. Choose one: "
            f"--split {shell_quoted(candidates[0])}"
        )
    others = ", ".join(key for key in candidates if key not in preferred)
    notes[f"The list '{preferred[0]}' is read; --split names another: {others}"] = None
    return preferred[0]


def lists_of_objects(value: Mapping[str, Any]) -> dict[str, Records]:
    """The lists of objects in a JSON object, by their path: any of them may be the records.

    Only where none is directly under a key, those one level deeper: tools put the records of an
    export into an envelope, such as ``{"result": {"rows": [...]}}``.
    """
    lists: dict[str, Records] = {}
    for key, items in value.items():
        if _is_list_of_objects(items):
            lists[key] = Records((key,), items)
    if lists:
        return lists
    for outer, inner in value.items():
        for key, items in as_object(inner).items():
            if _is_list_of_objects(items):
                lists[f"{outer}.{key}"] = Records((outer, key), items)
    return lists


def _is_list_of_objects(items: object) -> TypeGuard[Sequence[object]]:
    """Whether a JSON value may be a list of records: one of its first items is an object.

    One is enough: anything else in the list is reported later with its place.
    """
    return is_list(items) and any(map(is_object, items[:_LOOKED_AT]))


def _has_main_field(items: Sequence[object], kind: Kind) -> bool:
    """Whether one of the first items has a question (of documents: a text) under a known name.

    The list of such objects in a file is surely its list of records; see `_choose_key`.
    """
    meaning = targets(kind)
    for item in items[:_LOOKED_AT]:
        names = map(str, as_object(item))
        if any(meaning.get(squash(name)) == _MAIN[kind] for name in names):
            return True
    return False


def rows_of_columns(value: Mapping[str, Any], place: str = "") -> list[Mapping[str, Any]]:
    """The records of a table by columns: an object that holds a list a field; else none.

    pandas writes an object with the rows' numbers instead of a list (`to_json`, `to_dict`). Turns
    of a conversation are one record's, though they are in a list, too.

    Raises:
        InputError: the lists differ in length.
    """
    columns = list(value.values())
    if all(map(_is_numbered, columns)):
        columns = [list(column.values()) for column in columns]
    questions = questions_of(value)
    if not questions or not all(map(is_list, columns)):
        return []
    if any(map(is_object, chain.from_iterable(questions))):  # turns
        return []
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        sizes = ", ".join(f"{name!r} {len(column)}" for name, column in value.items())
        raise InputError(
            f"{place}columns of different lengths ({sizes}): give each one entry per case"
        )
    return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]


def _is_numbered(column: object) -> bool:
    """Whether a column is an object keyed by the numbers of rows, as pandas writes a table.

    Such a column is turned into a list, as `to_json` and `to_dict` of pandas write no lists.
    """
    return is_object(column) and all(str(key).isdigit() for key in column)


_SPLIT = frozenset({"columns", "index", "data"})
"""All keys of a split table: an object with another one is something else."""


def is_split_table(value: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a table with its column names apart: pandas' ``orient="split"``.

    MLflow stores its tables so. Without this test the names would be lost.
    """
    names = value.get("columns")
    rows = value.get("data")
    if not is_list(names) or not is_list(rows):
        return False
    if not value.keys() <= _SPLIT:
        return False
    has_names = all(isinstance(name, str) for name in names)
    return has_names and all(map(is_list, rows))


def shown_rows_of_split(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The records that the beginning of a split table shows, by which its tool is recognised.

    A split table has its column names apart. Its last row may be cut off, and is then shorter.
    """
    rows: list[Mapping[str, Any]] = []
    for row in value["data"]:
        rows.append(dict(zip(value["columns"], row, strict=False)))  # the last may be cut off
    return rows


def rows_of_split(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The records of a split table: a JSON object with column names and rows apart.

    Raises:
        UnreadableError: a row has more or fewer values than there are names.
    """
    names = value["columns"]
    rows: list[Mapping[str, Any]] = []
    for number, row in enumerate(value["data"], start=1):
        if len(row) != len(names):
            values = counted(len(row), "value")
            columns = counted(len(names), "column")
            raise UnreadableError(f"row {number} of 'data' has {values}, for {columns}")
        rows.append(dict(zip(names, row, strict=True)))
    return rows


def line_value(
    line: Line, path: str, problems: Problems, *, is_unchecked: bool = False
) -> Sequence[object]:
    """The JSON value of a line, in a list of one; an empty list where the line has no usable value.

    A list, because the value itself may be null. A line that is no JSON is noted as a problem; a
    blank line is not.

    Args:
        is_unchecked: whether a key may stand twice.
    """
    try:
        value: object = orjson.loads(line.raw)
    except orjson.JSONDecodeError:
        if not line.raw.strip():
            return ()
        # The line may hold NaN, which Python writes into JSON and orjson refuses.
        try:
            value = parse_json(line.raw)
        except ValueProblem as problem:
            _note_bad_line(line, str(problem), path, problems)
            return ()
    if is_unchecked:
        return (value,)
    if is_unambiguous(line.raw, value, path, line.number, problems):
        return (value,)
    return ()


def _note_bad_line(line: Line, message: str, path: str, problems: Problems) -> None:
    """Notes why a line is no JSON, as exactly as its bytes show.

    The reason is one of: bytes that are no text, a damaged file, a last line that is cut off, or
    the parser's own message.
    """
    if decode_line(line, path, problems) is None:
        return  # that is noted already
    if b"\x00" in line.raw:
        message = "the line holds NUL bytes: the file is damaged, or UTF-16 without a mark"
    elif not line.raw.endswith(b"\n"):
        message = f"the last line is cut off or is {message}"
    problems.add(message, path=path, line=line.number)


def read_json_lines(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per line of JSON; blank lines are skipped. Memory holds one line.

    A line that is no object is a problem, and the lines behind it are read.
    """
    path = source.name
    for line in read_lines(source, problems):
        # The list of one value, or an empty one where the problem is noted.
        for value in line_value(line, path, problems):
            if type(value) is dict:
                record = cast("Mapping[str, object]", value)
                if has_few_fields(len(record), path, line.number, problems):
                    yield Row(path, line.number, record)
                continue
            message = f"expected a JSON object, found {describe(value)}"
            if line.raw.lstrip().startswith(b"["):
                message += " (for one JSON array, name the format json)"
            problems.add(message, path=path, line=line.number)
