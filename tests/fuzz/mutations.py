"""Damage to valid files: of their bytes, of their JSON, of their tables, of what is packed in them.

Each function takes a file's content and a source of chance, and gives the damaged content.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

Mutation = Callable[[bytes, Random], bytes]

NUMBERS = [
    b"0",
    b"-1",
    b"1e400",
    b"-0.0",
    b"NaN",
    b"Infinity",
    b"1" * 4301,  # Python reads no whole number of more than 4300 digits
    b"9223372036854775808",  # beyond 64 bits
]
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1e308,
    10**30,
    "",
    "\u202e\x00",
    "x" * 5000,
    [],
    {},
    [[]],
    {"": ""},
    [None],
    "\ud800",
    "2024-13-01",
    [1, "a", {}],
]
CELLS: list[object] = [None, -1, 2**62, 1e308, "", "x", b"", b"\xff", b"[]", "{}"]
NAMES = ["", "id", "query", "text", "\x00", "x" * 300]
ENCODINGS = ["utf-16", "utf-16-le", "utf-32", "latin-1", "utf-8-sig", "cp1252", "shift_jis"]
DEEP = 3000
"""Brackets in one another: more than Python's recursion allows."""


def place(data: bytes, chance: Random) -> int:
    return chance.randrange(len(data) + 1)


def span(data: bytes, chance: Random) -> tuple[int, int]:
    """Where a piece of the content begins and ends; most pieces are short."""
    start = place(data, chance)
    length = chance.choice([1, 2, 8, 64, 1024])
    return start, min(start + length, len(data))


# --- of bytes


def flip(data: bytes, chance: Random) -> bytes:
    """Flips some bits, as a worn disk does."""
    damaged = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8, 32])):
        if damaged:
            position = chance.randrange(len(damaged))
            bit = chance.randrange(8)
            damaged[position] ^= 1 << bit
    return bytes(damaged)


def truncate(data: bytes, chance: Random) -> bytes:
    end = place(data, chance)
    return data[:end]


def insert(data: bytes, chance: Random) -> bytes:
    start = place(data, chance)
    length = chance.choice([1, 4, 64])
    return data[:start] + chance.randbytes(length) + data[start:]


def zero(data: bytes, chance: Random) -> bytes:
    """Makes a piece NULs, as a file system does after a crash."""
    start, end = span(data, chance)
    return data[:start] + bytes(end - start) + data[end:]


def delete(data: bytes, chance: Random) -> bytes:
    start, end = span(data, chance)
    return data[:start] + data[end:]


def duplicate(data: bytes, chance: Random) -> bytes:
    start, end = span(data, chance)
    return data[:end] + data[start:end] + data[end:]


def swap(data: bytes, chance: Random) -> bytes:
    """Puts a piece behind the piece that follows it."""
    start, middle, end = sorted(place(data, chance) for _ in range(3))
    return data[:start] + data[middle:end] + data[start:middle] + data[end:]


def change_number(data: bytes, chance: Random) -> bytes:
    """Puts an extreme number in the place of one."""
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    if not numbers:
        return insert(data, chance)
    start, end = chance.choice(numbers).span()
    return data[:start] + chance.choice(NUMBERS) + data[end:]


def encode(data: bytes, chance: Random) -> bytes:
    text = data.decode("utf-8", "replace")
    encoding = chance.choice(ENCODINGS)
    return text.encode(encoding, "replace")


BYTES: list[Mutation] = [flip, truncate, insert, zero, delete, duplicate, swap]
TEXT: list[Mutation] = [*BYTES, change_number, encode]


def damage_text(data: bytes, chance: Random) -> bytes:
    mutation = chance.choice(TEXT)
    return mutation(data, chance)


# --- of JSON


def nodes_of(value: Any) -> list[tuple[Any, Any]]:
    """Each container of a value with each of its keys or places."""
    nodes: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        container = waiting.pop()
        keys: Any = []
        if isinstance(container, dict):
            keys = list(container)
        elif isinstance(container, list):
            keys = range(len(container))
        for key in keys:
            nodes.append((container, key))
            waiting.append(container[key])
    return nodes


def change_json(text: bytes, chance: Random) -> bytes:
    """Changes a value, a key or the order of a JSON text."""
    value = json.loads(text)
    nodes = nodes_of(value)
    if not nodes:
        return json.dumps(chance.choice(VALUES)).encode()
    container, key = chance.choice(nodes)
    kind = chance.choice(["value", "value", "value", "delete", "rename", "other", "deep", "twice"])
    if kind == "delete":
        del container[key]
    elif kind == "rename" and isinstance(container, dict):
        container[chance.choice(NAMES)] = container.pop(key)
    elif kind == "other":
        source, source_key = chance.choice(nodes)
        container[key] = json.loads(json.dumps(source[source_key]))
    else:
        container[key] = chance.choice(VALUES)
    changed = json.dumps(value).encode()
    if kind == "deep":
        return changed.replace(b"null", b"[" * DEEP + b"]" * DEEP, 1)
    if kind == "twice":
        return re.sub(rb'("[^"]*": )([^,{}\[\]]*)', rb"\1\2, \1\2", changed, count=1)
    return changed


def change_line(data: bytes, chance: Random) -> bytes:
    """Changes the JSON of one line, or the order and the number of the lines."""
    lines = data.splitlines(keepends=True)
    number = chance.randrange(len(lines))
    kind = chance.choice(["json", "json", "json", "json", "drop", "double", "move"])
    if kind == "json":
        lines[number] = change_json(lines[number], chance) + b"\n"
    elif kind == "drop":
        del lines[number]
    elif kind == "double":
        lines.insert(number, lines[number])
    else:
        chance.shuffle(lines)
    return b"".join(lines)


JSON: list[Mutation] = [*TEXT, *[change_json] * 12]
LINES: list[Mutation] = [*TEXT, *[change_line] * 12]


# --- of what is packed


def within_gzip(data: bytes, chance: Random) -> bytes:
    content = damage_text(gzip.decompress(data), chance)
    return gzip.compress(content, mtime=0)


def within_zip(data: bytes, chance: Random) -> bytes:
    """Damages one part of a workbook or a document of Word, and packs it again."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice(sorted(parts))
    kind = chance.choice(["damage", "damage", "damage", "damage", "remove"])
    if kind == "remove":
        del parts[name]
    else:
        parts[name] = damage_text(parts[name], chance)

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
    return packed.getvalue()


def within_sqlite(data: bytes, chance: Random) -> bytes:
    """Puts another value into a cell of a table of SQLite, or takes a row or a table away."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "base.sqlite"
        path.write_bytes(data)
        base = sqlite3.connect(path, isolation_level=None)
        base.execute("PRAGMA journal_mode=DELETE")
        statement, values = change_of_table(base, chance)
        with suppress(sqlite3.Error):  # a constraint, or a table without rowid
            base.execute(statement, values)
        base.close()
        return path.read_bytes()


def change_of_table(base: sqlite3.Connection, chance: Random) -> tuple[str, tuple[Any, ...]]:
    """A statement of SQL, and its values."""
    table = chance.choice(tables_of(base))
    columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
    column = chance.choice(columns)
    cells = base.execute(
        f"SELECT {column} FROM {table} ORDER BY 1 LIMIT 1 OFFSET ?", (chance.randrange(3),)
    ).fetchall()
    replacement = damaged_cell(cells[0][0] if cells else None, chance)

    kind = chance.choice(["set", "set", "set", "set", "set", "empty", "drop"])
    if kind == "set" and cells:
        statement = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} IS ?"
        return statement, (replacement, cells[0][0])
    if kind == "drop":
        return f"DROP TABLE {table}", ()
    return f"DELETE FROM {table} WHERE rowid % 2 = 0", ()


def tables_of(base: sqlite3.Connection) -> list[str]:
    """The names of all tables but those of SQLite itself."""
    rows = base.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name for (name,) in rows if not name.startswith("sqlite_")]


def damaged_cell(value: object, chance: Random) -> object:
    """Any value, or more often the same with damage to its text or bytes."""
    replacement = chance.choice(CELLS)
    if not isinstance(value, bytes | str) or chance.random() >= 0.6:
        return replacement
    if isinstance(value, str):
        return damage_text(value.encode(), chance).decode("utf-8", "replace")
    return damage_text(value, chance)


GZIP: list[Mutation] = [*BYTES, within_gzip, within_gzip]
ZIP: list[Mutation] = [*BYTES, *[within_zip] * 6]
SQLITE: list[Mutation] = [*BYTES, *[within_sqlite] * 6]
