"""A file of what models said of a query and a text: what is known is not asked again."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ragbench.core.reading import Reading, is_of_the_system, words_of
from ragbench.errors import RunError
from ragbench.private_files import make_private_file

_TABLE = """
CREATE TABLE IF NOT EXISTS known (
    model TEXT NOT NULL, query BLOB NOT NULL, key BLOB NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (model, query, key)) WITHOUT ROWID;
"""


def user_cache(variable: str, name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder or file where a cache is kept for a user; None where the user switched it off.

    The place is the same from any working directory, so that all commands share the cache.

    Args:
        variable: of the environment; it names another place, or says ``off``.
    """
    place = environ.get(variable, "").strip()
    if place == "off":
        return None
    if not place:
        base = environ.get("XDG_CACHE_HOME") or "~/.cache"
        place = f"{base}/ragbench/{name}"
    try:
        return Path(place).expanduser()
    except RuntimeError:  # of a user without a home
        return None


def digest(*texts: str) -> bytes:
    """A digest of texts in their order, under which a score of a model is kept.

    Kept scores are found by it in later commands: another form would ask for all of them again.
    """
    hashed = blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        # With its length in front: texts that are cut elsewhere are other texts.
        # Eight bytes: the form is stored.
        hashed.update(len(data).to_bytes(8, "big") + data)
    return hashed.digest()


def _unusable_store_error(path: Path | None, error: Exception) -> RunError:
    """The error of a store of scores that is damaged, or that the system does not let us open.

    The error names the remedy: a store can be deleted, since its scores can be asked for again.
    """
    message = f"{path} cannot be used as a store of scores: {words_of(error)}"
    if not is_of_the_system(error):
        message += ". Delete it, or name another file: its scores are then asked for again"
    return RunError(message)


class ScoreStore(AbstractContextManager["ScoreStore"]):
    """Values of JSON by model, query and key, for any number of threads and processes.

    A value is stored as soon as it is given: an interrupted command goes on where it ended.
    """

    def __init__(self, path: Path | None) -> None:
        """Opens the store's file, and makes it where there is none.

        A command that runs again does not ask a model for scores that it has paid for.

        Args:
            path: None keeps the scores in memory, for this process alone.
        """
        self.asked = 0
        """Scores that a model was asked for."""
        self.reused = 0
        """Scores that the store held already."""
        self._lock = threading.Lock()
        """Around each statement: many threads share the connection."""
        self._reading = Reading(partial(_unusable_store_error, path))
        with self._reading:
            if path is not None:
                make_private_file(path)
            # Used by any thread, one at a time by the lock; each statement is a transaction of its
            # own.
            self._db = sqlite3.connect(
                path or ":memory:", isolation_level=None, check_same_thread=False
            )
            self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;")
            self._db.executescript(_TABLE)

    def __exit__(self, *_: object) -> None:
        """Closes the store's file; its values are stored already."""
        self._db.close()

    def known(self, model: str, query: bytes, keys: Iterable[bytes]) -> dict[bytes, Any]:
        """The kept values of a query by key, so that a model is not asked for them again.

        The keys that the caller needs are counted as reused where they are kept.
        """
        with self._lock, self._reading:
            rows = self._db.execute(
                "SELECT key, value FROM known WHERE model = ? AND query = ?", (model, query)
            ).fetchall()
            # All of the query's values in one reading: callers ask for most of them.
            values = {bytes(key): json.loads(value) for key, value in rows}
            # A set: a key that is asked for twice is one score.
            self.reused += sum(key in values for key in set(keys))
        return values

    def keep(self, model: str, query: bytes, values: Mapping[bytes, object]) -> None:
        """Stores values of a query, and counts the scores among them as asked for.

        The values are written at once, so that an interrupted command continues where it ended.
        """
        rows = [(model, query, key, json.dumps(value)) for key, value in values.items()]
        # The lock lasts until the transaction has ended.
        with self._lock, self._reading, self._db:
            # One transaction: a commit a row would take longer than most rerankers.
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?)", rows)
            # Only floats are scores; other values are kept beside them.
            self.asked += sum(isinstance(value, float) for value in values.values())
