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
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

Mutation = Callable[[bytes, Random], bytes]

NUMBERS = [b"0", b"-1", b"1e400", b"-0.0", b"NaN", b"Infinity", b"1" * 4301, b"9223372036854775808"]
VALUES: list[Any] = [
    *(None, True, 0, -1, 1e308, 10**30, "", "\u202e\x00", "x" * 5000, [], {}),
    *([[]], {"": ""}, [None], "\ud800", "2024-13-01", [1, "a", {}]),
]
NAMES = ["", "id", "query", "text", "\x00", "x" * 300]
ENCODINGS = ["utf-16", "utf-16-le", "utf-32", "latin-1", "utf-8-sig", "cp1252", "shift_jis"]
DEEP = 3000
"""Brackets in one another: more than Python's recursion allows."""


def place(data: bytes, chance: Random) -> int:
    return chance.randrange(len(data) + 1)


def span(data: bytes, chance: Random) -> tuple[int, int]:
    """Where a piece of the content begins and ends; most pieces are short."""
    start = place(data, chance)
    length = min(len(data) - start, chance.choice([1, 2, 8, 64, 1024]))
    return start, start + length


# --- of bytes


def flip(data: bytes, chance: Random) -> bytes:
    """Flips some bits, as a worn disk does."""
    damaged = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8, 32])):
        if damaged:
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def truncate(data: bytes, chance: Random) -> bytes:
    return data[: place(data, chance)]


def insert(data: bytes, chance: Random) -> bytes:
    start = place(data, chance)
    return data[:start] + chance.randbytes(chance.choice([1, 4, 64])) + data[start:]


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
    cuts = sorted(place(data, chance) for _ in range(3))
    first, second, third = cuts
    return data[:first] + data[second:third] + data[first:second] + data[third:]


def change_number(data: bytes, chance: Random) -> bytes:
    """Puts an extreme number in the place of one."""
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    if not numbers:
        return insert(data, chance)
    number = chance.choice(numbers)
    return data[: number.start()] + chance.choice(NUMBERS) + data[number.end() :]


def encode(data: bytes, chance: Random) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(chance.choice(ENCODINGS), "replace")


BYTES: list[Mutation] = [flip, truncate, insert, zero, delete, duplicate, swap]
TEXT: list[Mutation] = [*BYTES, change_number, encode]


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
        other, other_key = chance.choice(nodes)
        container[key] = json.loads(json.dumps(other[other_key]))
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
    content = chance.choice(TEXT)(gzip.decompress(data), chance)
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
        parts[name] = chance.choice(TEXT)(parts[name], chance)
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
        found = base.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        tables = [name for (name,) in found if not name.startswith("sqlite_")]
        table = chance.choice(tables)
        columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
        column = chance.choice(columns)
        cell = base.execute(
            f"SELECT {column} FROM {table} ORDER BY 1 LIMIT 1 OFFSET ?", (chance.randrange(3),)
        ).fetchone()
        value: object = chance.choice([None, -1, 2**62, 1e308, "", "x", b"", b"\xff", b"[]", "{}"])
        if cell is not None and isinstance(cell[0], bytes | str) and chance.random() < 0.6:
            content = cell[0].encode() if isinstance(cell[0], str) else cell[0]
            value = chance.choice(TEXT)(content, chance)
            if isinstance(cell[0], str):
                value = value.decode("utf-8", "replace")
        kind = chance.choice(["set", "set", "set", "set", "set", "empty", "drop"])
        try:
            if kind == "set" and cell is not None:
                base.execute(
                    f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} IS ?",
                    (value, cell[0]),
                )
            elif kind == "drop":
                base.execute(f"DROP TABLE {table}")
            else:
                base.execute(f"DELETE FROM {table} WHERE rowid % 2 = 0")
        except sqlite3.Error:  # a constraint, or a table without rowid
            pass
        base.close()
        return path.read_bytes()


GZIP: list[Mutation] = [*BYTES, within_gzip, within_gzip]
ZIP: list[Mutation] = [*BYTES, *[within_zip] * 6]
SQLITE: list[Mutation] = [*BYTES, *[within_sqlite] * 6]
