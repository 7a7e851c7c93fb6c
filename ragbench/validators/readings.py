"""What a reader said of a question and a text, kept on disk: no pair is read twice.

Of a pair a digest and five numbers are kept, and neither question nor text. Another order, other
scores, another k, another retriever or dump then read only what is new. A place that cannot be
written costs time, never a verdict.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from hashlib import blake2b
from math import isnan, nan
from pathlib import Path

from ragbench.text.onnx_model import PairReading

_VARIABLE = "RAGBENCH_READINGS"
_MOST = 2_000_000
"""Pairs that are kept, about 120 MB; of more, those that were read first go."""
_NUMBERS = struct.Struct("<ddqqd")
_TABLE = "CREATE TABLE IF NOT EXISTS readings (pair BLOB PRIMARY KEY, numbers BLOB NOT NULL)"
Read = Callable[[Sequence[str]], tuple[list[PairReading], tuple[str, ...]]]
"""Reads texts, and says what of them it could not read."""


def readings_file() -> Path | None:
    """One file per user, whatever the working directory; None where nothing is kept."""
    named = os.environ.get(_VARIABLE, "").strip()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        default = Path(base).expanduser() / "ragbench" / "readings.sqlite"
        return default if not named else None if named == "off" else Path(named).expanduser()
    except RuntimeError:  # a user without a home
        return None


def kept_readings(
    reader: str, query: str, texts: Sequence[str], read: Read
) -> tuple[list[PairReading], tuple[str, ...]]:
    """What is kept of the texts, and the rest read; ``reader`` names all else it depends on."""
    keys = [
        blake2b("\0".join((reader, query, one)).encode(errors="replace")).digest()[:16]
        for one in texts
    ]
    database = _opened(readings_file(), os.getpid())
    known = {} if database is None else _known(database, keys)
    missing = [at for at, key in enumerate(keys) if key not in known]
    found, notes = read([texts[at] for at in missing]) if missing else ([], ())
    fresh = {keys[at]: one for at, one in zip(missing, found, strict=True)}
    if database is not None and fresh and not notes:  # what was not read whole is said each time
        _keep(database, fresh)
    known |= fresh
    return [known[key] for key in keys], notes


@lru_cache(maxsize=2)
def _opened(path: Path | None, process: int) -> sqlite3.Connection | None:
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=OFF")
        database.execute(_TABLE)
        with closing(database.execute("SELECT max(rowid) - min(rowid) FROM readings")) as rows:
            more = (next(rows)[0] or 0) - _MOST
        if more > 0:
            oldest = "SELECT rowid FROM readings ORDER BY rowid LIMIT ?"
            database.execute(f"DELETE FROM readings WHERE rowid IN ({oldest})", (more,))
    except (OSError, sqlite3.Error):
        return None
    return database


def _known(database: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, PairReading]:
    found: dict[bytes, PairReading] = {}
    try:
        for key in keys:
            asked = database.execute("SELECT numbers FROM readings WHERE pair = ?", (key,))
            for (numbers,) in asked.fetchall():
                logit, span, start, end, said = _NUMBERS.unpack(numbers)
                answers = None if isnan(said) else said
                found[key] = PairReading(
                    logit=logit, span=span, start=start, end=end, answers=answers
                )
    except (sqlite3.Error, struct.error):
        return {}
    return found


def _keep(database: sqlite3.Connection, fresh: dict[bytes, PairReading]) -> None:
    said = [nan if one.answers is None else one.answers for one in fresh.values()]
    rows = [
        (key, _NUMBERS.pack(one.logit, one.span, one.start, one.end, answers))
        for (key, one), answers in zip(fresh.items(), said, strict=True)
    ]
    # A row a transaction: threads share the connection, and with synchronous=OFF it costs little.
    with suppress(sqlite3.Error):
        database.executemany("INSERT OR REPLACE INTO readings VALUES (?, ?)", rows)
