"""Answers that were paid for once. Errors, refusals and answers cut off are never kept."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, cast

from ragbench.errors import ConfigError
from ragbench.llm.cache_file import connect, guarded
from ragbench.llm.usage import Usage

__all__ = ["DEFAULT_BYTES", "CacheLine", "CacheStats", "CachedReply", "ResponseCache"]

DEFAULT_BYTES = 1_000_000_000
"""How large a cache may become, if nothing else is said."""
_DAY = 86_400
_OVERHEAD = 200
"""Bytes that an entry takes beside its body, about."""
_CHECKED_EVERY = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedReply:
    """What is kept of an answer."""

    text: str
    finish_reason: str
    model: str
    """As the endpoint named it."""
    usage: Usage
    attempts: int
    repaired: bool
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheLine:
    """What a cache holds of one model for one purpose."""

    model: str
    purpose: str
    entries: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheStats:
    """What a cache holds."""

    path: str
    entries: int
    bytes: int
    """Of the answers; the file is somewhat larger."""
    file_bytes: int
    oldest: int | None
    """When the oldest answer was stored, in seconds since 1970; None when there is none."""
    newest: int | None
    lines: tuple[CacheLine, ...]


class ResponseCache:
    """A file of answers. Several processes may use it at once; one object serves one thread."""

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = DEFAULT_BYTES,
        must_exist: bool = False,
        today: Callable[[], float] = time.time,
    ) -> None:
        """Opens the file.

        Args:
            path: where; made when it does not exist.
            max_bytes: when the answers take more, those that were not used for longest go.
            must_exist: whether a missing file is an error.
            today: seconds since 1970; a test passes its own.

        Raises:
            LLMCacheError: the file cannot be used.
            ConfigError: ``max_bytes`` is below 0.
        """
        if max_bytes < 0:
            raise ConfigError(f"a cache cannot be limited to {max_bytes} bytes")
        self.path = path
        self._max_bytes = max_bytes
        self._today = today
        self._db: sqlite3.Connection = connect(path, must_exist=must_exist)
        self._stored = 0

    def __enter__(self) -> Self:
        """The cache itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

    def close(self) -> None:
        """Trims the file to its size, where this object stored something, and closes it."""
        try:
            if self._stored:
                self._trim()
        finally:
            self._db.close()

    def __contains__(self, key: bytes) -> bool:
        """Whether there is an answer."""
        with guarded(self.path):
            row = self._db.execute("SELECT 1 FROM replies WHERE key = ?", (key,)).fetchone()
        return row is not None

    def get(self, key: bytes) -> CachedReply | None:
        """The answer to a question; None where there is none.

        Raises:
            LLMCacheError: the file cannot be read.
        """
        with guarded(self.path):
            row = self._db.execute(
                "SELECT body, used FROM replies WHERE key = ?", (key,)
            ).fetchone()
            if row is None:
                return None
            now = int(self._today())
            if now - row[1] > _DAY:  # precise enough to tell what is in use, and seldom a write
                self._db.execute("UPDATE replies SET used = ? WHERE key = ?", (now, key))
        return _decoded(row[0])

    def put(self, key: bytes, reply: CachedReply, *, judge: str, model: str, purpose: str) -> None:
        """Keeps an answer; it is safe when this returns, whatever happens to the process.

        Args:
            key: see `cache_key`.
            reply: the answer: whole, and as it was asked for.
            judge: fingerprint of the endpoint's identity.
            model: the model, as it was asked for.
            purpose: what it was asked for first.

        Raises:
            LLMCacheError: the file cannot be written.
        """
        body = json.dumps(asdict(reply), ensure_ascii=True, separators=(",", ":"))
        now = int(self._today())
        with guarded(self.path):
            self._db.execute(
                "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (key, judge, model, purpose, body, len(body) + _OVERHEAD, now, now),
            )
        self._stored += 1
        if self._stored % _CHECKED_EVERY == 0:
            self._trim()

    def stats(self) -> CacheStats:
        """What there is."""
        with guarded(self.path):
            entries, size, oldest, newest = self._db.execute(
                "SELECT count(*), coalesce(sum(size), 0), min(created), max(created) FROM replies"
            ).fetchone()
            rows = self._db.execute(
                "SELECT model, purpose, count(*), sum(size) FROM replies "
                "GROUP BY 1, 2 ORDER BY 1, 2"
            ).fetchall()
        return CacheStats(
            path=str(self.path),
            entries=entries,
            bytes=size,
            file_bytes=self.path.stat().st_size,
            oldest=oldest,
            newest=newest,
            lines=tuple(
                CacheLine(model=model, purpose=purpose, entries=count, bytes=total)
                for model, purpose, count, total in rows
            ),
        )

    def prune(
        self,
        *,
        max_bytes: int | None = None,
        unused_days: float | None = None,
        model: str | None = None,
        everything: bool = False,
    ) -> int:
        """Removes answers.

        Args:
            max_bytes: those used longest ago, until the rest takes no more than that.
            unused_days: those not used for so many days.
            model: those of this model.
            everything: all of them.

        Returns:
            How many were removed.

        Raises:
            LLMCacheError: the file cannot be written.
        """
        before = self._db.total_changes
        with guarded(self.path):
            if everything:
                self._db.execute("DELETE FROM replies")
            if model is not None:
                self._db.execute("DELETE FROM replies WHERE model = ?", (model,))
            if unused_days is not None:
                limit = int(self._today() - unused_days * _DAY)
                self._db.execute("DELETE FROM replies WHERE used < ?", (limit,))
            if max_bytes is not None:
                self._db.execute(_TOO_MUCH, (max_bytes,))
            removed = self._db.total_changes - before
            if removed:
                self._db.execute("PRAGMA incremental_vacuum").fetchall()
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return removed

    def _trim(self) -> None:
        """Keeps to the size; what a small file holds need not be added up."""
        with guarded(self.path):
            (pages,) = self._db.execute("PRAGMA page_count").fetchone()
            (size,) = self._db.execute("PRAGMA page_size").fetchone()
        if pages * size > self._max_bytes:
            self.prune(max_bytes=self._max_bytes)


_TOO_MUCH = """
DELETE FROM replies WHERE key IN (
    SELECT key FROM (
        SELECT key, sum(size) OVER (ORDER BY used DESC, created DESC, key) AS total FROM replies
    ) WHERE total > ?
)
"""


def _decoded(body: str) -> CachedReply | None:
    """A row that was changed by hand is no answer."""
    try:
        raw = cast("dict[str, Any]", json.loads(body))
        usage = Usage(**raw.pop("usage"))
        return CachedReply(usage=usage, **raw)
    except (ValueError, TypeError, KeyError):
        return None
