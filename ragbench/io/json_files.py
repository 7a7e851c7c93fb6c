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

from ragbench.errors import InputError
from ragbench.io.dumps.form import fields_shown, getter
from ragbench.io.fields import named, squash, targets
from ragbench.io.limits import UnreadableError
from ragbench.io.source import Kind, Problems, Row, Source, noting_read_errors
from ragbench.io.values import ValueProblem, as_object, describe, is_list, is_object

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
    known = problems.count
    whole = bytearray()
    with noting_read_errors(source.name, problems):
        for line in read_lines(source, problems, piece=_CHUNK_BYTES):
            whole += line.raw
            source.limits.check_held(len(whole))
    return bytes(whole) if problems.count == known else None


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


# --- JSON


def parse_json(raw: bytes) -> object:
    """Parses one JSON text. NaN, which Python writes for a missing value, is read as null."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if b"NaN" not in raw and b"Infinity" not in raw:
            place = f"line {error.lineno} column {error.colno}" if error.lineno > 1 else ""
            where = place or f"column {error.colno}"
            raise ValueProblem(f"not valid JSON at {where}: {error.msg}") from error
    try:
        value: object = json.loads(raw, parse_constant=_parse_constant)
        # The standard library lets lone surrogates and endless integers through: this does not.
        return orjson.loads(orjson.dumps(value))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueProblem(f"not valid JSON: {error}") from error


def _parse_constant(name: str) -> None:
    if name != "NaN":
        raise ValueError(f"{name} is not a JSON number")


_ASKED = frozenset({"query", "question", "userinput"})


def asked_of(value: Mapping[str, Any]) -> list[Any]:
    """What an object is asked that is a record, and no envelope around some."""
    return [one for name, one in value.items() if squash(str(name)) in _ASKED]


def load(source: Source, problems: Problems) -> object | None:
    """The file's JSON value; None, and a problem, when it is not JSON."""
    raw = read_bytes(source, problems)
    if raw is None or not raw.strip():
        return None
    try:
        value = parse_json(raw)
    except ValueProblem as problem:
        if decode_line(Line(1, 0, raw), source.name, problems) is not None:
            problems.add(str(problem), path=source.name)
        return None
    return value if is_unambiguous(raw, value, source.name, 1, problems) else None


def is_unambiguous(raw: bytes, value: object, path: str, line: int, problems: Problems) -> bool:
    """Whether no key stands twice in an object; else a problem names the second one.

    Parsers keep the last value: where the text has more keys than its value, it is read again.
    """
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
    if raw.count(b'":') + raw.count(b'" :') <= count or (found := _repeated_key(raw)) is None:
        return True
    message = "the key stands twice in one object: it is unknown which of its values is meant"
    problems.add(message, path=path, line=line + raw.count(b"\n", 0, found[0]), field=found[1])
    return False


OUTER = ("resourceSpans", "resource_spans", "batches", "traces", "runs", "data", "spans")
"""Where a JSON object over a whole file keeps its records."""
OTLP = frozenset(OUTER[:3])
_TEXT = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?', re.DOTALL)


def _repeated_key(raw: bytes) -> tuple[int, str] | None:
    """Where the first key stands that its object has already."""
    found: list[tuple[int, str]] = []

    def placed(text: re.Match[bytes]) -> bytes:
        return text[0] if text[2] is None else b'"%b\\u0000%d":' % (text[1], text.start())

    def look(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for key, _, place in (name.rpartition("\0") for name, _ in pairs):
            if key in seen:
                found.append((int(place), key))
            seen.add(key)

    try:
        json.loads(_TEXT.sub(placed, raw), object_pairs_hook=look)
    except RecursionError:  # nested deeper than anything that is read
        return None
    return min(found, default=None)


_BLOCK_BYTES = 1 << 18
_SIGN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{}]', re.DOTALL)


def _signs(buffer: bytes, at: int = 0) -> Iterator[tuple[bytes, int, int]]:
    """Brackets, and texts as a quote, each with where it begins and ends; none that is cut off."""
    for sign in _SIGN.finditer(buffer, at):
        start, end = sign.span()
        if end - start == 1 and buffer[start:end] == b'"':
            return
        yield buffer[start : start + 1], start, end


_SHOWN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},:]', re.DOTALL)


def shown_value(text: str) -> object:
    """The JSON value that a text begins with, as far as it shows it: what is cut off is left out.

    A key whose value is cut off is there with null; null, too, where there is no such value.
    """
    try:
        return cast("object", json.loads(text))
    except json.JSONDecodeError as error:
        text = text[: error.pos]
    except RecursionError:
        return None
    end, closing, rest = 0, "", ""
    for token in _SHOWN.finditer(text):
        sign = token[0]
        if sign == '"':
            break
        if sign in "{[":
            closing = ("}" if sign == "{" else "]") + closing
        elif sign in "}]":
            closing = closing[1:]
        elif sign not in ",:":
            continue
        end = token.start() if sign == "," else token.end()
        rest = f"null{closing}" if sign == ":" else closing
    with suppress(ValueError):
        return cast("object", json.loads(text[:end] + rest))
    return None


def array_of(value: object, keys: Sequence[str]) -> tuple[str | None, Sequence[object]]:
    """The first of an object's own keys that holds an array of objects or arrays, and the array."""
    for key in keys:
        held = as_object(value).get(key)
        if is_list(held) and held and (is_object(held[0]) or is_list(held[0])):
            return key, held
    return None, ()


class Element(NamedTuple):
    line: int
    raw: bytes


def _array_start(head: bytes, key: str | None) -> int:
    """Where the first element of a file's array is, or of that behind one of its own keys."""
    wanted = None if key is None else orjson.dumps(key)
    depth, is_next = 0, key is None
    for sign, start, end in _signs(head):
        if sign == b"[" and is_next:
            return end
        depth += (sign in b"{[") - (sign in b"}]")
        if sign == b'"':
            is_next = depth == 1 and head[start:end] == wanted
    return 0


def array_elements(source: Source, key: str | None, problems: Problems) -> Iterator[Element]:
    """Cuts the elements out of a file's array, or of that behind a key near its beginning.

    Brackets alone say where an element ends, and its bytes go through the usual parser: memory
    holds one element, one that is no JSON does not hide the others, and each has its line.
    """
    head = source.head(problems) or b""
    mark = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    start = _array_start(head[mark:], key) + mark
    with source.opened(problems) as stream:
        if stream is None:
            return
        line = 1 + stream.read(start).count(b"\n")
        buffer, at, begin, depth, longest = b"", 0, 0, 0, source.limits.record
        while len(buffer) <= longest:
            block = stream.read(max(_BLOCK_BYTES, len(buffer)))
            if not block:
                message = "the JSON is cut off: the array of records never ends"
                problems.add(message, path=source.name, line=line + buffer.count(b"\n"))
                return
            buffer += block
            for sign, first, end in _signs(buffer, at):
                at = end
                opens, closes = sign in b"{[", sign in b"}]"
                if (opens and depth == 0) or (closes and depth <= 0):
                    # More than a comma between two elements is no object for sure.
                    if rest := buffer[begin:first].strip(b", \t\r\n"):
                        yield Element(line + buffer.count(b"\n", 0, begin), rest)
                    begin = first
                depth += opens - closes
                if closes and depth < 0:
                    return
                if closes and depth == 0:
                    if end - begin > longest:
                        break
                    yield Element(line + buffer.count(b"\n", 0, begin), buffer[begin:end])
                    begin = end
            line += buffer.count(b"\n", 0, begin)
            buffer, at, begin = buffer[begin:], at - begin, 0
        problems.add(source.limits.long_record("the element"), path=source.name, line=line)


def json_elements(
    source: Source, key: str | None, problems: Problems, *, is_one: bool
) -> Iterator[tuple[int, bytes, object]]:
    """The parsed elements of an array, as `array_elements` finds them, or the file as one.

    With each its line and its bytes; what is no JSON is noted.
    """
    elements = iter([Element(1, read_bytes(source, problems) or b"")])
    for line, raw in elements if is_one else array_elements(source, key, problems):
        try:
            if raw:
                yield line, raw, parse_json(raw)
        except ValueProblem as problem:
            problems.add(str(problem), path=source.name, line=line)


def read_json(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per object of the array; the row's line is its place in the array."""
    value = load(source, problems)
    if value is None:
        return
    if is_object(value):
        records = records_of(value, kind=kind, split=source.split, notes=source.notes)
        items: object = None if records is None else records.items
        if is_split_table(value):
            items = rows_of_split(value)
        elif records is None and asked_of(value):  # it is a record itself
            items = rows_of_columns(value, f"{source.name}: ") or [value]
        if items is None:
            _note_no_array(value, named("array")[kind], source, problems)
            return
    else:
        items = value
    yield from _item_rows(items, source, problems)


def read_json_arrays(source: Source, paths: Sequence[str], problems: Problems) -> Iterator[Row]:
    """As `read_json`, of a tool's form: the array is the first at one of its paths."""
    value = load(source, problems)
    if is_object(value):
        lists = [*filter(is_list, (getter(path)(value) for path in paths))]
        items: object = next(filter(None, lists), lists[0] if lists else None)
        if is_split_table(value):
            items = rows_of_split(value)
        elif items is None and (records := records_of(value, kind="cases")) is not None:
            items = records.items
        if items is None and asked_of(value):
            items = rows_of_columns(value, f"{source.name}: ") or [value]
        if items is None:
            _note_no_array(value, paths, source, problems)
            return
        value = items
    if value is not None:
        yield from _item_rows(value, source, problems)


def _note_no_array(
    value: Mapping[str, Any], paths: Sequence[str], source: Source, problems: Problems
) -> None:
    keys = ", ".join(f"'{key}'" for key in paths)
    message = f"expected a JSON array, or an object with one under {keys}"
    problems.add(message + "\n" + "\n".join(fields_shown(value)), path=source.name)


def _item_rows(items: object, source: Source, problems: Problems) -> Iterator[Row]:
    if not is_list(items):
        problems.add(f"expected a JSON array, found {describe(items)}", path=source.name)
        return
    for number, item in enumerate(items, start=1):
        if is_object(item):
            yield Row(source.name, number, item)
        else:
            message = f"expected a JSON object, found {describe(item)}"
            problems.add(message, path=source.name, line=number)


# --- the list of records in an object

_LOOKED_AT = 20
_MAIN: Mapping[Kind, str] = {"cases": "query", "documents": "text"}


class Records(NamedTuple):
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
    if asked_of(value):  # a record of its own, whose lists are its fields
        return None
    lists = lists_of_objects(value)
    documented = named("array")[kind]
    if not lists:
        # An empty list under a documented name holds no records, and is no mistake of form.
        empty = next((key for key in documented if is_list(value.get(key))), None)
        return None if empty is None else Records((empty,), value[empty])
    if split is None:
        key = _chosen_key(lists, kind, documented, {} if notes is None else notes)
    else:
        key = split
    if key not in lists:
        raise UnreadableError(f"no list '{key}'; there are: {', '.join(lists)}")
    return lists[key]


def _chosen_key(
    lists: Mapping[str, Records], kind: Kind, documented: Sequence[str], notes: dict[str, None]
) -> str:
    known = [key for key in documented if key in lists]
    fitting = [key for key, records in lists.items() if _has_main_field(records.items, kind)]
    candidates = fitting or known[:1] or [*lists]
    if len(candidates) == 1:
        return candidates[0]
    preferred = [key for key in candidates if key in known]
    if len(preferred) != 1:
        shown = " and ".join(f"'{key}'" for key in candidates)
        raise UnreadableError(
            f"several lists could be the {kind}: {shown}. Choose one: --split {candidates[0]}"
        )
    others = ", ".join(key for key in candidates if key not in preferred)
    notes[f"The list '{preferred[0]}' is read; --split names another: {others}"] = None
    return preferred[0]


def lists_of_objects(value: Mapping[str, Any]) -> dict[str, Records]:
    """The lists of objects under an object's keys, else those one level deeper, by their path."""
    lists = {
        key: Records((key,), items) for key, items in value.items() if _is_list_of_objects(items)
    }
    if lists:
        return lists
    for outer, inner in value.items():
        for key, items in as_object(inner).items():
            if _is_list_of_objects(items):
                lists[f"{outer}.{key}"] = Records((outer, key), items)
    return lists


def _is_list_of_objects(items: object) -> TypeGuard[Sequence[object]]:
    return is_list(items) and any(map(is_object, items[:_LOOKED_AT]))


def _has_main_field(items: Sequence[object], kind: Kind) -> bool:
    meaning = targets(kind)
    for item in items[:_LOOKED_AT]:
        names = map(str, as_object(item))
        if any(meaning.get(squash(name)) == _MAIN[kind] for name in names):
            return True
    return False


def rows_of_columns(value: Mapping[str, Any], place: str = "") -> list[Mapping[str, Any]]:
    """The records of an object that holds a list a field; none of any other object.

    pandas writes an object with the rows' numbers instead of a list (`to_json`, `to_dict`). Turns
    of a conversation are one record's, though they stand in a list, too.

    Raises:
        InputError: the lists differ in length.
    """
    columns = [*value.values()]
    numbers = [[*map(str, one)] for one in columns if is_object(one)]
    if len(numbers) == len(columns) and all(map(str.isdigit, chain.from_iterable(numbers))):
        columns = [[*one.values()] for one in columns]
    asked = asked_of(value)
    if not asked or not all(map(is_list, columns)) or any(is_object(one) for one in chain(*asked)):
        return []
    if len({*map(len, columns)}) > 1:
        sizes = ", ".join(f"{name!r} {len(column)}" for name, column in value.items())
        raise InputError(
            f"{place}columns of different lengths ({sizes}): give each one entry per case"
        )
    return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]


_SPLIT = frozenset({"columns", "index", "data"})


def is_split_table(value: Mapping[str, Any]) -> bool:
    """Whether an object is a table with its names apart: pandas' ``orient="split"``.

    MLflow stores its tables so.
    """
    names, rows = value.get("columns"), value.get("data")
    if not is_list(names) or not is_list(rows) or not value.keys() <= _SPLIT:
        return False
    return all(isinstance(name, str) for name in names) and all(map(is_list, rows))


def shown_rows_of_split(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """As `rows_of_split`, of the beginning of a file: its last row may be cut off."""
    return [dict(zip(value["columns"], row, strict=False)) for row in value["data"]]


def rows_of_split(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The records of a table with its names apart.

    Raises:
        UnreadableError: a row has more or fewer values than there are names.
    """
    names = value["columns"]
    rows: list[Mapping[str, Any]] = []
    for number, row in enumerate(value["data"], start=1):
        if len(row) != len(names):
            raise UnreadableError(
                f"row {number} of 'data' has {len(row)} values, for {len(names)} columns"
            )
        rows.append(dict(zip(names, row, strict=True)))
    return rows


def line_value(
    line: Line, path: str, problems: Problems, *, is_unchecked: bool = False
) -> Sequence[object]:
    """The value of a line; of a blank one none, of one that cannot be used none and a problem.

    Args:
        is_unchecked: whether a key may stand twice.
    """
    try:
        value: object = orjson.loads(line.raw)
    except orjson.JSONDecodeError:
        if not line.raw.strip():
            return ()
        try:
            value = parse_json(line.raw)
        except ValueProblem as problem:
            if decode_line(line, path, problems) is not None:
                message = str(problem)
                if b"\x00" in line.raw:
                    message = (
                        "the line holds NUL bytes: the file is damaged, or UTF-16 without a mark"
                    )
                elif not line.raw.endswith(b"\n"):
                    message = f"the last line is cut off or is {message}"
                problems.add(message, path=path, line=line.number)
            return ()
    if is_unchecked:
        return (value,)
    keys = line.raw.count(b'":') + line.raw.count(b'" :')
    # Nearly every line is an object of plain values.
    is_plain = value.__class__ is dict and keys <= len(cast("dict[str, object]", value))
    return (
        (value,) if is_plain or is_unambiguous(line.raw, value, path, line.number, problems) else ()
    )


def read_json_lines(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a line; blank lines are skipped. Memory holds one line."""
    path = source.name
    for line in read_lines(source, problems):
        for value in line_value(line, path, problems):
            if type(value) is dict:
                yield Row(path, line.number, cast("Mapping[str, object]", value))
                continue
            message = f"expected a JSON object, found {describe(value)}"
            if line.raw.lstrip().startswith(b"["):
                message += " (for one JSON array, name the format json)"
            problems.add(message, path=path, line=line.number)
